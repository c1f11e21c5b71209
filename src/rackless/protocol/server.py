"""The control socket of labd: JSON over HTTP on a unix socket that root and the lab's owner can open.

A request that does work is answered with a stream of lines: the events that concern the asker as they happen, then one line
with the result or the error. A request that looks is answered with one value, or with an error in the same form.
When the asker goes away, the work is cancelled; what is made stays, and asking again goes on. A console is a request and an
answer that both go on for as long as somebody sits at it: keys in the one, what the server says in the other.

Whoever asks is known by what the kernel says of them (SO_PEERCRED), whatever the socket's file lets in: root may ask everything,
the owner what uses the lab and neither makes nor removes it, and nobody else anything. The owner's connections are bounded, and a
request has to come in time: labd has files and memory for others, whatever the owner's programs do.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket as sockets
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aiohttp import web

from rackless import errors, events
from rackless.codec import BadValue, decode, encode
from rackless.errors import HypervisorError, InputError, LabError, RacklessError
from rackless.ports.console import Heard, Write
from rackless.protocol.event_log import EventLog, Missed, Numbered, Selection, resolve
from rackless.protocol.event_stream import Began, EventsWanted, to_line
from rackless.protocol.exchange import Exchange, Nothing, Served
from rackless.protocol.failures import Failure, FailureAnswer
from rackless.protocol.hearing import Hearing
from rackless.protocol.messages import OfferedFile
from rackless.run.bodies import BodyTooLarge, BodyTooSlow, BodyUnreadable, EncodingUnknown, read_body
from rackless.run.connections import ClientPatience, GuardedRunner

SitDown = Callable[[str, int], tuple[Heard, Write]]
"""Opens the console of a server, with so many of its last lines."""

TakeFile = Callable[[AsyncIterator[bytes], str], Awaitable[OfferedFile]]
"""The bytes of a file that the asker has read, and the format it is said to have; `any` where nothing is said."""
_CHUNK = 1 << 20
_MOST_BYTES = 16 << 20
"""Bytes of a request, at most: user data for a host is the largest thing that is sent."""
_BODY_SECONDS = 30.0
LARGE_BODY = 1 << 20
LARGE_AT_ONCE = 4
"""Large bodies of the owner that are read at the same time: 128 connections with 16 MiB each would be 2 GiB of labd's memory."""
MOST_HELD = 64 << 20
"""Bytes of the owner's requests that labd works on at the same time: a request is kept as long as its work takes."""
MOST_VALUES = 200_000
"""Commas and opening brackets in a request of the owner: an empty list takes labd thirty times the bytes that were sent."""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_MOST_HEARD, _LONGEST_NAME = 256, 256
"""Subjects that one request hears of, each of which is compared with each event; and characters of one, or of a step."""
_BAD_BODIES = (BodyTooLarge, BodyTooSlow, BodyUnreadable, EncodingUnknown)
MOST_CONNECTIONS = 1024
OWNER_CONNECTIONS = 128
"""Connections of the owner at once: a page with its consoles has some dozens."""
_PATIENCE = ClientPatience(header=10.0, reading=7 * 86400.0)
"""A command that a person stops for a while (Ctrl-Z, a pager) goes on reading its answer later."""
MOST_LINES = 5000
"""Lines that wait for an asker who does not read. Further events are in the event log only; the result is sent in any case."""
_AT_ONCE = 200
"""Events that are read before others have their turn."""
_MASTER = web.RequestKey("master", bool)
"""On a request: whether the asker is root, or labd's own user, and may ask everything."""
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asker:
    """What comes with every request for work, beside the request: the step it belongs to, whom else to hear of, and what the
    asker did by itself so far."""

    step: str | None = None
    hear: tuple[str, ...] = ()
    told: tuple[events.Event, ...] = ()


class ControlServer:
    SHUTDOWN_SECONDS = 1.0
    """Seconds for requests under way when the server stops."""

    def __init__(
        self,
        socket: Path,
        bus: events.Bus,
        *,
        log: Path,
        serves: Iterable[Served],
        console: SitDown | None = None,
        events_log: EventLog | None = None,
        owner: int = 0,
        take: TakeFile | None = None,
        metrics: Callable[[], str] = lambda: "",
    ) -> None:
        """`metrics` is a page in Prometheus' text format."""
        self._metrics_page = metrics
        self._socket = socket
        self._log_path = log
        self._owner = owner
        self._bus = bus
        self._served = {(one.exchange.works, one.exchange.name): one for one in serves}
        self._sit_down = console
        self._take = take
        self._events_log = events_log
        self._streams: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        self._held = 0
        """Bytes of the owner's requests that are worked on."""

    async def start(self) -> None:
        app = web.Application(client_max_size=_MOST_BYTES, middlewares=[self._admit])
        app.router.add_get("/events", self._events)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/{name}", self._look)
        app.router.add_post("/{name}", self._work)
        app.router.add_post("/console/{server}/{lines:[0-9]{1,6}}", self._console)
        app.router.add_post("/offer/{format:[a-z0-9-]{1,16}}", self._offer)
        self._runner = GuardedRunner(
            app, _PATIENCE, most=MOST_CONNECTIONS, each=OWNER_CONNECTIONS, who=_bounded,
            handler_cancellation=True, shutdown_timeout=self.SHUTDOWN_SECONDS,
        )  # fmt: skip
        await self._runner.setup()
        await self.listen()

    async def listen(self) -> None:
        """Listen at the socket's path; called again when somebody deleted the socket."""
        assert self._runner is not None
        self._socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._socket.unlink(missing_ok=True)
        await web.UnixSite(self._runner, str(self._socket)).start()
        self._socket.chmod(0o600)
        if self._owner:
            os.chown(self._socket, self._owner, -1)

    @web.middleware
    async def _admit(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        asker = peer_uid(request.transport)
        request[_MASTER] = asker in (0, os.geteuid())
        if not request[_MASTER] and not (self._owner and asker == self._owner):
            return _failed(HypervisorError("only root and the lab's owner may talk to it", hint="use sudo"), 403)
        try:
            return await handler(request)
        except web.HTTPException as error:  # no handler has this path, or none takes this method
            return _unknown(request.path.strip("/"), error.status)

    async def _health(self, request: web.Request) -> web.Response:
        """That there is an answer is the whole answer: labd's event loop runs."""
        return web.Response(text="ok")

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=self._metrics_page(), headers={"Content-Type": _METRICS})

    async def stop(self) -> None:
        for stream in self._streams:
            stream.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
        self._socket.unlink(missing_ok=True)

    async def _look(self, request: web.Request) -> web.StreamResponse:
        served = self._served.get((False, request.match_info["name"]))
        if served is None:
            return _unknown(request.match_info["name"])
        try:
            return web.json_response(encode(await served.answer(Nothing())))
        except Exception as error:  # the edge, as with work: whatever it is, the asker is told
            return _failed(self._told(served.exchange.name, error), 500)

    async def _work(self, request: web.Request) -> web.StreamResponse:
        served = self._served.get((True, request.match_info["name"]))
        if served is None:
            return _unknown(request.match_info["name"])
        if served.exchange.root and not request[_MASTER]:
            return _failed(HypervisorError(f"only root can ask labd to {served.exchange.name}", hint="use sudo"), 403)
        try:
            async with self._room_for(request):
                raw = await read_body(request, _MOST_BYTES, _BODY_SECONDS)
            asked, asker = _read(served.exchange, raw, bounded=not request[_MASTER])
        except (ValueError, RecursionError, *_BAD_BODIES) as error:
            return _failed(_unreadable(served.exchange.name, error), 400)
        size = len(raw)
        del raw
        if request[_MASTER]:
            if self._events_log is not None:
                for event in asker.told:
                    self._events_log.append(event)
        elif self._held + size > MOST_HELD:
            return _failed(_TOO_MUCH, 503)
        with nullcontext() if request[_MASTER] else self._holding(size):
            return await self._answer_work(request, served, asked, replace(asker, told=()))

    async def _answer_work(
        self, request: web.Request, served: Served, asked: object, asker: Asker
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/jsonl"})
        await response.prepare(request)
        lines: asyncio.Queue[object] = asyncio.Queue()
        hearing = Hearing(asker.step, asker.hear)

        def hear(event: events.Event) -> None:
            if hearing.concerns(event) and lines.qsize() < MOST_LINES:
                lines.put_nowait(events.to_json(event))

        unsubscribe = self._bus.subscribe(hear)
        task = asyncio.create_task(self._do(served, asked, asker.step, lines))
        try:
            while (line := await lines.get()) is not None:
                await response.write(json.dumps(line).encode() + b"\n")
        finally:
            unsubscribe()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return response

    def _room_for(self, request: web.Request) -> AbstractAsyncContextManager[None]:
        """Waits, before a large body of the owner is read, or one that does not say how large it will be."""
        size = None if "Content-Encoding" in request.headers else request.content_length
        small = size is not None and size <= LARGE_BODY
        return nullcontext() if request[_MASTER] or small else self._large

    @contextmanager
    def _holding(self, size: int) -> Iterator[None]:
        self._held += size
        try:
            yield
        finally:
            self._held -= size

    async def _events(self, request: web.Request) -> web.StreamResponse:
        log = self._events_log
        if log is None:
            return _unknown("events")
        try:
            wanted = EventsWanted.from_query(request.query.items())
            _check_names(wanted.hear)
        except BadValue as error:
            return _failed(_unreadable("events", error), 400)
        response = web.StreamResponse(headers={"Content-Type": "application/jsonl"})
        await response.prepare(request)
        # a task of its own, which `stop` cancels: a labd that ends does not wait for listeners
        stream = asyncio.create_task(_tell(log, wanted, response))
        self._streams.add(stream)
        try:
            await asyncio.wait([stream])
            if not stream.cancelled():
                stream.result()
        finally:
            self._streams.discard(stream)
            stream.cancel()
            await asyncio.gather(stream, return_exceptions=True)
        return response

    async def _console(self, request: web.Request) -> web.StreamResponse:
        if self._sit_down is None:
            return _unknown("console")
        try:
            heard, write = self._sit_down(request.match_info["server"], int(request.match_info["lines"]))
        except Exception as error:
            return _failed(self._told("console", error), 200)
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        await response.prepare(request)
        ways = [asyncio.create_task(_say(heard, response)), asyncio.create_task(_type(request, write))]
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in done:
                way.result()
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await heard.aclose()
        return response

    async def _offer(self, request: web.Request) -> web.StreamResponse:
        if self._take is None:
            return _unknown("offer")
        try:
            offered = await self._take(request.content.iter_chunked(_CHUNK), request.match_info["format"])
        except Exception as error:
            return _failed(self._told("offer", error), 200)
        return web.json_response(encode(offered))

    async def _do(self, served: Served, asked: object, step: str | None, lines: asyncio.Queue[object]) -> None:
        try:
            with events.inside(step):
                lines.put_nowait({"result": encode(await served.answer(asked))})
        except Exception as error:  # the edge: whatever it is, the asker is told and the daemon lives on
            lines.put_nowait(encode(FailureAnswer(Failure.of(self._told(served.exchange.name, error)))))
        finally:
            lines.put_nowait(None)

    def _told(self, request: str, error: Exception) -> RacklessError:
        """The error in words for the asker; labd's log has an unexpected one, too."""
        known = errors.known(error)
        if known is None:
            _log.error("while answering %s", request, exc_info=error)
            known = RacklessError(
                f"labd met something it did not expect: {type(error).__name__}: {error}",
                hint="this is a mistake in rackless; the daemon's log has the details",
                log=self._log_path,
            )
        return known


def _read(exchange: Exchange[Any, Any], raw: bytes, *, bounded: bool) -> tuple[object, Asker]:
    """What is asked, and by whom; nothing else of the request is kept. Raises ValueError and RecursionError."""
    if bounded and _weighs_too_much(raw):
        raise BadValue(f"it has more than {MOST_VALUES} values")
    body = json.loads(raw)
    asker = decode(Asker, body)
    _check_names((*asker.hear, asker.step or ""))
    return decode(exchange.asked, body), asker


def _check_names(names: Sequence[str]) -> None:
    if len(names) > _MOST_HEARD or any(len(name) > _LONGEST_NAME for name in names):
        raise BadValue(f"a request hears of {_MOST_HEARD} subjects at most, with {_LONGEST_NAME} characters each")


def _weighs_too_much(raw: bytes) -> bool:
    """Those in strings, such as a host's user data, do not count; they are taken out only where they could be what is much."""
    quotes = raw.count(b'"') - raw.count(b'\\"')
    return quotes > 2 * MOST_VALUES or (_values(raw) > MOST_VALUES and _values(_STRING.sub(b"", raw)) > MOST_VALUES)


def _values(raw: bytes) -> int:
    return sum(map(raw.count, (b",", b"[", b"{")))


def peer_uid(transport: asyncio.BaseTransport | None) -> int | None:
    """Who is at the other end of a unix socket, as the kernel knows; None when it does not say."""
    socket = transport.get_extra_info("socket") if transport is not None else None
    if socket is None or socket.family != sockets.AF_UNIX:
        return None
    try:
        found = socket.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:  # closed meanwhile
        return None
    return int(struct.unpack("3i", found)[1])


def _bounded(transport: asyncio.Transport) -> int | None:
    """Whose connections are counted: not root's, who has to be able to end a lab in any case."""
    asker = peer_uid(transport)
    return None if asker in (0, os.geteuid()) else asker


async def _tell(log: EventLog, wanted: EventsWanted, response: web.StreamResponse) -> None:
    async def write(line: Began | Numbered | Missed) -> None:
        await response.write(json.dumps(to_line(line)).encode() + b"\n")

    since = resolve(wanted.since, log.last)
    selection = Selection(since, Hearing(None, wanted.hear))
    reader = log.reader(selection.reads_from)
    await write(Began(since))
    with log.following() as more:
        while True:
            more.clear()
            for number, one in enumerate(reader.read(), 1):
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)
                if (told := selection.take(one)) is not None:
                    await write(told)
            if not wanted.follow:
                return
            await more.wait()


async def _say(heard: Heard, response: web.StreamResponse) -> None:
    async for text in heard:
        await response.write(text)


async def _type(request: web.Request, write: Write) -> None:
    async for keys in request.content.iter_any():
        write(keys)


_TOO_MUCH = LabError(
    "labd has as much of your requests as it takes",
    why=f"it works on {MOST_HELD >> 20} MiB of them at most",
    hint="ask again when some of them are done",
)


def _failed(error: RacklessError, status: int) -> web.Response:
    return web.json_response(encode(FailureAnswer(Failure.of(error))), status=status)


def _unknown(name: str, status: int = 404) -> web.Response:
    error = LabError(
        f"labd does not know what {name} is",
        why="it is of another version than the command that asked",
        hint="`rackless up` starts it again",
    )
    return _failed(error, status)


def _unreadable(name: str, error: Exception) -> RacklessError:
    why = str(error) if isinstance(error, (BadValue, *_BAD_BODIES)) else f"it is no JSON: {error}"
    return InputError(f"labd cannot read the request {name}", why=why, hint="`rackless up` starts it again")
