"""Objects as bytes. What is stored has no resource version: that is the revision of the write, known only afterwards.

The top level is always written in the order apiVersion, kind, metadata, rest, so that the resource version can be put
in (and the API version exchanged) without decoding. Everything that serves an object serves these bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from rackless.api.status import Json, bad_request

_METADATA = b'"metadata":{'
_LEADING = ("apiVersion", "kind", "metadata")

decode: Callable[[bytes], Any] = orjson.loads


def encode(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise bad_request(f"the object provided cannot be encoded as JSON: {error}") from error


def stored(obj: Json) -> bytes:
    """The bytes to keep: leading keys first, no resource version."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    ordered: Json = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
    for key, value in obj.items():
        if key not in _LEADING:
            ordered[key] = value
    return encode(ordered)


def rendered(data: bytes, revision: int) -> bytes:
    """Stored bytes with their resource version."""
    return data.replace(_METADATA, b'"metadata":{"resourceVersion":"%d",' % revision, 1)


def restamped(data: bytes, revision: int) -> bytes:
    """Rendered bytes with another resource version: how the last state of a deleted object is shown."""
    head, _, tail = data.partition(b'"resourceVersion":"')
    return head + b'"resourceVersion":"%d"' % revision + tail[tail.index(b'"') + 1 :]


def as_version(data: bytes, api_version: str) -> bytes:
    """The same object under another API version: without conversion only the word changes."""
    return b'{"apiVersion":"' + api_version.encode() + data[data.index(b'"', 15) :]
