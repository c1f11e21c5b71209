"""`x-kubernetes-validations`: rules in CEL beside a schema, checked on a value and on what it replaces.

A rule that speaks of `oldSelf` is about a change and only checked where both are known; another is not checked again
on a part that did not change. Compiled when the first object of the kind is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from rackless.api.schema.cel import MOST_STEPS, Broken, Expression, Unsupported
from rackless.api.schema.cel_child import TooCostly
from rackless.api.schema.structural import joined, type_name
from rackless.api.status import Cause, Json

_RULES = "x-kubernetes-validations"
_UNSEEN = object()
_LONGEST = 30.0
"""Seconds that the rules of one object may take together, in their thread."""
_REASONS = {
    "FieldValueInvalid": "Invalid value: {shown}: {message}",
    "FieldValueForbidden": "Forbidden: {message}",
    "FieldValueRequired": "Required value: {message}",
    "FieldValueDuplicate": "Duplicate value: {shown}",
}


class Findings:
    """What the rules of one object found, and how much they may still cost."""

    def __init__(self) -> None:
        self.causes: list[Cause] = []
        self.left = 5 * MOST_STEPS
        self.until = time.monotonic() + _LONGEST


Check = Callable[[Any, Any, str, Findings], None]
"""(value, what it replaces or `_UNSEEN`, path, findings)"""


def check_rules(check: Check, new: Json, old: Json | None) -> list[Cause]:
    findings = Findings()
    check(new, _UNSEEN if old is None else old, "", findings)
    return findings.causes


def rule_problems(schema: Any, at: str) -> Iterator[tuple[Cause | None, str]]:
    """For a definition: what is wrong with its rules, or (as a warning) which of them are not evaluated."""
    if not isinstance(schema, dict):
        return
    for index, rule in enumerate(_listed(schema)):
        where = f"{at}.{_RULES}[{index}]"
        if not isinstance(rule, dict) or not isinstance(rule.get("rule"), str) or not rule["rule"].strip():
            yield Cause(f"{where}.rule", "FieldValueRequired", "Required value: rule is not specified"), ""
            continue
        try:
            _Rule(rule)
        except Unsupported as why:
            yield None, f"{where}: kept but not evaluated by this server: {why}"
        except Broken as error:
            message = f'Invalid value: "{rule.get("rule", "")}": compilation failed: {error}'
            yield Cause(f"{where}.rule", "FieldValueInvalid", message), ""
    properties = schema.get("properties")
    for name, part in (properties if isinstance(properties, dict) else {}).items():
        yield from rule_problems(part, f"{at}.properties[{name}]")
    for name in ("items", "additionalProperties"):
        yield from rule_problems(schema.get(name), f"{at}.{name}")


def _listed(schema: Json) -> list[Any]:
    rules = schema.get(_RULES)
    return rules if isinstance(rules, list) else []


def compile_rules(schema: Any) -> Check | None:
    """The check of a schema and everything in it; None when there is no rule anywhere."""
    if not isinstance(schema, dict):
        return None
    rules = list(_usable(schema))
    properties = {
        name: found for name, part in (schema.get("properties") or {}).items() if (found := compile_rules(part))
    }
    extra = compile_rules(schema.get("additionalProperties"))
    known = frozenset(schema.get("properties") or ())
    items = compile_rules(schema.get("items"))
    if not (rules or properties or extra or items):
        return None
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []

    def check(value: Any, old: Any, path: str, findings: Findings) -> None:
        if rules and value is not None:
            _apply(rules, schema, value, old, path, findings)
        if isinstance(value, dict) and (properties or extra):
            before = old if isinstance(old, dict) else {}
            for name, part in value.items():
                inner = properties.get(name) or (extra if name not in known else None)
                if inner:
                    inner(part, before.get(name, _UNSEEN), joined(path, name) if path else name, findings)
        elif isinstance(value, list) and items:
            find = _partners(old, keys)
            for index, part in enumerate(value):
                items(part, find(part), f"{path}[{index}]", findings)

    return check


def _partners(old: Any, keys: list[str]) -> Callable[[Any], Any]:
    """Which old item an item replaces: only lists with keys can tell."""
    if not keys or not isinstance(old, list):
        return lambda item: _UNSEEN
    known = {repr([each.get(k) for k in keys]): each for each in old if isinstance(each, dict)}
    return lambda item: known.get(repr([item.get(k) for k in keys]), _UNSEEN) if isinstance(item, dict) else _UNSEEN


class _Rule:
    def __init__(self, rule: Json) -> None:
        if rule.get("optionalOldSelf"):
            raise Unsupported("optionalOldSelf is not known here")
        self.expression = Expression(str(rule.get("rule", "")))
        self.text = " ".join(str(rule.get("rule", "")).split())
        self.message = str(rule.get("message") or "").strip() or f"failed rule: {self.text}"
        self.reason = str(rule.get("reason") or "FieldValueInvalid")
        self.path = str(rule.get("fieldPath") or "").lstrip(".")
        spoken = rule.get("messageExpression")
        self.spoken = Expression(str(spoken)) if spoken else None

    def cause(self, message: str, value: Any, path: str) -> Cause:
        form = _REASONS.get(self.reason, _REASONS["FieldValueInvalid"])
        return Cause(
            joined(path, self.path) if path else self.path,
            self.reason if self.reason in _REASONS else "FieldValueInvalid",
            form.format(shown=f'"{type_name(value)}"', message=message),
        )

    def words(self, variables: Json, weight: tuple[int, int]) -> str:
        """The message, said by its own expression where there is one that works."""
        if self.spoken:
            try:
                found = self.spoken.value(variables, small=self.spoken.small(*weight))
            except (Broken, TooCostly):
                found = None
            if isinstance(found, str) and found.strip() and "\n" not in found:
                return found.strip()
        return self.message


def _usable(schema: Json) -> Iterator[_Rule]:
    for rule in _listed(schema):
        try:
            yield _Rule(rule)
        except (Unsupported, Broken):
            continue  # the definition's author was told


def _apply(rules: list[_Rule], schema: Json, value: Any, old: Any, path: str, findings: Findings) -> None:
    variables: Json | None = None
    changed, weight = value != old, (0, 0)
    for rule in rules:
        if findings.left < 0:
            return  # the budget is spent, and that has been told
        if old is _UNSEEN if rule.expression.on_change else not changed:
            continue
        if variables is None:
            variables = {"self": _typed(value, schema)}
            if old is not _UNSEEN:
                variables["oldSelf"] = _typed(old, schema)
            weight = max(_weight(value), _weight(old))
        steps = rule.expression.steps(*weight)
        findings.left -= steps
        if steps > MOST_STEPS or findings.left < 0 or time.monotonic() > findings.until:
            findings.causes.append(_exhausted(value, path))
            findings.left = -1
            return
        small = rule.expression.small(*weight)
        try:
            held = rule.expression.value(variables, small=small)
        except TooCostly:
            findings.causes.append(_exhausted(value, path))
            findings.left = -1
            return
        except Broken as error:
            findings.causes.append(rule.cause(f"{error} evaluating rule: {rule.message}", value, path))
            continue
        if held is not True:
            findings.causes.append(rule.cause(rule.words(variables, weight), value, path))


def _exhausted(value: Any, path: str) -> Cause:
    why = "validation failed due to running out of cost budget, no further validation rules will be run"
    return Cause(path, "FieldValueInvalid", f'Invalid value: "{type_name(value)}": {why}')


def _weight(value: Any) -> tuple[int, int]:
    """How many values and how many characters are in it."""
    if isinstance(value, str):
        return 1, len(value)
    if isinstance(value, dict):
        parts = [_weight(part) for part in value.values()]
        return 1 + sum(each for each, _ in parts), sum(map(len, value)) + sum(each for _, each in parts)
    if isinstance(value, list):
        parts = list(map(_weight, value))
        return 1 + sum(each for each, _ in parts), sum(each for _, each in parts)
    return 1, 0


_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_RESERVED = frozenset((
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return",
))  # fmt: skip


def _escaped(name: str) -> str:
    """A property's name as expressions write it."""
    if name in _RESERVED:
        return f"__{name}__"
    for plain, written in _ESCAPES:
        name = name.replace(plain, written)
    return name


def _typed(value: Any, schema: Any) -> Any:
    """The value as the schema's types mean it: numbers, times, and properties by their escaped names."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, dict):
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        return {
            (_escaped(name) if name in properties else name): _typed(part, properties.get(name, extra))
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [_typed(part, schema.get("items")) for part in value]
    if schema.get("type") == "number" and type(value) is int:
        return float(value)
    if schema.get("format") == "date-time" and isinstance(value, str):
        try:
            return datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            return value
    return value
