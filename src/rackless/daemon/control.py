"""The control socket of labd: JSON over HTTP on a unix socket that root and the lab's owner can open.

A request that does work is answered with a stream of lines: events as they happen, then one line with the result or the error.
When the asker goes away, the work is cancelled; what is made stays, and asking again goes on. A console is a request and an
answer that both go on for as long as somebody sits at it: keys in the one, what the server says in the other.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from rackless import errors, events
from rackless.daemon.control_client import error_to_json
from rackless.errors import RacklessError
from rackless.ports.console import Heard, Write

Work = Callable[[dict[str, Any]], Awaitable[Any]]
Look = Callable[[], Awaitable[Any]]
SitDown = Callable[[str, int], tuple[Heard, Write]]
"""At the console of a server, with so many of its last lines in view."""

_log = logging.getLogger(__name__)


class ControlServer:
    def __init__(
        self,
        socket: Path,
        bus: events.Bus,
        *,
        log: Path,
        looks: dict[str, Look],
        works: dict[str, Work],
        console: SitDown | None = None,
        owner: int = 0,
    ) -> None:
        self._socket = socket
        self._log_path = log
        self._owner = owner
        self._bus = bus
        self._looks = looks
        self._works = works
        self._sit_down = console
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/{name}", self._look)
        app.router.add_post("/{name}", self._work)
        app.router.add_post("/console/{server}/{lines:[0-9]{1,6}}", self._console)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        self._socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._socket.unlink(missing_ok=True)
        await web.UnixSite(self._runner, str(self._socket)).start()
        self._socket.chmod(0o600)
        if self._owner:
            os.chown(self._socket, self._owner, -1)

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        self._socket.unlink(missing_ok=True)

    async def _look(self, request: web.Request) -> web.StreamResponse:
        look = self._looks.get(request.match_info["name"])
        if look is None:
            raise web.HTTPNotFound
        return web.json_response(await look())

    async def _work(self, request: web.Request) -> web.StreamResponse:
        work = self._works.get(request.match_info["name"])
        if work is None:
            raise web.HTTPNotFound
        arguments = await request.json()
        response = web.StreamResponse(headers={"Content-Type": "application/jsonl"})
        await response.prepare(request)
        lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        unsubscribe = self._bus.subscribe(lambda event: lines.put_nowait(events.to_json(event)))
        task = asyncio.create_task(self._do(work, arguments, lines))
        try:
            while (line := await lines.get()) is not None:
                await response.write(json.dumps(line).encode() + b"\n")
        finally:
            unsubscribe()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return response

    async def _console(self, request: web.Request) -> web.StreamResponse:
        if self._sit_down is None:
            raise web.HTTPNotFound
        try:
            heard, write = self._sit_down(request.match_info["server"], int(request.match_info["lines"]))
        except RacklessError as error:
            return web.json_response({"error": error_to_json(error)})
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

    async def _do(self, work: Work, arguments: dict[str, Any], lines: asyncio.Queue[dict[str, Any] | None]) -> None:
        try:
            with events.inside(arguments.pop("step", None)):
                lines.put_nowait({"result": await work(arguments)})
        except RacklessError as error:
            lines.put_nowait({"error": error_to_json(error)})
        except Exception as error:  # the edge: whatever it is, the asker is told and the daemon lives on
            known = errors.known(error)
            if known is None:
                _log.exception("while doing %s", work)
                known = RacklessError(
                    f"labd met something it did not expect: {type(error).__name__}: {error}",
                    hint="this is a mistake in rackless; the daemon's log has the details",
                    log=self._log_path,
                )
            lines.put_nowait({"error": error_to_json(known)})
        finally:
            lines.put_nowait(None)


async def _say(heard: Heard, response: web.StreamResponse) -> None:
    async for text in heard:
        await response.write(text)


async def _type(request: web.Request, write: Write) -> None:
    async for keys in request.content.iter_any():
        write(keys)
