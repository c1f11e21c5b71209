"""Asking labd, over its control socket. HTTP by hand: a web library would take longer to load than most answers take.

Requests that look are answered with one JSON value, requests that do work with a line for every event and one for the end,
and who sits at a console sends keys for as long as they hear.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rackless import errors, events
from rackless.errors import LabError, MachineError, RacklessError
from rackless.ports.console import Write

_ERRORS: dict[str, type[RacklessError]] = {
    kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RacklessError)
}
_LOST = (OSError, asyncio.IncompleteReadError, ValueError)


def error_to_json(error: RacklessError) -> dict[str, str]:
    return {"kind": type(error).__name__, "what": error.what, "why": error.why, "hint": error.hint, "log": error.log}


def error_from_json(value: dict[str, str]) -> RacklessError:
    """The same kind of error on this side, built from its words."""
    kind = _ERRORS.get(value["kind"], RacklessError)
    error = kind.__new__(kind)
    RacklessError.__init__(error, value["what"], why=value["why"], hint=value["hint"], log=value["log"])
    return error


class ControlClient:
    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def alive(self) -> bool:
        if self._socket.exists() and not os.access(self._socket, os.W_OK):
            raise MachineError(
                "only root and the lab's owner may talk to it", why=f"{self._socket} is closed to you", hint="use sudo"
            )
        try:
            await self._ask("health")
        except _LOST:
            return False
        return True

    async def look(self, name: str) -> Any:
        try:
            return await self._ask(name)
        except _LOST as error:
            raise _unreachable(error) from error

    async def work(self, name: str, bus: events.Bus, **arguments: Any) -> Any:
        """Have labd do something; its events are published on our bus as they come."""
        try:
            async with (
                self._request("POST", name, json.dumps(arguments).encode()) as body,
                aclosing(_lines(body)) as lines,
            ):
                async for line in lines:
                    value = json.loads(line)
                    if "event" in value:
                        bus.publish(events.from_json(value))
                    elif "error" in value:
                        raise error_from_json(value["error"])
                    else:
                        return value["result"]
        except _LOST as error:
            raise _unreachable(error) from error
        raise _unreachable(None)

    @asynccontextmanager
    async def console(self, server: str, lines: int) -> AsyncIterator[tuple[AsyncIterator[bytes], Write]]:
        """Sit at a server's console: what it says, the last lines first, and a way to type."""
        async with AsyncExitStack() as stack:
            try:
                reader, writer = await stack.enter_async_context(self._connect())
                writer.write(_head("POST", f"console/{quote(server, safe='')}/{lines}", "Transfer-Encoding: chunked"))
                headers = await _headers(reader, "console")
                refused = None if headers.get("transfer-encoding") == "chunked" else await _one(_whole(reader, headers))
            except _LOST as error:
                raise _unreachable(error) from error
            if refused is not None:
                raise error_from_json(refused["error"])
            yield _heard(reader), lambda keys: writer.write(b"%x\r\n%b\r\n" % (len(keys), keys))

    async def _ask(self, name: str) -> Any:
        async with self._request("GET", name, b"") as body:
            return await _one(body)

    @asynccontextmanager
    async def _request(self, method: str, name: str, data: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
        """One request on a connection of its own; leaving early closes that, which labd takes as "never mind"."""
        async with self._connect() as (reader, writer):
            writer.write(_head(method, name, "Content-Type: application/json", f"Content-Length: {len(data)}") + data)
            await writer.drain()
            headers = await _headers(reader, name)
            yield _chunks(reader) if headers.get("transfer-encoding") == "chunked" else _whole(reader, headers)

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_unix_connection(str(self._socket))
        try:
            yield reader, writer
        finally:
            writer.close()


def _head(method: str, name: str, *headers: str) -> bytes:
    return "\r\n".join((f"{method} /{name} HTTP/1.1", "Host: labd", "Connection: close", *headers, "", "")).encode()


async def _headers(reader: asyncio.StreamReader, name: str) -> dict[str, str]:
    status = int((await _line(reader)).split()[1])
    headers = {}
    while line := await _line(reader):
        key, _, value = line.decode().partition(":")
        headers[key.lower()] = value.strip().lower()
    if status != 200:
        raise ValueError(f"labd answered {status} to {name}; it may be of another version")
    return headers


async def _line(reader: asyncio.StreamReader) -> bytes:
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise ConnectionResetError("labd ended before it had answered")
    return line.strip()


async def _one(body: AsyncIterator[bytes]) -> Any:
    return json.loads(b"".join([part async for part in body]))


async def _heard(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    try:
        async for text in _chunks(reader):
            yield text
    except _LOST as error:
        raise LabError(
            "the lab's daemon went away", why="its keeper starts it again", hint="sit down at the console again"
        ) from error


async def _whole(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    yield await reader.readexactly(int(headers["content-length"]))


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readline(), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)


async def _lines(body: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    rest = b""
    async for chunk in body:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


def _unreachable(error: BaseException | None) -> LabError:
    return LabError(
        "the lab's daemon went away" if error is None else "the lab's daemon does not answer",
        why=str(error) if error is not None else "labd ended before it had finished; its keeper starts it again",
        hint="run `rackless up` again: it goes on where it was",
    )
