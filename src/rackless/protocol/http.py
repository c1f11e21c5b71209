"""HTTP on a unix socket, by hand: a web library would take longer to load than most answers take."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rackless.codec import BadValue, decode
from rackless.protocol.failures import FailureAnswer

LOST = (OSError, asyncio.IncompleteReadError, ValueError)
"""What is raised when the other side is not there, goes away, or speaks something else."""
CONNECT_WITHIN = 5.0
"""Seconds."""


@asynccontextmanager
async def connect(socket: Path) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with asyncio.timeout(CONNECT_WITHIN):
        reader, writer = await asyncio.open_unix_connection(str(socket))
    try:
        yield reader, writer
    finally:
        writer.close()


@asynccontextmanager
async def request(socket: Path, method: str, target: str, data: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
    """The body of the answer. Leaving early closes the connection, which labd takes as "never mind"."""
    async with connect(socket) as (reader, writer):
        writer.write(head(method, target, "Content-Type: application/json", f"Content-Length: {len(data)}") + data)
        await writer.drain()
        headers = await read_headers(reader, target)
        yield chunks(reader) if headers.get("transfer-encoding") == "chunked" else whole(reader, headers)


def head(method: str, target: str, *headers: str) -> bytes:
    return "\r\n".join((f"{method} /{target} HTTP/1.1", "Host: labd", "Connection: close", *headers, "", "")).encode()


async def read_headers(reader: asyncio.StreamReader, target: str) -> dict[str, str]:
    """Raises the error that labd answered with, if it did."""
    status = int((await _line(reader)).split()[1])
    headers = {}
    while line := await _line(reader):
        key, _, value = line.decode().partition(":")
        headers[key.lower()] = value.strip().lower()
    if status != 200:
        if headers.get("content-type", "").startswith("application/json"):
            raise_failure(await read_json(whole(reader, headers)))
        raise BadValue(f"labd answered {status} to {target}; it may be of another version")
    return headers


def raise_failure(value: object) -> None:
    """Raise the error that an answer is; return when it is none."""
    if isinstance(value, dict) and "error" in value:
        raise decode(FailureAnswer, value).error.error()


async def read_json(body: AsyncIterator[bytes]) -> object:
    found: object = json.loads(b"".join([part async for part in body]))
    return found


async def whole(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    yield await reader.readexactly(int(headers["content-length"]))


async def chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await _line(reader), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)


async def lines(body: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    rest = b""
    async for chunk in body:
        *whole_lines, rest = (rest + chunk).split(b"\n")
        for line in whole_lines:
            yield line


async def _line(reader: asyncio.StreamReader) -> bytes:
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise ConnectionResetError("labd ended before it had answered")
    return line.strip()
