"""The page on a stage: `rackless web` in this process, on loopback, before labs that are fakes."""

from __future__ import annotations

import asyncio
import json
import random
import struct
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import aiohttp

from rackless.cli.words import to_json
from rackless.drivers import open_drivers
from rackless.drivers.fake.computer import FakeComputer
from rackless.lab.capture import HEADER, packet
from rackless.ports.drivers import Drivers
from rackless.ports.process import Completed, ProcessTable
from rackless.run.paths import Roots
from rackless.web.server import WebPlace, WebSettings, serve


def picture(width: int = 320, height: int = 240) -> bytes:
    """A PNG: a dark screen with lines of something that could be words, as far as one can tell."""
    back, ink, chance = bytes((16, 20, 26)), (bytes((158, 168, 180)), bytes((110, 200, 140))), random.Random(7)
    lines = []
    for _ in range(height // 10 - 6):
        words: list[bytes] = []
        for length in (chance.randint(2, 9) for _ in range(chance.randint(3, 9))):
            words += [(ink[not words] * 3 + back) * length, back * 4]
        text = b"".join([back * 8, *words])[: 3 * (width - 8)]
        lines.append(text + back * (width - len(text) // 3))
    blank = back * width
    drawn = [lines[y // 10] if y // 10 < len(lines) and 2 <= y % 10 < 8 and y % 3 else blank for y in range(height)]
    rows = b"".join(b"\0" + row for row in drawn)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack("!I", len(body)) + kind + body + struct.pack("!I", zlib.crc32(kind + body))

    header = struct.pack("!IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@dataclass
class Screens:
    """Of processes, only `virsh screenshot`, which writes a picture, and `rackless capture`, which writes packets."""

    taken: list[str] = field(default_factory=list)
    captured: list[list[str]] = field(default_factory=list)
    began: asyncio.Event = field(default_factory=asyncio.Event)
    capturing: asyncio.Event | None = None
    """Until then a recording goes on."""

    async def run(self, argv: Sequence[str | Path], **_: Any) -> Completed:
        words = [str(word) for word in argv]
        if "capture" in words:
            self.captured.append(words[words.index("capture") + 1 :])
            self.began.set()
            if self.capturing is not None:
                await self.capturing.wait()
            output = Path(words[words.index("--output") + 1])
            output.write_bytes(HEADER + packet(b"\xff" * 60, 1.5))
            return Completed(tuple(words), 0, json.dumps({"packets": 1}), "")
        assert words[-4:-2] == ["--quiet", "screenshot"], words
        self.taken.append(words[-2])
        Path(words[-1]).parent.mkdir(parents=True, exist_ok=True)
        Path(words[-1]).write_bytes(picture())
        return Completed(tuple(words), 0, "", "")

    def find(self, pidfile: Path) -> int | None:
        return 1


def fake_drivers(screens: Screens | None = None, computer: FakeComputer | None = None) -> Drivers:
    processes = cast(ProcessTable, screens or Screens())
    return replace(open_drivers(), processes=processes, computer=computer or FakeComputer())


@dataclass
class Stage:
    place: WebPlace
    http: aiohttp.ClientSession

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.place.port}"

    @property
    def origin(self) -> Mapping[str, str]:
        return {"Origin": self.base}

    async def enter(self) -> None:
        async with self.http.get(self.place.url) as answer:
            assert answer.status == 200, await answer.text()

    async def get(self, path: str, **more: Any) -> tuple[int, Any]:
        async with self.http.get(self.base + path, **more) as answer:
            return answer.status, await answer.json()

    async def post(self, path: str, value: object, **headers: str) -> tuple[int, Any]:
        async with self.http.post(self.base + path, json=value, headers={**self.origin, **headers}) as answer:
            return answer.status, await answer.json()

    def live(self, lab: str = "lab", since: int = 0) -> Any:
        return self.http.ws_connect(f"{self.base}/api/labs/{lab}/live?since={since}", headers=self.origin)


@asynccontextmanager
async def stage(
    roots: Roots, drivers: Drivers | None = None, *, read_only: bool = False, only: str | None = None, port: int = 0
) -> AsyncIterator[Stage]:
    ready: asyncio.Future[WebPlace] = asyncio.get_running_loop().create_future()
    settings = WebSettings(roots, port=port, read_only=read_only, only=only)
    serving = asyncio.ensure_future(serve(settings, drivers or fake_drivers(), to_json, ready.set_result))
    waited: list[asyncio.Future[Any]] = [serving, ready]
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        serving.result()
    jar = aiohttp.CookieJar(unsafe=True)  # also for addresses
    async with aiohttp.ClientSession(cookie_jar=jar) as http:
        try:
            yield Stage(ready.result(), http)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


def token_of(place: WebPlace) -> str:
    return urlsplit(place.url).query.removeprefix("token=")
