"""Fetching the payload from the release server: by checksum, begun again until it is whole.

With the standard library alone: on an emulated machine the import of an HTTP client costs more than many a payload.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import os
import threading
import urllib.error
import urllib.request
from pathlib import Path

from rackless.cluster.bootstrap.telling import Tell
from rackless.errors import GaveUp
from rackless.ports.clock import Clock
from rackless.run.files import sync_folder

WITHIN_SECONDS = 1200.0
PAUSE_SECONDS = 5.0
_PIECE = 1 << 20
_SILENCE_SECONDS = 60.0


async def pull(
    url: str, sha256: str, target: Path, clock: Clock, tell: Tell, *, within: float = WITHIN_SECONDS
) -> bool:
    """False when it is there already. A server that is away, or gives something else, is told and asked again. Raises GaveUp."""
    if target.exists():  # it was whole before it got this name
        return False
    deadline, last = clock.now() + within, ""
    target.parent.mkdir(parents=True, exist_ok=True)
    while True:
        scratch = target.with_name(f"{target.name}.part")
        stop = threading.Event()
        try:
            wrong = await asyncio.to_thread(_fetch, url, sha256, scratch, stop)
        finally:
            stop.set()
        if not wrong:
            scratch.rename(target)
            sync_folder(target.parent)
            return True
        scratch.unlink(missing_ok=True)
        if wrong != last:
            last = wrong
            tell({"payload": url, "refused": wrong})
        if clock.now() >= deadline:
            raise GaveUp(f"the payload from {url}", within, last)
        await clock.sleep(PAUSE_SECONDS)


def _fetch(url: str, sha256: str, scratch: Path, stop: threading.Event) -> str:
    """What is wrong with it; empty when it is what was asked for. `stop` ends it at the next piece."""
    digest, room = hashlib.sha256(), bytearray(_PIECE)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=_SILENCE_SECONDS) as answer, scratch.open("wb") as file:
            while (taken := answer.readinto(room)) and not stop.is_set():
                piece = memoryview(room)[:taken]
                digest.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())  # its name says that it is whole, also after a power cut
    except urllib.error.HTTPError as error:
        return f"the release server answers {error.code}"
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"
    return "" if digest.hexdigest() == sha256 else f"its checksum is {digest.hexdigest()}, not {sha256}"
