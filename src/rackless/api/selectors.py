"""Label and field selectors: text to a test on an object. Parsed once per request, asked once per object."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rackless.api.names import label_key_problem, label_value_problem
from rackless.api.status import bad_request

_SET = re.compile(r"^\s*([^\s!=,()]+)\s+(in|notin)\s*\(([^()]*)\)\s*$")
_COMPARE = re.compile(r"^\s*([^\s!=,()<>]+)\s*(==|=|!=|<|>)\s*([^\s!=,()<>]*)\s*$")
_MOST = 256
"""Requirements of a selector: each is asked of every object."""
_FIELD = re.compile(r"^([^=!]+)(==|=|!=)(.*)$", re.DOTALL)
_FIELDS_END = re.compile(r"(?<!\\),")
_EXISTS = re.compile(r"^\s*(!?)\s*([^\s!=,()]+)\s*$")


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: str
    values: frozenset[str]

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
        try:
            number, limit = int(value or ""), int(next(iter(self.values)))
        except ValueError:
            return False
        return number > limit if self.operator == ">" else number < limit


@dataclass(frozen=True, slots=True)
class LabelSelector:
    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        return all(requirement.matches(labels or {}) for requirement in self.requirements)


def _split(text: str) -> list[str]:
    """At the commas that are not inside parentheses."""
    parts, begin, inside = [], 0, False
    for found in re.finditer(r"[(),]", text):
        if found[0] != ",":
            inside = found[0] == "("
        elif not inside:
            parts.append(text[begin : found.start()])
            begin = found.end()
    parts.append(text[begin:])
    if len(parts) > _MOST:
        raise bad_request(f"a selector of {len(parts)} requirements, of {_MOST} at most")
    return parts


def _requirement(part: str, whole: str) -> Requirement:
    def refuse(why: str) -> Exception:
        return bad_request(f"unable to parse requirement: {why}" if why else f"unable to parse selector {whole!r}")

    if found := _SET.match(part):
        key, operator, inner = found.groups()
        values = frozenset(value.strip() for value in inner.split(","))
    elif found := _COMPARE.match(part):
        key, sign, value = found.groups()
        operator = {"=": "in", "==": "in", "!=": "notin"}.get(sign, sign)
        values = frozenset([value])
    elif found := _EXISTS.match(part):
        operator, key, values = ("absent" if found[1] else "exists"), found[2], frozenset()
    else:
        raise refuse(f"found '{part.strip()}', expected: identifier or a comparison")
    if problem := label_key_problem(key):
        raise refuse(f'<nil>: Invalid value: "{key}": {problem}')
    for value in values:
        if problem := label_value_problem(value):
            raise refuse(f'values[0][{key}]: Invalid value: "{value}": {problem}')
    return Requirement(key, operator, values)


def parse_labels(text: str) -> LabelSelector | None:
    if not text.strip():
        return None
    return LabelSelector(tuple(_requirement(part, text) for part in _split(text)))


def labels_from_object(selector: Mapping[str, Any]) -> LabelSelector:
    """A `metav1.LabelSelector` value."""
    found = [Requirement(k, "in", frozenset([v])) for k, v in (selector.get("matchLabels") or {}).items()]
    words = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
    for each in selector.get("matchExpressions") or ():
        found.append(Requirement(each["key"], words[each["operator"]], frozenset(each.get("values") or ())))
    return LabelSelector(tuple(found))


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """`name` and `namespace` are known from the key alone; `others` need the object."""

    name: str | None = None
    namespace: str | None = None
    others: tuple[tuple[str, bool, str], ...] = ()
    fields: Callable[[Mapping[str, Any]], Mapping[str, str]] | None = None

    def matches(self, obj: Mapping[str, Any]) -> bool:
        if not self.others:
            return True
        assert self.fields
        values = self.fields(obj)
        return all((values.get(field, "") == value) is equal for field, equal, value in self.others)


def field_requirements(text: str) -> list[tuple[str, bool, str]]:
    """Field, whether it must be equal, value. A comma after a backslash is one of the value."""
    parts = _FIELDS_END.split(text) if text.strip() else []
    if len(parts) > _MOST:
        raise bad_request(f"a selector of {len(parts)} requirements, of {_MOST} at most")
    requirements = []
    for part in parts:
        found = _FIELD.match(part.strip())
        if not found:
            raise bad_request(f"invalid selector: {text!r}; can't understand {part!r}")
        requirements.append((found[1].strip(), found[2] != "!=", re.sub(r"\\(.)", r"\1", found[3])))
    return requirements


def parse_fields(
    text: str,
    supported: frozenset[str] = frozenset(),
    fields: Callable[[Mapping[str, Any]], Mapping[str, str]] | None = None,
) -> FieldSelector | None:
    """`metadata.name` and `metadata.namespace` of every kind, and what the kind itself supports."""
    if not text.strip():
        return None
    name = namespace = None
    others: list[tuple[str, bool, str]] = []
    for field, equal, value in field_requirements(text):
        if field == "metadata.name" and equal and name in (None, value):
            name = value
        elif field == "metadata.namespace" and equal and namespace in (None, value):
            namespace = value
        elif field in ("metadata.name", "metadata.namespace") or field in supported:
            others.append((field, equal, value))
        else:
            raise bad_request(f"field label not supported: {field}")

    def values(obj: Mapping[str, Any]) -> dict[str, str]:
        metadata = obj["metadata"]
        own = {"metadata.name": metadata["name"], "metadata.namespace": metadata.get("namespace", "")}
        return {**own, **(fields(obj) if fields else {})}

    return FieldSelector(name, namespace, tuple(others), values)
