"""Bodies: bytes of a content type to a value, and what strict clients want to know about them."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from rackless.api import status
from rackless.api.edge import protobuf
from rackless.api.encoding import decode
from rackless.api.offload import SMALL
from rackless.api.status import bad_request, unsupported_media_type
from rackless.run import bodies

LIMIT = 3 * 1024 * 1024
_WITHIN = 60.0
_READABLE = ("application/json", "application/yaml", protobuf.MEDIA)
_MOST_DUPLICATES = 100


def content_type(header: str) -> str:
    return header.partition(";")[0].strip().lower() or "application/json"


async def read(request: web.BaseRequest) -> bytes:
    """The body, inflated, of a caller who is known and may ask this."""
    try:
        return await bodies.read_body(request, LIMIT, _WITHIN)
    except bodies.BodyTooLarge:
        raise status.too_large(LIMIT) from None
    except bodies.BodyTooSlow as error:
        raise status.RequestRefused(408, "Timeout", f"Timeout: {error}") from None
    except bodies.BodyUnreadable as error:
        raise bad_request(f"the body cannot be read: {error}") from None
    except bodies.EncodingUnknown as error:
        raise status.RequestRefused(
            415, "UnsupportedMediaType", f"content encoding {error} is not supported: send gzip, deflate or none"
        ) from None


def weight(raw: bytes, media: str) -> int:
    """How much work a body is, in bytes of JSON; YAML is always much, the first of it with the reader to be loaded."""
    return SMALL + len(raw) + 1 if media.endswith("yaml") and raw[:1] != b"{" else len(raw)


def parse(raw: bytes, media: str) -> Any:
    if media == "application/yaml":
        if raw[:1] == b"{":  # clients that apply mostly send JSON, which is YAML too
            try:
                return decode(raw)
            except ValueError:
                pass
        from rackless.api.edge import yaml_form

        return yaml_form.load(raw)
    if media == protobuf.MEDIA:
        return protobuf.parse(raw)
    if media not in _READABLE and media != "application/x-www-form-urlencoded":
        raise unsupported_media_type(_READABLE)
    return parse_json(raw)


def parse_json(raw: bytes) -> Any:
    try:
        return decode(raw)
    except ValueError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def duplicate_fields(raw: bytes) -> list[str]:
    """Paths of keys that occur twice in one object; the decoder we serve with silently keeps the last."""
    found: list[str] = []
    doubles = 0

    class Doubled(dict[str, Any]):
        names: tuple[str, ...] = ()

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal doubles
        value = Doubled(items)
        if len(value) != len(items):
            seen: set[str] = set()
            value.names = tuple(k for k, _ in items if k in seen or seen.add(k))  # type: ignore[func-returns-value]
            doubles += 1
        return value

    def walk(value: Any, path: str) -> None:
        if len(found) >= _MOST_DUPLICATES:
            return
        if isinstance(value, Doubled):
            found.extend(f"{path}.{name}".lstrip(".") for name in value.names[:_MOST_DUPLICATES])
            for key, each in value.items():
                if isinstance(each, dict | list):
                    walk(each, f"{path}.{key}")
        elif isinstance(value, list):
            for index, each in enumerate(value):
                if isinstance(each, dict | list):
                    walk(each, f"{path}[{index}]")

    try:
        value = json.loads(raw, object_pairs_hook=pairs)
        if doubles:
            walk(value, "")
    except (ValueError, RecursionError):
        return []
    return found
