"""Fetching the payload from the release server: by checksum, begun again until it is whole."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import aiohttp

from rackless.cluster.bootstrap.telling import Tell
from rackless.errors import GaveUp
from rackless.ports.clock import Clock

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
    while True:
        scratch = target.with_name(f"{target.name}.part")
        try:
            wrong = await _fetch(url, sha256, scratch)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            wrong = f"{type(error).__name__}: {error}"
        if not wrong:
            scratch.rename(target)
            return True
        scratch.unlink(missing_ok=True)
        if wrong != last:
            last = wrong
            tell({"payload": url, "refused": wrong})
        if clock.now() >= deadline:
            raise GaveUp(f"the payload from {url}", within, last)
        await clock.sleep(PAUSE_SECONDS)


async def _fetch(url: str, sha256: str, scratch: Path) -> str:
    """What is wrong with it; empty when it is what was asked for."""
    scratch.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=_SILENCE_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session, session.get(url) as answer:
        if answer.status != 200:
            return f"the release server answers {answer.status}"
        with scratch.open("wb") as file:
            async for piece in answer.content.iter_chunked(_PIECE):
                digest.update(piece)
                await asyncio.to_thread(file.write, piece)
    return "" if digest.hexdigest() == sha256 else f"its checksum is {digest.hexdigest()}, not {sha256}"
