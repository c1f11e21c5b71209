"""The lab's file server: images and ISOs over plain HTTP, to the lab's own networks only, integrity by checksum."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler

PORT = 6180
"""Where Metal3 serves its images too."""


class FileServer:
    def __init__(self, root: Path, address: str, port: int = PORT) -> None:
        self._root = root
        self.address = address
        self.port = port
        self._runner: web.AppRunner | None = None
        self._fetched: dict[str, dict[str, None]] = {}

    @property
    def url(self) -> str:
        return f"http://{self.address}:{self.port}"

    async def start(self) -> None:
        if self._runner is not None:
            return
        self._root.mkdir(parents=True, exist_ok=True)
        app = web.Application(middlewares=[self._note])
        app.router.add_static("/", self._root, follow_symlinks=True)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.address, self.port).start()

    def fetched(self, client: str) -> list[str]:
        """The files this client asked for, in the order it first did."""
        return list(self._fetched.get(client, {}))

    @web.middleware
    async def _note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.remote:
            self._fetched.setdefault(request.remote, {})[request.path] = None
        return await handler(request)

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
