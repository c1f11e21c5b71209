"""Bodies: bytes of a content type to a value, and what strict clients want to know about them."""

from __future__ import annotations

import json
from typing import Any

from rackless.api.edge import protobuf
from rackless.api.encoding import decode
from rackless.api.status import bad_request, unsupported_media_type

LIMIT = 3 * 1024 * 1024
_READABLE = ("application/json", "application/yaml", protobuf.MEDIA)


def content_type(header: str) -> str:
    return header.partition(";")[0].strip().lower() or "application/json"


def parse(raw: bytes, media: str) -> Any:
    if media == "application/yaml":
        return _yaml(raw)
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


def _yaml(raw: bytes) -> Any:
    import yaml

    try:
        # Through JSON: YAML's dates and its own types are no JSON values.
        return decode(json.dumps(yaml.safe_load(raw), default=str).encode())
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from error


def duplicate_fields(raw: bytes) -> list[str]:
    """Paths of keys that occur twice in one object; the decoder we serve with silently keeps the last."""
    found: list[str] = []

    class Doubled(dict[str, Any]):
        names: tuple[str, ...] = ()

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        value = Doubled(items)
        if len(value) != len(items):
            seen: set[str] = set()
            value.names = tuple(k for k, _ in items if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        return value

    def walk(value: Any, path: str) -> None:
        if isinstance(value, Doubled):
            found.extend(f"{path}.{name}".lstrip(".") for name in value.names)
            for key, each in value.items():
                walk(each, f"{path}.{key}")
        elif isinstance(value, list):
            for index, each in enumerate(value):
                walk(each, f"{path}[{index}]")

    try:
        walk(json.loads(raw, object_pairs_hook=pairs), "")
    except (ValueError, RecursionError):
        return []
    return found
