"""The payload is fetched by its checksum, from a server that may be away or wrong."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rackless.cluster.bootstrap import pulling
from rackless.errors import GaveUp

CONTENT = b"payload" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Hurried:
    """Time that passes with every wait, and only then."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._now += seconds


@pytest.fixture
async def server() -> AsyncIterator[tuple[str, list[web.Response]]]:
    """Gives the answers in its list, one after the other, then the payload."""
    answers: list[web.Response] = []

    async def answer(_: web.Request) -> web.Response:
        return answers.pop(0) if answers else web.Response(body=CONTENT)

    app = web.Application()
    app.router.add_get("/payload", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/payload", answers
    await runner.cleanup()


async def test_it_is_fetched_once(server: tuple[str, list[web.Response]], tmp_path: Path) -> None:
    url, answers = server
    target, told = tmp_path / "new/payload.img", list[Mapping[str, Any]]()
    assert await pulling.pull(url, SHA256, target, Hurried(), told.append)
    assert target.read_bytes() == CONTENT and told == []
    answers.append(web.Response(status=500))
    assert not await pulling.pull(url, SHA256, target, Hurried(), told.append)


async def test_a_wrong_or_absent_one_is_told_once_and_asked_for_again(
    server: tuple[str, list[web.Response]], tmp_path: Path
) -> None:
    url, answers = server
    answers += [web.Response(status=404), web.Response(status=404), web.Response(body=b"something else")]
    told: list[Mapping[str, Any]] = []
    assert await pulling.pull(url, SHA256, tmp_path / "payload.img", Hurried(), told.append)
    assert [each["refused"].split(",")[0].split(" is ")[0] for each in told] == [
        "the release server answers 404",
        "its checksum",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["payload.img"]


async def test_a_server_that_stays_away_is_named_in_the_end(tmp_path: Path) -> None:
    with pytest.raises(GaveUp, match=r"the payload from http://127\.0\.0\.1:9/payload"):
        await pulling.pull("http://127.0.0.1:9/payload", SHA256, tmp_path / "p", Hurried(), lambda _: None)
    assert list(tmp_path.iterdir()) == []


async def test_it_is_on_the_disk_before_it_has_its_name(
    server: tuple[str, list[web.Response]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine whose power goes after that finds it whole, or not at all."""
    url, _ = server
    target, synced = tmp_path / "payload.img", list[tuple[str, bool]]()
    sync = os.fsync

    def fsync(handle: int) -> None:
        synced.append((Path(f"/proc/self/fd/{handle}").readlink().name, target.exists()))
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    assert await pulling.pull(url, SHA256, target, Hurried(), lambda _: None)
    assert synced == [("payload.img.part", False), (tmp_path.name, True)]
