"""The store of fetched ISO images for virtual media: fetched once, kept by checksum, deleted when no drive has them.

A BMC asks `fetch` for a URL and gets a file; however many ask for the same bytes there is one copy, named by its
SHA-256. `holders` says who has which file in the drive; `release` of the last one removes it. What is fetched is not
trusted: size, time and the space left are bounded. This module knows nothing of servers.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import shutil
import socket
import ssl
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

import aiohttp
from yarl import URL

from rackless.bmc.core.sockets import Forbids, MakeSocket, Names, connector, no_site
from rackless.errors import RacklessError

_CHUNK = 1 << 20
_PARTIAL = ".fetching-"


class FetchFailed(RacklessError):
    """An image could not be fetched. `kind` says why, in the protocols' words."""

    def __init__(self, kind: str, url: str, why: str) -> None:
        super().__init__(f"the image {url} cannot be fetched", why=why)
        self.kind = kind
        self.url = url


@dataclass(frozen=True, slots=True)
class Limits:
    bytes: int = 16 << 30
    """More than any install ISO."""
    seconds: float = 900.0
    stall_seconds: float = 30.0
    spare_bytes: int = 256 << 20
    """Space that stays free on the disk."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a server said about a URL the last time, so that an unchanged image is not sent again."""

    file: Path
    etag: str | None
    modified: str | None


@dataclass(slots=True)
class _Flight:
    """One download, and the BMCs that wait for it."""

    url: str
    source: str | None
    holders: set[str]
    task: asyncio.Task[Path]


class MediaShelf:
    def __init__(
        self,
        directory: Path,
        *,
        trust: ssl.SSLContext | None = None,
        limits: Limits | None = None,
        sockets: MakeSocket = socket.socket,
        forbids: Forbids = no_site,
        names: Names | None = None,
    ) -> None:
        self.directory = directory
        self._names = names
        self._writers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="bmc-media")
        self._sockets = sockets
        self._forbids = forbids
        self._trust = trust
        self._limits = limits or Limits()
        self._holders: defaultdict[Path, set[str]] = defaultdict(set)
        self._flights: dict[tuple[str, str, str, bool], _Flight] = {}
        self._seen: dict[str, _Seen] = {}

    def open(self) -> None:
        """Read the folder that an earlier process left; then `hold` is called for each drive, and `sweep` deletes the rest."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for partial in self.directory.glob(f"{_PARTIAL}*"):
            partial.unlink()

    def sweep(self) -> None:
        """Delete images that no drive has, once all drives are known."""
        for file in self.directory.glob("*.iso"):
            if file not in self._holders:
                file.unlink()

    async def fetch(
        self,
        url: str,
        holder: str,
        *,
        username: str | None = None,
        password: str | None = None,
        verify: bool = True,
        source: str | None = None,
        rate: int | None = None,
    ) -> Path:
        """The file with the bytes at `url`, held for `holder`. `source` is the address to ask from; `rate` bytes per
        second are fetched at most. A second request for the same URL shares the running download."""
        key = (url, username or "", password or "", verify)
        flight = self._flights.get(key)
        if flight is None:
            auth = base64.b64encode(f"{username}:{password or ''}".encode()).decode() if username else None
            holders: set[str] = set()
            task = asyncio.create_task(self._fetch(url, auth, verify, source, rate, holders))
            flight = self._flights[key] = _Flight(url, source, holders, task)
            task.add_done_callback(lambda _: self._flights.pop(key, None))
        flight.holders.add(holder)
        try:
            return await asyncio.shield(flight.task)
        except asyncio.CancelledError:
            flight.holders.discard(holder)
            if flight.task.done() and not flight.task.cancelled() and not flight.task.exception():
                self.release(flight.task.result(), holder)
            elif not flight.holders:
                flight.task.cancel()
            raise

    def fetches(self, source: str, path: str) -> bool:
        """Whether something at this path of a URL is being fetched from this address of ours now."""
        return any(
            flight.source == source and unquote(urlsplit(flight.url).path) == path for flight in self._flights.values()
        )

    def hold(self, file: Path, holder: str) -> None:
        if file.parent == self.directory:
            self._holders[file].add(holder)

    def release(self, file: Path, holder: str) -> None:
        holders = self._holders.get(file)
        if holders is None:
            return
        holders.discard(holder)
        if not holders:
            del self._holders[file]
            self._seen = {url: seen for url, seen in self._seen.items() if seen.file != file}
            with suppress(FileNotFoundError):
                file.unlink()

    async def close(self) -> None:
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._writers.shutdown(wait=False)

    async def _fetch(
        self, url: str, auth: str | None, verify: bool, source: str | None, rate: int | None, holders: set[str]
    ) -> Path:
        file = await self._transfer(url, auth, verify, source, rate)
        self._holders[file] |= holders
        if not holders:  # everybody who asked went away
            self.release(file, "")
        return file

    async def _transfer(self, url: str, auth: str | None, verify: bool, source: str | None, rate: int | None) -> Path:
        try:
            address = URL(url)
        except ValueError as error:
            raise FetchFailed("unsupported", url, str(error)) from error
        if address.scheme not in ("http", "https") or not address.host:
            raise FetchFailed("unsupported", url, "only http and https are supported")
        trust: ssl.SSLContext | bool = (self._trust or True) if verify else False
        connected = connector(self._sockets, source, trust, self._forbids, self._names)
        timeout = aiohttp.ClientTimeout(
            total=self._limits.seconds, connect=30, sock_connect=10, sock_read=self._limits.stall_seconds
        )
        seen = self._seen.get(url)
        ask = {"Accept-Encoding": "identity"}
        if auth:
            ask["Authorization"] = f"Basic {auth}"
        if seen and seen.etag:
            ask["If-None-Match"] = seen.etag
        elif seen and seen.modified:
            ask["If-Modified-Since"] = seen.modified
        try:
            async with (
                aiohttp.ClientSession(connector=connected, timeout=timeout, auto_decompress=False) as client,
                client.get(address, headers=ask, max_redirects=5) as response,
            ):
                if response.status == 304 and seen and seen.file in self._holders and seen.file.exists():
                    return seen.file
                if response.status != 200:
                    kind = {401: "unauthorized", 403: "unauthorized", 404: "missing", 410: "missing"}
                    raise FetchFailed(
                        kind.get(response.status, "refused"), url, f"the server answered {response.status}"
                    )
                file = await self._store(url, response, rate)
                self._seen[url] = _Seen(file, response.headers.get("ETag"), response.headers.get("Last-Modified"))
                return file
        except TimeoutError as error:
            raise FetchFailed("unreachable", url, "it took too long") from error
        except (aiohttp.ClientError, ValueError) as error:
            raise FetchFailed("unreachable", url, str(error)) from error
        except OSError as error:
            raise FetchFailed("space", url, str(error)) from error

    async def _store(self, url: str, response: aiohttp.ClientResponse, rate: int | None) -> Path:
        room = min(self._limits.bytes, shutil.disk_usage(self.directory).free - self._limits.spare_bytes)
        size = response.content_length
        if size is not None and size > room:
            raise FetchFailed("space", url, f"it has {size} bytes, and there is room for {max(room, 0)}")
        digest = hashlib.sha256()
        loop = asyncio.get_running_loop()
        received = 0
        with tempfile.NamedTemporaryFile(dir=self.directory, prefix=_PARTIAL, delete=False) as partial:
            path = Path(partial.name)
            try:
                async for chunk in response.content.iter_chunked(min(_CHUNK, rate or _CHUNK)):
                    if rate:
                        await asyncio.sleep(len(chunk) / rate)
                    received += len(chunk)
                    if received > room:
                        raise FetchFailed("space", url, f"it is larger than the room for it, {room} bytes")
                    left = await loop.run_in_executor(self._writers, _write, partial, digest, chunk)
                    if left < self._limits.spare_bytes:  # others fill the same disk
                        raise FetchFailed("space", url, "there is no room left for it")
                if not received:
                    raise FetchFailed("unusable", url, "it is empty")
                partial.flush()
                # it may carry a token: root's alone, until the hypervisor lets the server in that gets it
                final = self.directory / f"{digest.hexdigest()}.iso"
                if final in self._holders and final.exists():
                    path.unlink()
                else:
                    path.rename(final)
                return final
            except BaseException:
                path.unlink(missing_ok=True)
                raise


def _write(file: IO[bytes], digest: hashlib._Hash, chunk: bytes) -> int:
    """How much room is left on the disk then."""
    digest.update(chunk)
    file.write(chunk)
    return shutil.disk_usage(file.fileno()).free
