"""The control socket of labd, both ends: JSON over HTTP on a unix socket that root and the lab's owner can open.

A request that does work is answered with a stream of lines: events as they happen, then one line with the result or the error.
When the asker goes away, the work is cancelled; what is made stays, and asking again goes on.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from rackless import errors, events
from rackless.errors import LabError, MachineError, RacklessError

Work = Callable[[dict[str, Any]], Awaitable[Any]]
Look = Callable[[], Awaitable[Any]]

_log = logging.getLogger(__name__)
_ERRORS: dict[str, type[RacklessError]] = {
    kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RacklessError)
}


def _error_to_json(error: RacklessError) -> dict[str, str]:
    return {"kind": type(error).__name__, "what": error.what, "why": error.why, "hint": error.hint, "log": error.log}


def _error_from_json(value: dict[str, str]) -> RacklessError:
    """The same kind of error on this side, built from its words."""
    kind = _ERRORS.get(value["kind"], RacklessError)
    error = kind.__new__(kind)
    RacklessError.__init__(error, value["what"], why=value["why"], hint=value["hint"], log=value["log"])
    return error


class ControlServer:
    def __init__(
        self,
        socket: Path,
        bus: events.Bus,
        *,
        log: Path,
        looks: dict[str, Look],
        works: dict[str, Work],
        owner: int = 0,
    ) -> None:
        self._socket = socket
        self._log_path = log
        self._owner = owner
        self._bus = bus
        self._looks = looks
        self._works = works
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/{name}", self._look)
        app.router.add_post("/{name}", self._work)
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

    async def _do(self, work: Work, arguments: dict[str, Any], lines: asyncio.Queue[dict[str, Any] | None]) -> None:
        try:
            with events.inside(arguments.pop("step", None)):
                lines.put_nowait({"result": await work(arguments)})
        except RacklessError as error:
            lines.put_nowait({"error": _error_to_json(error)})
        except Exception as error:  # the edge: whatever it is, the asker is told and the daemon lives on
            known = errors.known(error)
            if known is None:
                _log.exception("while doing %s", work)
                known = RacklessError(
                    f"labd met something it did not expect: {type(error).__name__}: {error}",
                    hint="this is a mistake in rackless; the daemon's log has the details",
                    log=self._log_path,
                )
            lines.put_nowait({"error": _error_to_json(known)})
        finally:
            lines.put_nowait(None)


class ControlClient:
    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def alive(self) -> bool:
        if self._socket.exists() and not os.access(self._socket, os.W_OK):
            raise MachineError(
                "only root and the lab's owner may talk to it", why=f"{self._socket} is closed to you", hint="use sudo"
            )
        try:
            async with self._session() as session, session.get("http://labd/health") as answer:
                return answer.status == 200
        except (aiohttp.ClientError, OSError):
            return False

    async def look(self, name: str) -> Any:
        try:
            async with self._session() as session, session.get(f"http://labd/{name}") as answer:
                answer.raise_for_status()
                return await answer.json()
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(error) from error

    async def work(self, name: str, bus: events.Bus, **arguments: Any) -> Any:
        """Have labd do something; its events are published on our bus as they come."""
        try:
            async with self._session() as session, session.post(f"http://labd/{name}", json=arguments) as answer:
                answer.raise_for_status()
                async for raw in answer.content:
                    line = json.loads(raw)
                    if "event" in line:
                        bus.publish(events.from_json(line))
                    elif "error" in line:
                        raise _error_from_json(line["error"])
                    else:
                        return line["result"]
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(error) from error
        raise _unreachable(None)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.UnixConnector(str(self._socket))
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=1 << 20) as session:
            yield session


def _unreachable(error: Exception | None) -> LabError:
    return LabError(
        "the lab's daemon went away" if error is None else "the lab's daemon does not answer",
        why=str(error) if error is not None else "labd ended before it had finished; its keeper starts it again",
        hint="run `rackless up` again: it goes on where it was",
    )
