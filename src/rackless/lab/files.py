"""The lab's file server: images and ISOs over plain HTTP, to the lab's own networks only, integrity by checksum.

Everybody in the lab may read what is there, but for what Ironic publishes for a BMC: a boot ISO carries the token by which its
agent is known, so it is for the BMC that fetches it, while it does. Requests come from guests, without a log-in: what is
remembered of them is bounded, and so are their connections. labd has others to answer.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Collection
from pathlib import Path

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from rackless.run.connections import ClientPatience, GuardedRunner, GuardedServer

PORT = 6180
"""The port; Metal3 serves its images on the same one."""
FOR_BMCS = "redfish"
"""The folder in which Ironic publishes boot ISOs, and whatever else is for a virtual drive."""
MOST_CLIENTS = 1024
"""How many clients' fetches are remembered."""
MOST_FILES = 16
"""How many fetches of each client are remembered."""
MOST_CONNECTIONS = 2048
EACH_CONNECTIONS = 64
"""Of one address. A server that is installed has two at once."""
STALLED_SECONDS = 300.0
"""For a client that takes nothing of a file: an emulated server may stand still for a minute and go on."""

Fetches = Callable[[str, str], bool]
"""Whether the BMC with this address fetches the file at this path of a URL now."""


class SentFile(web.FileResponse):
    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        try:
            return await super().prepare(request)
        except (
            TimeoutError
        ) as error:  # the kernel's word for a client that takes nothing; aiohttp would log a traceback
            raise ConnectionResetError("the client takes nothing of it") from error


class FileServer:
    """Listens on all of `addresses`; URLs have the first one."""

    def __init__(self, root: Path, *addresses: str, port: int = PORT) -> None:
        self._root = root
        self.addresses = addresses
        self.port = port
        self._runner: web.AppRunner | None = None
        self._fetched: dict[str, dict[str, None]] = {}
        self._fetches: Fetches | None = None
        self._metal: frozenset[str] = frozenset()

    @property
    def url(self) -> str:
        return f"http://{self.addresses[0]}:{self.port}"

    @property
    def open(self) -> int:
        """Connections."""
        server = self._runner.server if self._runner is not None else None
        return server.open if isinstance(server, GuardedServer) else 0

    def ask_bmcs(self, fetches: Fetches, metal: Collection[str] = ()) -> None:
        """From now on a boot ISO is served only to the BMC that fetches it at the moment. Nobody can ask the BMCs of `metal` what
        they fetch: they are known by their addresses."""
        self._fetches = fetches
        self._metal = frozenset(metal)

    async def start(self) -> None:
        if self._runner is not None:
            return
        self._root.mkdir(parents=True, exist_ok=True)
        app = web.Application()
        app.router.add_get("/{path:.*}", self._serve)
        patience = ClientPatience(stalled=STALLED_SECONDS)
        self._runner = GuardedRunner(app, patience, most=MOST_CONNECTIONS, each=EACH_CONNECTIONS)
        await self._runner.setup()
        for address in self.addresses:
            await web.TCPSite(self._runner, address, self.port).start()

    def fetched(self, *clients: str) -> list[str]:
        """The files that a client with one of these addresses has fetched, in the order of the first fetch."""
        return [path for client in clients for path in self._fetched.get(client, {})]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        # compared as text: symbolic links in the folder lead out of it on purpose
        path = os.path.normpath("/" + request.match_info["path"].lstrip("/"))
        file = self._root / path[1:]
        if not self._allowed(request.remote or "", path) or not os.path.isfile(file):  # also of what can be no name
            raise web.HTTPNotFound
        if request.remote:
            self._note(request.remote, path)
        return SentFile(file)

    def _allowed(self, client: str, path: str) -> bool:
        private = path.split("/")[1] == FOR_BMCS
        return not private or self._fetches is None or client in self._metal or self._fetches(client, path)

    def _note(self, client: str, path: str) -> None:
        files = self._fetched.pop(client, {})
        self._fetched[client] = files  # moved to the end: the client that asked longest ago is forgotten first
        files[path] = None
        if len(files) > MOST_FILES:
            del files[next(iter(files))]
        if len(self._fetched) > MOST_CLIENTS:
            del self._fetched[next(iter(self._fetched))]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
