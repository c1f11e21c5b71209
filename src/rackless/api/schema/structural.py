"""A structural schema compiled to closures that prune, default and validate an object in one walk, in place.

Each node is a function `(value, report)`. What is found is reported with a path relative to the node, and parents put
their own step in front of it, so that an object without problems costs no path at all. Knows nothing of HTTP or of
kinds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from rackless.api.schema.values import value_checks
from rackless.api.status import Cause, Json, duplicate, required, shown

MOST_REPORTED = 100
"""Unknown fields, and mistakes, that are told of one object: more help nobody, and every level of it names them anew."""


class WalkReport:
    """What a walk found: `causes` refuse the object, `unknown` were pruned."""

    __slots__ = ("causes", "unknown")

    def __init__(self) -> None:
        self.causes: list[Cause] = []
        self.unknown: list[str] = []

    def within(self, step: str, causes: int, unknown: int) -> None:
        """Put a step before everything reported since there were that many."""
        for index in range(causes, len(self.causes)):
            cause = self.causes[index]
            self.causes[index] = Cause(joined(step, cause.field), cause.reason, cause.message)
        for index in range(unknown, len(self.unknown)):
            self.unknown[index] = joined(step, self.unknown[index])


def joined(step: str, rest: str) -> str:
    if not rest:
        return step
    return step + rest if rest[0] == "[" else f"{step}.{rest}"


Node = Callable[[Any, WalkReport], None]

_NAMES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def type_name(value: Any) -> str:
    return _NAMES[type(value)]


def _wrong_type(value: Any, wanted: str) -> Cause:
    found = type_name(value)
    return Cause(
        "", "FieldValueTypeInvalid", f'Invalid value: "{found}": \0 in body must be of type {wanted}: "{found}"'
    )


def _fits(value: Any, wanted: str) -> bool:
    kind = type(value)
    match wanted:
        case "object":
            return kind is dict
        case "array":
            return kind is list
        case "string":
            return kind is str
        case "boolean":
            return kind is bool
        case "integer":
            return kind is int or (kind is float and value.is_integer())
        case "number":
            return kind is int or kind is float
    return True


def finished(causes: list[Cause]) -> list[Cause]:
    """Messages that repeat their own path get it now that it is whole."""
    return [
        Cause(cause.field, cause.reason, cause.message.replace("\0", cause.field)) if "\0" in cause.message else cause
        for cause in causes
    ]


def compile_schema(schema: Json | bool | None, *, root: bool = False) -> Node:
    """The walk of a schema. At the root `apiVersion`, `kind` and `metadata` belong to the server and are left alone."""
    if schema is True or not schema:
        return _anything
    assert isinstance(schema, dict)
    wanted = schema.get("type", "")
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    nullable = bool(schema.get("nullable"))
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    checks = value_checks(schema, lambda part: _fits_whole(part))
    if wanted == "array":
        body = _array(schema)
    elif wanted == "object" or "properties" in schema or "additionalProperties" in schema or preserve:
        body = _object(schema, root=root, preserve=preserve)
    else:
        body = None

    def node(value: Any, report: WalkReport) -> None:
        if value is None:
            if not nullable:
                if wanted or int_or_string:
                    report.causes.append(_wrong_type(value, wanted or "integer,string"))
            return
        if int_or_string:
            if type(value) is not int and type(value) is not str:
                report.causes.append(_wrong_type(value, "integer,string"))
                return
        elif wanted and not _fits(value, wanted):
            report.causes.append(_wrong_type(value, wanted))
            return
        if body is not None and type(value) in (dict, list):
            body(value, report)
        for check in checks:
            check(value, report.causes)

    if body is None and not checks and wanted in _EXACT and not int_or_string:
        return _scalar(wanted, nullable)
    if wanted == "object" and body is not None and not checks:
        return _plain_object(body, nullable)
    return node


_EXACT = {"string": str, "boolean": bool}


def _scalar(wanted: str, nullable: bool) -> Node:
    exact = _EXACT[wanted]

    def node(value: Any, report: WalkReport) -> None:
        if type(value) is not exact and not (value is None and nullable):
            report.causes.append(_wrong_type(value, wanted))

    return node


def _plain_object(body: Node, nullable: bool) -> Node:
    def node(value: Any, report: WalkReport) -> None:
        if type(value) is dict:
            body(value, report)
        elif not (value is None and nullable):
            report.causes.append(_wrong_type(value, "object"))

    return node


def _anything(value: Any, report: WalkReport) -> None:
    return None


def _fits_whole(schema: Json) -> Callable[[Any], bool]:
    """Whether a value satisfies a schema used as a condition (in anyOf, not, …); such schemas never prune or
    default.
    """
    node = compile_schema({**schema, "x-kubernetes-preserve-unknown-fields": True} if "type" not in schema else schema)

    def fits(value: Any) -> bool:
        report = WalkReport()
        node(copy.deepcopy(value), report)
        return not report.causes

    return fits


def _array(schema: Json) -> Node:
    item = compile_schema(schema.get("items"))
    list_type = schema.get("x-kubernetes-list-type", "atomic")
    keys: list[str] = schema.get("x-kubernetes-list-map-keys", [])

    def array(value: list[Any], report: WalkReport) -> None:
        causes, unknown = report.causes, report.unknown
        for index, each in enumerate(value):
            before, before_unknown = len(causes), len(unknown)
            item(each, report)
            if len(causes) != before or len(unknown) != before_unknown:
                report.within(f"[{index}]", before, before_unknown)
                if len(causes) >= MOST_REPORTED:
                    return
        if list_type == "set":
            _no_duplicates(value, lambda each: each, report)
        elif list_type == "map":
            _no_duplicates(
                value, lambda each: {k: each.get(k) for k in keys} if isinstance(each, dict) else each, report
            )

    return array


def _no_duplicates(value: list[Any], identity: Callable[[Any], Any], report: WalkReport) -> None:
    if len(value) < 2:
        return
    seen = set()
    for index, each in enumerate(value):
        mark = shown(identity(each))
        if mark in seen and len(report.causes) < MOST_REPORTED:
            report.causes.append(duplicate(f"[{index}]", identity(each)))
        seen.add(mark)


def _defaults(properties: Json) -> list[tuple[str, Any, bool]]:
    found = []
    for name, schema in properties.items():
        if isinstance(schema, dict) and "default" in schema:
            found.append((name, schema["default"], bool(schema.get("nullable"))))
    return found


def _object(schema: Json, *, root: bool, preserve: bool) -> Node:
    properties: Json = schema.get("properties") or {}
    skipped = ("apiVersion", "kind", "metadata") if root or schema.get("x-kubernetes-embedded-resource") else ()
    nodes: dict[str, Node] = {
        name: _anything if name in skipped else compile_schema(each) for name, each in properties.items()
    }
    for name in skipped:
        nodes[name] = _anything
    additional = schema.get("additionalProperties")
    extra = compile_schema(additional) if additional not in (None, False) else None
    defaults = _defaults(properties)
    needed = [name for name in schema.get("required") or () if name not in skipped]
    find = nodes.get

    def walk(value: Json, report: WalkReport) -> None:
        for name, default, nullable in defaults:
            if name not in value or (value[name] is None and not nullable):
                value[name] = copy.deepcopy(default)
        causes, unknown = report.causes, report.unknown
        strangers = None
        for name, each in value.items():
            node = find(name)
            if node is None:
                if extra is None:
                    if not preserve:
                        if strangers is None:
                            strangers = []
                        strangers.append(name)
                    continue
                node = extra
            before, before_unknown = len(causes), len(unknown)
            node(each, report)
            if len(causes) != before or len(unknown) != before_unknown:
                report.within(name, before, before_unknown)
                if len(causes) >= MOST_REPORTED:
                    return  # it is refused, and for reasons enough
        for name in needed:
            if name not in value:
                causes.append(required(name))
        if strangers:
            for name in strangers:
                del value[name]
            unknown.extend(strangers[: max(0, MOST_REPORTED - len(unknown))])

    return walk
