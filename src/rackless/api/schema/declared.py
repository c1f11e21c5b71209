"""Whether a declared schema is structural: every value has one type, in one place, with one meaning.

The rules and sentences are those of the real server. Asked of schemas whose keywords are sound (`keywords`), when a
definition is written.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from rackless.api.schema.keywords import EMBEDDED, INT_OR_STRING, inner_schemas
from rackless.api.schema.structural import WalkReport, compile_schema, finished
from rackless.api.schema.values import compile_pattern
from rackless.api.status import Cause, Json, forbidden_field, invalid_value, required, unsupported

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_LIST_TYPE, _LIST_KEYS, _MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
_NOT_SUPPORTED = ("id", "$schema", "$ref", "definitions", "dependencies", "patternProperties", "additionalItems")
_ONLY_OUTSIDE = ("description", "title", "default", "additionalProperties", "nullable", "type", _PRESERVE, EMBEDDED,
                 INT_OR_STRING, _LIST_TYPE, _LIST_KEYS, _MAP_TYPE)  # fmt: skip
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_MOST_WORK = 100_000
"""Schemas compiled to check defaults: each default has its own schema compiled, with all that is inside it."""
_EITHER: list[Json] = [{"type": "integer"}, {"type": "string"}]


def declared_problems(schema: Json, at: str) -> Iterator[Cause]:
    """For the whole schema of a version."""
    if schema.get("type") and schema["type"] != "object":
        yield invalid_value(f"{at}.type", schema["type"], "must be object at the root")
    if "default" in schema:
        yield forbidden_field(f"{at}.default", "must not be set at root")
    yield from _metadata(schema, f"{at}.properties[metadata]")
    yield from _node(schema, at, "at the root", [])


def _metadata(schema: Json, at: str) -> Iterator[Cause]:
    """Of metadata, which every object has, only the name may be restricted."""
    metadata = (schema.get("properties") or {}).get("metadata")
    if not metadata:
        return
    named = {key: value for key, value in metadata.items() if key not in ("type", "properties", "description")}
    inside = set(metadata.get("properties") or {}) - {"name", "generateName"}
    if named or inside or metadata.get("type", "object") != "object":
        yield forbidden_field(
            at, "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )


def _node(schema: Json, at: str, level: str, work: list[int]) -> Iterator[Cause]:
    """`work` has what was compiled so far to check defaults."""
    yield from _everywhere(schema, at)
    yield from _typed(schema, at, level)
    yield from _listed(schema, at)
    yield from _properties(schema, at)
    for name in _JUNCTORS:
        for index, part in enumerate(schema.get(name) or ()):
            yield from _condition(part, f"{at}.{name}[{index}]", _may_say_types(schema, name))
    if schema.get("not"):
        yield from _condition(schema["not"], f"{at}.not", ())
    for name, part in (schema.get("properties") or {}).items():
        yield from _node(part, f"{at}.properties[{name}]", "for specified object fields", work)
    if isinstance(schema.get("additionalProperties"), dict):
        inner = schema["additionalProperties"]
        yield from _node(inner, f"{at}.additionalProperties", "for specified object fields", work)
    if isinstance(schema.get("items"), dict):
        yield from _node(schema["items"], f"{at}.items", "for specified array items", work)
    if "default" in schema and level != "at the root":
        work.append(_size(schema))
        if sum(work) > _MOST_WORK:
            yield invalid_value(f"{at}.default", "", "the definition has too many defaults around each other")
        else:
            yield from _default(schema, f"{at}.default")


def _everywhere(schema: Json, at: str) -> Iterator[Cause]:
    """What holds for conditions, too."""
    for name in _NOT_SUPPORTED:
        if schema.get(name):
            yield forbidden_field(f"{at}.{name}", f"{name.strip('$')} is not supported")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{at}.uniqueItems", why)
    if schema.get("multipleOf") is not None and schema["multipleOf"] <= 0:
        yield invalid_value(f"{at}.multipleOf", schema["multipleOf"], "must be greater than 0")
    if schema.get("pattern"):
        try:
            compile_pattern(schema["pattern"])
        except Exception as error:  # the engine's own error, and what engines raise on patterns too large or deep
            why = f"must be a valid regular expression, but isn't: {error}"
            yield invalid_value(f"{at}.pattern", schema["pattern"], why)


def _typed(schema: Json, at: str, level: str) -> Iterator[Cause]:
    kind = schema.get("type")
    if schema.get(_PRESERVE) is False:
        yield invalid_value(f"{at}.{_PRESERVE}", False, "must be true or undefined")
    if schema.get(INT_OR_STRING):
        if kind:
            yield invalid_value(f"{at}.type", kind, "must be empty if x-kubernetes-int-or-string is true")
        for name in (_PRESERVE, EMBEDDED):
            if schema.get(name):
                yield forbidden_field(f"{at}.{name}", "must be false if x-kubernetes-int-or-string is true")
    elif kind == "null":
        yield forbidden_field(f"{at}.type", "type cannot be set to null, use nullable as an alternative")
    elif kind and kind not in _TYPES:
        yield unsupported(f"{at}.type", kind, _TYPES)
    elif not kind and (level == "at the root" or not schema.get(_PRESERVE)):
        yield required(f"{at}.type", f"must not be empty {level}")
    if kind == "array" and schema.get("items") is None:
        yield required(f"{at}.items", "must be specified")
    if schema.get(EMBEDDED):
        if kind != "object":
            yield invalid_value(f"{at}.type", kind or "", "must be object if x-kubernetes-embedded-resource is true")
        if not schema.get("properties") and not schema.get(_PRESERVE):
            yield required(f"{at}.properties", "must not be empty if x-kubernetes-embedded-resource is true without "
                                               "x-kubernetes-preserve-unknown-fields")  # fmt: skip


def _properties(schema: Json, at: str) -> Iterator[Cause]:
    extra = schema.get("additionalProperties")
    if extra is False:
        yield forbidden_field(f"{at}.additionalProperties", "additionalProperties cannot be set to false")
    elif extra is not None and schema.get("properties"):
        why = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{at}.additionalProperties", why)


def _listed(schema: Json, at: str) -> Iterator[Cause]:
    """How lists and maps merge."""
    how, keys = schema.get(_LIST_TYPE), schema.get(_LIST_KEYS) or []
    if how:
        if schema.get("type") != "array":
            yield invalid_value(
                f"{at}.type", schema.get("type", ""), "must be array if x-kubernetes-list-type is specified"
            )
        if how not in ("atomic", "map", "set"):
            yield unsupported(f"{at}.{_LIST_TYPE}", how, ("atomic", "map", "set"))
    if keys and how != "map":
        yield invalid_value(f"{at}.{_LIST_TYPE}", how or "", "must be map if x-kubernetes-list-map-keys is non-empty")
    if how == "map":
        yield from _list_map(schema, keys, at)
    merged = schema.get(_MAP_TYPE)
    if merged:
        if schema.get("type") != "object":
            yield invalid_value(
                f"{at}.type", schema.get("type", ""), "must be object if x-kubernetes-map-type is specified"
            )
        if merged not in ("granular", "atomic"):
            yield unsupported(f"{at}.{_MAP_TYPE}", merged, ("atomic", "granular"))


def _list_map(schema: Json, keys: list[str], at: str) -> Iterator[Cause]:
    if not keys:
        yield required(f"{at}.{_LIST_KEYS}", "must not be empty if x-kubernetes-list-type is map")
    items = schema.get("items")
    if not isinstance(items, dict):
        yield required(f"{at}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if items.get("type") != "object":
        yield invalid_value(
            f"{at}.items.type", items.get("type", ""), "must be object if parent array's x-kubernetes-list-type is map"
        )
    if len(set(keys)) != len(keys):
        yield invalid_value(f"{at}.{_LIST_KEYS}", keys, "must not contain duplicate entries")
    properties = items.get("properties") or {}
    for key in keys:
        where = f"{at}.items.properties[{key}]"
        if key not in properties:
            yield invalid_value(f"{at}.{_LIST_KEYS}", keys, "entries must all be names of item properties")
        elif properties[key].get("type") in ("array", "object"):
            why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid_value(f"{where}.type", properties[key]["type"], why)
        elif key not in (items.get("required") or ()) and "default" not in properties[key]:
            why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(f"{where}.default", why)


def _may_say_types(schema: Json, junctor: str) -> tuple[Json, ...]:
    """Integer or string may be said once more in words that other programs know."""
    if not schema.get(INT_OR_STRING):
        return ()
    parts = schema.get(junctor) or []
    if junctor == "anyOf" and parts == _EITHER:
        return tuple(parts)
    if junctor == "allOf" and parts and parts[0].get("anyOf") == _EITHER:
        return (parts[0],)
    return ()


def _condition(schema: Json, at: str, excepted: tuple[Json, ...]) -> Iterator[Cause]:
    """A schema in allOf, anyOf, oneOf or not: it may only restrict values, never say what they are."""
    if any(schema is each for each in excepted):
        return
    yield from _everywhere(schema, at)
    for name in _ONLY_OUTSIDE:
        if schema.get(name) not in (None, False, "", []):
            yield forbidden_field(f"{at}.{name}", "must be empty to be structural")
    for where, part in inner_schemas(schema, at):
        if isinstance(part, dict):
            yield from _condition(part, where, ())


def _size(schema: Json) -> int:
    return 1 + sum(_size(part) for _, part in inner_schemas(schema, "") if isinstance(part, dict))


def _default(schema: Json, at: str) -> Iterator[Cause]:
    """A default is a value of its own schema, whole."""
    default: Any = copy.deepcopy(schema["default"])
    report = WalkReport()
    try:
        compile_schema({key: value for key, value in schema.items() if key != "default"})(default, report)
    except Exception:  # the schema itself is wrong, which is told where it is
        return
    for cause in finished(report.causes):
        yield Cause(f"{at}.{cause.field}" if cause.field else at, cause.reason, cause.message)
    for name in report.unknown:
        yield invalid_value(at, schema["default"], f"must not have unknown fields: {name}")
