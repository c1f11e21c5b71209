"""An OpenAPI v2 document as protobuf, the only form that older kubectl asks for.

Field numbers are those of gnostic's OpenAPIv2.proto; values that are free (enums, extensions) travel as YAML, and
JSON is YAML.
"""

from __future__ import annotations

import struct
from typing import Any

from rackless.api.encoding import encode
from rackless.api.status import Json

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


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _int(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)


def _any(value: Any) -> bytes:
    return _bytes(2, encode(value))


def _extensions(number: int, value: Json) -> bytes:
    return b"".join(
        _bytes(number, _text(1, name) + _bytes(2, _any(each))) for name, each in value.items() if name.startswith("x-")
    )


def _schema(schema: Json) -> bytes:
    out = [_text(number, str(schema[name])) for name, number in _SCHEMA_TEXTS.items() if schema.get(name)]
    out += [_int(number, schema[name]) for name, number in _SCHEMA_NUMBERS.items() if schema.get(name) is not None]
    out += [_double(number, schema[name]) for name, number in _SCHEMA_DOUBLES.items() if schema.get(name) is not None]
    out += [_int(number, 1) for name, number in _SCHEMA_FLAGS.items() if schema.get(name)]
    if "default" in schema:
        out.append(_bytes(5, _any(schema["default"])))
    out += [_text(19, name) for name in schema.get("required") or ()]
    out += [_bytes(20, _any(value)) for value in schema.get("enum") or ()]
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        out.append(_bytes(21, _bytes(1, _schema(additional))))
    elif additional is not None:
        out.append(_bytes(21, _int(2, int(additional))))
    if schema.get("type"):
        out.append(_bytes(22, _text(1, schema["type"])))
    if isinstance(schema.get("items"), dict):
        out.append(_bytes(23, _bytes(1, _schema(schema["items"]))))
    out += [_bytes(24, _schema(each)) for each in schema.get("allOf") or ()]
    if schema.get("properties"):
        out.append(_bytes(25, _named_schemas(schema["properties"])))
    out.append(_extensions(31, schema))
    return b"".join(out)


def _named_schemas(schemas: Json) -> bytes:
    return b"".join(_bytes(1, _text(1, name) + _bytes(2, _schema(each))) for name, each in schemas.items())


def _parameter(parameter: Json) -> bytes:
    fields = (
        (_int(1, 1) if parameter.get("required") else b"") + _text(2, parameter["in"]) + _text(4, parameter["name"])
    )
    if parameter["in"] == "query":
        inner = _bytes(3, fields + _text(6, parameter["type"]))
    else:
        inner = _bytes(4, fields + _text(5, parameter["type"]))
    return _bytes(1, _bytes(2, inner))


def _operation(operation: Json) -> bytes:
    out = [_text(3, operation["description"]), _text(5, operation["operationId"])]
    out += [_bytes(8, _parameter(each)) for each in operation.get("parameters") or ()]
    answers = b"".join(
        _bytes(1, _text(1, code) + _bytes(2, _bytes(1, _text(1, each["description"]))))
        for code, each in operation["responses"].items()
    )
    out += [_bytes(9, answers), _extensions(13, operation)]
    return b"".join(out)


def _path(item: Json) -> bytes:
    out = [_bytes(number, _operation(item[method])) for method, number in _METHODS.items() if method in item]
    out += [_bytes(9, _parameter(each)) for each in item.get("parameters") or ()]
    return b"".join(out)


def encoded(document: Json) -> bytes:
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(_bytes(2, _text(1, name) + _bytes(2, _path(item))) for name, item in document["paths"].items())
    return (
        _text(1, document["swagger"])
        + _bytes(2, info)
        + _bytes(8, paths)
        + _bytes(9, _named_schemas(document["definitions"]))
    )
