"""The lab's file server: images and ISOs over plain HTTP, to the lab's own networks only, integrity by checksum."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler

PORT = 6180
"""Where Metal3 serves its images too."""


class FileServer:
    """At all of `addresses`; the first is the one that is told."""

    def __init__(self, root: Path, *addresses: str, port: int = PORT) -> None:
        self._root = root
        self.addresses = addresses
        self.port = port
        self._runner: web.AppRunner | None = None
        self._fetched: dict[str, dict[str, None]] = {}

    @property
    def url(self) -> str:
        return f"http://{self.addresses[0]}:{self.port}"

    async def start(self) -> None:
        if self._runner is not None:
            return
        self._root.mkdir(parents=True, exist_ok=True)
        app = web.Application(middlewares=[self._note])
        app.router.add_static("/", self._root, follow_symlinks=True)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        for address in self.addresses:
            await web.TCPSite(self._runner, address, self.port).start()

    def fetched(self, *clients: str) -> list[str]:
        """The files a client with these addresses asked for, in the order it first did."""
        return [path for client in clients for path in self._fetched.get(client, {})]

    @web.middleware
    async def _note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.remote:
            self._fetched.setdefault(request.remote, {})[request.path] = None
        return await handler(request)

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
