"""A server's console over a WebSocket: a terminal's rows to the page, keys to the server. labd has the console and fans out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from aiohttp import WSMsgType, web

from rackless.errors import RacklessError
from rackless.operations import servers as server_operations
from rackless.ports.console import Write
from rackless.protocol.failures import Failure
from rackless.web.live import HEARTBEAT_SECONDS, send, until_one_ends
from rackless.web.site import WebSite
from rackless.web.terminal import Terminal

LINES = 400
"""Of what was said before."""
GATHER_SECONDS = 0.04
"""What comes within this is one picture."""
MOST_KEYS = 4096
GLANCE_SECONDS = 0.3
"""For what was said before to come in."""


async def sit_down(
    request: web.Request, site: WebSite, lab: str, server: str, *, typing: bool
) -> web.WebSocketResponse:
    site.paths(lab)
    socket = web.WebSocketResponse(heartbeat=HEARTBEAT_SECONDS, max_msg_size=MOST_KEYS)
    await socket.prepare(request)
    try:
        async with server_operations.console(lab, server, LINES, site.roots, site.drivers) as seat:
            write = seat.write if typing else None
            await send(socket, json.dumps({"on": seat.on, "typing": write is not None}))
            await until_one_ends(_show(socket, seat.heard), _type(socket, write))
    except RacklessError as error:
        failure = Failure.of(error)
        if not socket.closed:
            await send(socket, json.dumps({"error": {"what": failure.what, "why": failure.why, "hint": failure.hint}}))
    await socket.close()
    return socket


async def console_view(site: WebSite, lab: str, server: str) -> Mapping[str, Any]:
    """The terminal as it is now, as lines of text."""
    site.paths(lab)
    terminal = Terminal()
    async with server_operations.console(lab, server, LINES, site.roots, site.drivers) as seat:
        with suppress(TimeoutError):
            async with asyncio.timeout(GLANCE_SECONDS):
                async for text in seat.heard:
                    terminal.feed(text)
        return {"lab": lab, "server": server, "on": seat.on, "lines": terminal.lines()}


async def _show(socket: web.WebSocketResponse, heard: AsyncIterator[bytes]) -> None:
    """A viewer who is slow gets fewer pictures, not more memory: the terminal is fed and has one size."""
    terminal, news = Terminal(), asyncio.Event()

    async def hear() -> None:
        async for text in heard:
            terminal.feed(text)
            news.set()

    async def tell() -> None:
        while True:
            await news.wait()
            await asyncio.sleep(GATHER_SECONDS)
            news.clear()
            if (changes := terminal.changes()) is not None:
                await send(socket, json.dumps(changes))

    await until_one_ends(hear(), tell())


async def _type(socket: web.WebSocketResponse, write: Write | None) -> None:
    async for message in socket:
        if message.type is not WSMsgType.TEXT:
            return
        if write is not None:
            write(message.data.encode(errors="replace"))
