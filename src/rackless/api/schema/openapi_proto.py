"""An OpenAPI v2 document as protobuf, the only form that older kubectl asks for.

Field numbers are those of gnostic's OpenAPIv2.proto; values that are free (enums, extensions) travel as YAML, and
JSON is YAML.
"""

from __future__ import annotations

import struct
from typing import Any

from rackless.api.encoding import encode
from rackless.api.status import Json
from rackless.api.wire import field, integer, varint

MEDIA = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_SCHEMA_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13, "discriminator": 26}
_SCHEMA_NUMBERS = {
    "maxLength": 11,
    "minLength": 12,
    "maxItems": 14,
    "minItems": 15,
    "maxProperties": 17,
    "minProperties": 18,
}
_SCHEMA_DOUBLES = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_SCHEMA_FLAGS = {"exclusiveMaximum": 8, "exclusiveMinimum": 10, "uniqueItems": 16, "readOnly": 27}
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def _text(number: int, value: str) -> bytes:
    return field(number, value.encode())


def _double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def _any(value: Any) -> bytes:
    return field(2, encode(value))


def _extensions(number: int, value: Json) -> bytes:
    return b"".join(
        field(number, _text(1, name) + field(2, _any(each))) for name, each in value.items() if name.startswith("x-")
    )


def encoded_schema(schema: Json) -> bytes:
    out = [_text(number, str(schema[name])) for name, number in _SCHEMA_TEXTS.items() if schema.get(name)]
    out += [
        integer(number, schema[name] % 2**64)
        for name, number in _SCHEMA_NUMBERS.items()
        if schema.get(name) is not None
    ]
    out += [_double(number, schema[name]) for name, number in _SCHEMA_DOUBLES.items() if schema.get(name) is not None]
    out += [integer(number, 1) for name, number in _SCHEMA_FLAGS.items() if schema.get(name)]
    if "default" in schema:
        out.append(field(5, _any(schema["default"])))
    out += [_text(19, name) for name in schema.get("required") or ()]
    out += [field(20, _any(value)) for value in schema.get("enum") or ()]
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        out.append(field(21, field(1, encoded_schema(additional))))
    elif additional is not None:
        out.append(field(21, integer(2, int(additional))))
    if schema.get("type"):
        out.append(field(22, _text(1, schema["type"])))
    if isinstance(schema.get("items"), dict):
        out.append(field(23, field(1, encoded_schema(schema["items"]))))
    out += [field(24, encoded_schema(each)) for each in schema.get("allOf") or ()]
    if schema.get("properties"):
        out.append(field(25, _named_schemas(schema["properties"])))
    out.append(_extensions(31, schema))
    return b"".join(out)


def _named_schemas(schemas: Json) -> bytes:
    return b"".join(field(1, _text(1, name) + field(2, encoded_schema(each))) for name, each in schemas.items())


def _parameter(parameter: Json) -> bytes:
    fields = (
        (integer(1, 1) if parameter.get("required") else b"") + _text(2, parameter["in"]) + _text(4, parameter["name"])
    )
    if parameter["in"] == "query":
        inner = field(3, fields + _text(6, parameter["type"]))
    else:
        inner = field(4, fields + _text(5, parameter["type"]))
    return field(1, field(2, inner))


def _operation(operation: Json) -> bytes:
    out = [_text(3, operation["description"]), _text(5, operation["operationId"])]
    out += [field(8, _parameter(each)) for each in operation.get("parameters") or ()]
    answers = b"".join(
        field(1, _text(1, code) + field(2, field(1, _text(1, each["description"]))))
        for code, each in operation["responses"].items()
    )
    out += [field(9, answers), _extensions(13, operation)]
    return b"".join(out)


def _path(item: Json) -> bytes:
    out = [field(number, _operation(item[method])) for method, number in _METHODS.items() if method in item]
    out += [field(9, _parameter(each)) for each in item.get("parameters") or ()]
    return b"".join(out)


def encoded(document: Json) -> bytes:
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(field(2, _text(1, name) + field(2, _path(item))) for name, item in document["paths"].items())
    return (
        _text(1, document["swagger"])
        + field(2, info)
        + field(8, paths)
        + field(9, _named_schemas(document["definitions"]))
    )
