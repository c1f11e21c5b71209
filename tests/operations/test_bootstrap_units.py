"""What systemd starts on a bootstrap machine, until it is done, fails or is stopped: the payload, the machine-config server."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from rackless.errors import LabError
from rackless.operations.bootstrap import parts as bootstrap_parts
from rackless.operations.bootstrap import payload as bootstrap_payload
from rackless.operations.bootstrap.running import run, teller
from rackless.ports.process import Completed
from rackless.trust.authority import Authority, Use
from tests.api.conftest import free_ports

CONTENT = b"payload" * 1000


def test_a_unit_ends_when_its_work_is_done_and_tells_why_it_failed(capsys: pytest.CaptureFixture[str]) -> None:
    async def works() -> None:
        tell({"phase": "done"})

    async def fails() -> None:
        raise LabError("there is no address", why="no lease")

    async def has_no_room() -> None:
        raise OSError(28, "No space left on device", "/state")

    tell = teller(plain=True)
    run(works(), tell)
    with pytest.raises(LabError):
        run(fails(), tell)
    with pytest.raises(OSError):
        run(has_no_room(), tell)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told == [
        {"phase": "done"}, {"failed": "there is no address: no lease"},
        {"failed": "[Errno 28] No space left on device: '/state'"},
    ]  # fmt: skip


def test_a_unit_that_is_stopped_ends_without_an_error_and_cleans_up() -> None:
    cleaned = []

    async def stays() -> None:
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)

    run(stays(), lambda _: None)
    assert cleaned


async def test_the_payload_is_fetched_once_and_mounted_at_every_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[str] = []

    class Commands:
        async def run(self, argv: Sequence[str | Path], **_: object) -> Completed:
            commands.append(" ".join(map(str, argv)))
            return Completed((), 0, "", "")

    monkeypatch.setattr(bootstrap_payload, "LocalProcesses", Commands)
    monkeypatch.setattr(bootstrap_payload, "PAYLOADS", tmp_path / "payloads")
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(body=CONTENT)

    app = web.Application()
    app.router.add_get("/payload.img", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    digest = hashlib.sha256(CONTENT).hexdigest()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/payload.img"
    release = tmp_path / "release.json"
    release.write_text(json.dumps({"payload": {"url": url, "sha256": digest}}))
    told: list[Mapping[str, Any]] = []
    try:
        for _ in range(2):
            await bootstrap_payload.fetch_payload(release, tmp_path / "mount", told.append)
    finally:
        await runner.cleanup()
    image = tmp_path / "payloads" / f"{digest}.img"
    assert asked == ["/payload.img"] and image.read_bytes() == CONTENT
    assert commands == ["modprobe loop", f"mount -o loop,ro {image} {tmp_path / 'mount'}"] * 2
    mounted = [one for one in told if one["phase"] == "payload mounted"]
    assert [(one["fetched"], one["bytes"]) for one in mounted] == [(True, len(CONTENT)), (False, len(CONTENT))]


async def test_machine_configs_are_served_until_the_unit_is_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "machine-config"
    folder.mkdir()
    (folder / "master.ign").write_text('{"role": "master"}')
    authority = Authority.ensure(tmp_path / "ca", "root-ca")
    leaf = authority.ensure_leaf("server", ["127.0.0.1"], uses=(Use.SERVER,))
    (port,) = free_ports(1)
    told: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
    work = bootstrap_parts.serve_machine_configs(folder, leaf.certificate, leaf.key, "127.0.0.1", port, told.put_nowait)
    serving = asyncio.create_task(work)
    assert await told.get() == {"phase": "machine-config server", "roles": ["master"], "port": port}
    tls = ssl.create_default_context(cafile=authority.certificate)
    url = f"https://127.0.0.1:{port}/config/master"
    async with aiohttp.ClientSession() as client:
        async with client.get(url, ssl=tls) as answer:
            assert answer.status == 200
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ClientConnectionError):
            await client.get(url, ssl=tls)
