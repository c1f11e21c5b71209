"""Asking labd, over its control socket: `protocol/messages.py` has what can be asked.

A request that looks is answered with one value, a request that does work with a line for every event and one for the end. A console
is a request and an answer that both go on: keys in one direction, the server's output in the other.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar
from urllib.parse import quote

from rackless import events
from rackless.codec import BadValue, decode, encode
from rackless.errors import HypervisorError, LabError
from rackless.ports.console import Write
from rackless.protocol import http
from rackless.protocol.event_log import Missed, Numbered
from rackless.protocol.event_stream import Began, EventsWanted, from_line
from rackless.protocol.exchange import Exchange, Nothing
from rackless.protocol.messages import HEALTH, Daemon, OfferedFile

_CHUNK = 1 << 20
Q = TypeVar("Q")
A = TypeVar("A")


class ControlClient:
    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def alive(self) -> bool:
        return await self.daemon() is not None

    async def daemon(self) -> Daemon | None:
        """Version and pid of the labd that answers; None when none does."""
        if self._socket.exists() and not os.access(self._socket, os.W_OK):
            raise self._closed()
        try:
            return await self._ask(HEALTH)
        except http.LOST:
            return None

    def _closed(self) -> HypervisorError:
        return HypervisorError(
            "only root and the lab's owner may talk to it", why=f"{self._socket} is closed to you", hint="use sudo"
        )

    async def look(self, exchange: Exchange[Nothing, A]) -> A:
        try:
            return await self._ask(exchange)
        except PermissionError as error:
            raise self._closed() from error
        except http.LOST as error:
            raise _unreachable(error) from error

    async def work(
        self,
        exchange: Exchange[Q, A],
        asked: Q,
        bus: events.Bus,
        *,
        step: str | None = None,
        hear: Sequence[str] = (),
        told: Sequence[events.Event] = (),
    ) -> A:
        """Have labd do something; the events of its steps are published on our bus as they come, and with `hear` those
        about other subjects, too: `host/ctrl-0`, `host/*`, or `*` for everything. `told` are events of the asker's own, which
        labd writes into the lab's log before it begins.
        """
        begun = False
        besides = {"step": step, "hear": list(hear), "told": [encode(event) for event in told]}
        body = json.dumps({**encode(asked), **besides}).encode()
        try:
            async with (
                http.request(self._socket, "POST", exchange.name, body) as answer,
                aclosing(http.lines(answer)) as lines,
            ):
                begun = True
                async for line in lines:
                    value = json.loads(line)
                    if "event" in value:
                        bus.publish(events.from_json(value))
                    else:
                        http.raise_failure(value)
                        return exchange.read_answer(value["result"])
        except PermissionError as error:
            raise self._closed() from error
        except BadValue as error:
            raise _unreachable(error) from error
        except http.LOST as error:
            raise _unreachable(None if begun else error) from error
        raise _unreachable(None)

    async def events(self, wanted: EventsWanted) -> AsyncGenerator[Began | Numbered | Missed, None]:
        """The lab's events, until labd ends. Raises LabError when the connection is lost.

        Either way, ask again after the last number that came.
        """
        begun = False
        try:
            async with (
                http.request(self._socket, "GET", f"events?{wanted.to_query()}", b"") as answer,
                aclosing(http.lines(answer)) as lines,
            ):
                async for line in lines:
                    begun = True
                    if (one := from_line(json.loads(line))) is not None:
                        yield one
        except http.LOST as error:
            raise _unreachable(None if begun and not isinstance(error, BadValue) else error) from error

    @asynccontextmanager
    async def console(self, server: str, lines: int) -> AsyncIterator[tuple[AsyncIterator[bytes], Write]]:
        """Sit at a server's console: what it says, the last lines first, and a way to type."""
        async with AsyncExitStack() as stack:
            try:
                reader, writer = await stack.enter_async_context(http.connect(self._socket))
                target = f"console/{quote(server, safe='')}/{lines}"
                writer.write(http.head("POST", target, "Transfer-Encoding: chunked"))
                headers = await http.read_headers(reader, "console")
                if headers.get("transfer-encoding") != "chunked":
                    http.raise_failure(await http.read_json(http.whole(reader, headers)))
            except http.LOST as error:
                raise _unreachable(error) from error
            yield _heard(reader), lambda keys: writer.write(b"%x\r\n%b\r\n" % (len(keys), keys))

    async def offer(self, file: BinaryIO, form: str) -> OfferedFile:
        """Send the bytes of a file that this process has opened; the lab's file server offers them from then on."""
        try:
            async with http.connect(self._socket) as (reader, writer):
                writer.write(http.head("POST", f"offer/{form}", "Transfer-Encoding: chunked"))
                with suppress(ConnectionError):  # refused before it had all of it: it says why
                    while chunk := await asyncio.to_thread(file.read, _CHUNK):
                        writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                        await writer.drain()
                    writer.write(b"0\r\n\r\n")
                    await writer.drain()
                headers = await http.read_headers(reader, "offer")
                value = await http.read_json(http.whole(reader, headers))
        except PermissionError as error:
            raise self._closed() from error
        except http.LOST as error:
            raise _unreachable(error) from error
        http.raise_failure(value)
        return decode(OfferedFile, value)

    async def _ask(self, exchange: Exchange[Nothing, A]) -> A:
        async with http.request(self._socket, "GET", exchange.name, b"") as body:
            return exchange.read_answer(await http.read_json(body))


async def _heard(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    try:
        async for text in http.chunks(reader):
            yield text
    except http.LOST as error:
        raise LabError(
            "the lab's daemon went away", why="its keeper starts it again", hint="sit down at the console again"
        ) from error


def _unreachable(error: BaseException | None) -> LabError:
    if isinstance(error, BadValue):
        return LabError(
            "the answer of the lab's daemon cannot be read",
            why=str(error),
            hint="it may be of another version than this command: `rackless up` starts it again",
        )
    if isinstance(error, FileNotFoundError):
        return LabError(
            "the lab's daemon does not answer",
            why="it is not running: the lab was stopped, or the computer restarted",
            hint="`rackless start` starts it as it was; so does `rackless up`",
        )
    return LabError(
        "the lab's daemon went away" if error is None else "the lab's daemon does not answer",
        why=str(error) if error is not None else "labd ended before it had finished; its keeper starts it again",
        hint="run `rackless up` again: it goes on where it was",
    )
