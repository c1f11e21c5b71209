"""Results to responses: the object, a Table, metadata only, lists in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aiohttp import web

from rackless.api.encoding import decode, encode
from rackless.api.kinds.kind import Kind, Version
from rackless.api.kinds.tables import table
from rackless.api.status import Json, RequestRefused

_JSON = "application/json"
_PIECE = 256 * 1024
_TABLE_PIECE = 64 * 1024
"""Bytes of objects that are looked into for one piece of a Table: about a millisecond."""


def _warning(text: str) -> str:
    clean = "".join(c if c.isprintable() else " " for c in text).replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{clean[:1000]}"'


def answer(body: bytes, code: int = 200, warnings: Sequence[str] = (), media: str = _JSON) -> web.Response:
    response = web.Response(body=body, status=code, content_type=media)
    response.headers["Cache-Control"] = "no-cache, private"
    for text in warnings[:20]:
        response.headers.add("Warning", _warning(text).encode("latin-1", "replace").decode("latin-1"))
    return response


def json(value: Any, code: int = 200, warnings: Sequence[str] = ()) -> web.Response:
    return answer(encode(value), code, warnings)


def refusal(refused: RequestRefused) -> web.Response:
    response = json(refused.status(), refused.code)
    for name, value in refused.headers.items():
        response.headers[name] = value
    return response


def text(message: str, code: int = 200) -> web.Response:
    return web.Response(
        text=message, status=code, content_type="text/plain", headers={"X-Content-Type-Options": "nosniff"}
    )


def partial(obj: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def one(kind: Kind, version: Version, data: bytes, shape: str, include: str) -> bytes:
    """A single object in the shape asked for."""
    if shape == "object":
        return data
    obj = decode(data)
    if shape == "metadata":
        return encode(partial(obj))
    metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
    return encode(table(kind, version, [obj], metadata, include))


def list_metadata(revision: int, token: str, remaining: int | None) -> Json:
    metadata: Json = {"resourceVersion": str(revision)}
    if token:
        metadata["continue"] = token
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    return metadata


def many(
    kind: Kind, version: Version, items: Iterable[bytes], metadata: Json, shape: str, include: str
) -> Iterable[bytes]:
    """A list in pieces, so that a large one neither stalls the loop nor is held twice."""
    if shape == "Table":
        yield from _table_pieces(kind, version, items, metadata, include)
        return
    if shape == "metadata":
        name, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        items = (encode(partial(decode(data))) for data in items)
    else:
        name, api_version = kind.list_name, kind.api_version(version.name)
    head = encode({"kind": name, "apiVersion": api_version, "metadata": metadata})[:-1] + b',"items":['
    chunk = [head]
    size, first = 0, True
    for data in items:
        if not first:
            chunk.append(b",")
        first = False
        chunk.append(data)
        size += len(data)
        if size > _PIECE:
            yield b"".join(chunk)
            chunk, size = [], 0
    chunk.append(b"]}\n")
    yield b"".join(chunk)


def _table_pieces(
    kind: Kind, version: Version, items: Iterable[bytes], metadata: Json, include: str
) -> Iterable[bytes]:
    head: Json = table(kind, version, (), metadata, include)
    del head["rows"]
    piece = encode(head)[:-1] + b',"rows":['
    rows: list[Json] = []
    size, first = 0, True
    for data in items:
        rows.append(decode(data))
        size += len(data)
        if size > _TABLE_PIECE:
            yield piece + (b"" if first else b",") + _rows(kind, version, rows, include)
            piece, rows, size, first = b"", [], 0, False
    if rows:
        piece += (b"" if first else b",") + _rows(kind, version, rows, include)
    yield piece + b"]}\n"


def _rows(kind: Kind, version: Version, objects: list[Json], include: str) -> bytes:
    return encode(table(kind, version, objects, {}, include)["rows"])[1:-1]
