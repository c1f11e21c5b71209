"""The lab's file server: images and ISOs over plain HTTP, to the lab's own networks only, integrity by checksum."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

PORT = 6180
"""Where Metal3 serves its images too."""


class FileServer:
    def __init__(self, root: Path, address: str, port: int = PORT) -> None:
        self._root = root
        self.address = address
        self.port = port
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://{self.address}:{self.port}"

    async def start(self) -> None:
        if self._runner is not None:
            return
        self._root.mkdir(parents=True, exist_ok=True)
        app = web.Application()
        app.router.add_static("/", self._root, follow_symlinks=True)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.address, self.port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
