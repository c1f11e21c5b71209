"""The keywords of a declared schema: which there are, and whether each has a value of its type.

A definition whose schema fails here cannot be served at all: nothing else may read such a schema. Whether a schema that
passes means one thing (is structural) is asked in `declared`. Knows nothing of kinds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from rackless.api.status import Cause, Json

DEEPEST = 100
"""Levels of schemas in schemas. Compiling takes a few frames of the interpreter for each, of which there are 1000."""
_DEEPEST_VALUE = 64
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
RULES = "x-kubernetes-validations"
_TEXTS = ("id", "$schema", "$ref", "description", "type", "format", "title", "pattern", "x-kubernetes-list-type",
          "x-kubernetes-map-type")  # fmt: skip
_FLAGS = ("exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "nullable", _PRESERVE, EMBEDDED, INT_OR_STRING)
_COUNTS = ("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties")
_NUMBERS = ("maximum", "minimum", "multipleOf")
_LISTS_OF_TEXTS = ("required", "x-kubernetes-list-map-keys")
_VALUES = ("default", "enum", "example")
_SCHEMA_MAPS = ("properties", "patternProperties", "definitions")
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf")
_SCHEMAS = ("items", "not", "additionalProperties", "additionalItems")
KNOWN = frozenset((*_TEXTS, *_FLAGS, *_COUNTS, *_NUMBERS, *_LISTS_OF_TEXTS, *_VALUES, *_SCHEMA_MAPS, *_SCHEMA_LISTS,
                   *_SCHEMAS, "dependencies", "externalDocs", RULES))  # fmt: skip


def _word(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return "null"


def wrong_type(at: str, value: Any, wanted: str) -> Cause:
    found = _word(value)
    return Cause(
        at, "FieldValueTypeInvalid", f'Invalid value: "{found}": {at} in body must be of type {wanted}: "{found}"'
    )


def _is_count(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and abs(value) < 1e308


def _are_texts(value: Any) -> bool:
    return type(value) is list and all(type(each) is str for each in value)


def _are_objects(value: Any) -> bool:
    return type(value) is list and all(type(each) is dict for each in value)


_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **{name: (lambda value: type(value) is str, "string") for name in _TEXTS},
    **{name: (lambda value: type(value) is bool, "boolean") for name in _FLAGS},
    **{name: (_is_count, "integer") for name in _COUNTS},
    **{name: (_is_number, "number") for name in _NUMBERS},
    **{name: (_are_texts, "array of strings") for name in _LISTS_OF_TEXTS},
    "enum": (lambda value: type(value) is list, "array"),
    RULES: (_are_objects, "array of objects"),
    **{name: (lambda value: type(value) is dict, "object") for name in _SCHEMA_MAPS},
    **{name: (lambda value: type(value) is list, "array") for name in _SCHEMA_LISTS},
}


def keyword_problems(schema: Any, at: str, depth: int = 0) -> Iterator[Cause]:
    """What is malformed in a schema and in every schema inside it."""
    if type(schema) is not dict:
        yield wrong_type(at, schema, "object")
        return
    if depth > DEEPEST:
        yield Cause(at, "FieldValueInvalid", f"Invalid value: schemas may be nested at most {DEEPEST} levels deep")
        return
    for name, value in schema.items():
        if value is None and name != "default":
            continue
        if name in _CHECKS:
            fits, wanted = _CHECKS[name]
            if not fits(value):
                yield wrong_type(f"{at}.{name}", value, wanted)
        if name in _VALUES and _deeper(value, _DEEPEST_VALUE):
            yield Cause(f"{at}.{name}", "FieldValueInvalid", "Invalid value: is nested too deeply")
    for where, part in inner_schemas(schema, at):
        yield from keyword_problems(part, where, depth + 1)


def inner_schemas(schema: Json, at: str) -> Iterator[tuple[str, Any]]:
    """The schemas directly inside one, with their places."""
    for name in _SCHEMA_MAPS:
        parts = schema.get(name)
        if type(parts) is dict:
            yield from ((f"{at}.{name}[{each}]", part) for each, part in parts.items())
    for name in _SCHEMA_LISTS:
        parts = schema.get(name)
        if type(parts) is list:
            yield from ((f"{at}.{name}[{index}]", part) for index, part in enumerate(parts))
    for name in _SCHEMAS:
        part = schema.get(name)
        if part is not None and not (type(part) is bool and name.startswith("additional")):
            yield f"{at}.{name}", part


def _deeper(value: Any, left: int) -> bool:
    if type(value) is dict:
        return left == 0 or any(_deeper(each, left - 1) for each in value.values())
    if type(value) is list:
        return left == 0 or any(_deeper(each, left - 1) for each in value)
    return False


def cleaned(schema: Any, at: str, unknown: list[str], depth: int = 0) -> Any:
    """A schema without keywords that nobody knows (they go to `unknown`) and without those that are null."""
    if type(schema) is not dict or depth > DEEPEST:
        return schema
    found: Json = {}
    for name, value in schema.items():
        if name not in KNOWN:
            unknown.append(f"{at}.{name}")
        elif value is None and name != "default":
            continue
        elif name in _SCHEMA_MAPS and type(value) is dict:
            found[name] = {
                each: cleaned(part, f"{at}.{name}[{each}]", unknown, depth + 1) for each, part in value.items()
            }
        elif name in _SCHEMA_LISTS and type(value) is list:
            found[name] = [cleaned(part, f"{at}.{name}[{i}]", unknown, depth + 1) for i, part in enumerate(value)]
        elif name in _SCHEMAS:
            found[name] = cleaned(value, f"{at}.{name}", unknown, depth + 1)
        else:
            found[name] = value
    return found
