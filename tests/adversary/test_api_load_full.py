"""Disks that are full, for real: the API says so, and takes writes again by itself when there is room."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from rackless.api.process import ApiServer
from rackless.api.stores import room
from tests.adversary.api_load_attacks import CONFIG_MAPS
from tests.adversary.test_api_load_clients import LONG
from tests.api.conftest import Client, Etcd, debian_program, free_ports, settings

pytestmark = pytest.mark.real


async def _fill(client: Client, size: int) -> list[str]:
    """Objects until one is refused; their names."""
    names: list[str] = []
    while True:
        name = f"m{len(names)}"
        async with asyncio.timeout(LONG):
            code, _ = await client.call("POST", CONFIG_MAPS, {"metadata": {"name": name}, "data": {"a": "x" * size}})
        if code == 503:
            return names
        assert code == 201 and len(names) < 1000, code
        names.append(name)


async def _until_ready(client: Client) -> None:
    async with asyncio.timeout(2 * LONG):
        while (await client.get("/readyz"))[0] != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def _start(words: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(words, stdout=output, stderr=output)


def _fill_up(file: Path) -> None:
    with suppress(OSError), file.open("wb") as filler:
        while filler.write(bytes(65536)):
            pass


async def test_etcd_that_was_full_takes_writes_again_when_something_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = debian_program("etcd-server", "usr/bin/etcd")
    if program is None:
        pytest.skip("etcd-server cannot be had here")
    monkeypatch.setattr(room, "FIRST_PAUSE", 0.2)
    etcd = Etcd(program, tmp_path)
    etcd.more = ("--quota-backend-bytes", str(8 << 20))
    etcd.start()
    try:
        async with (
            ApiServer(settings(tmp_path, f"etcd:{etcd.url}")) as api,
            Client(api.url, tmp_path / "pki") as client,
        ):
            names = await _fill(client, 700_000)
            code, text = await client.get("/readyz")
            assert code == 500 and "etcd has no room" in text
            for name in names:
                assert (await client.call("DELETE", f"{CONFIG_MAPS}/{name}"))[0] == 200
            await _until_ready(client)
            await client.create(CONFIG_MAPS, {"metadata": {"name": "after"}})
    finally:
        etcd.stop()


async def test_sqlite_on_a_full_disk_takes_writes_again_when_there_is_room(tmp_path: Path) -> None:
    """On a file system of its own, 4 MiB large, in a mount namespace of its own."""
    if os.geteuid() != 0:
        pytest.skip("a file system of its own needs root")
    (port,) = free_ports(1)
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = f'mount -t tmpfs -o size=4m none {disk} && exec "$@"'
    serve = [sys.executable, "-m", "rackless", "api", "serve", "--store", f"sqlite:{disk}/objects.db",
             "--pki", f"{tmp_path}/pki", "--port", str(port), "--kubeconfig-out", f"{tmp_path}/kubeconfig"]  # fmt: skip
    process = _start(["unshare", "-m", "sh", "-c", mounted, "sh", *serve], tmp_path / "log")
    try:
        deadline = time.monotonic() + LONG
        while not (tmp_path / "kubeconfig").exists() and time.monotonic() < deadline:
            assert process.poll() is None, (tmp_path / "log").read_text()
            await asyncio.sleep(0.1)
        async with Client(f"https://127.0.0.1:{port}", tmp_path / "pki") as client:
            await _until_ready(client)
            filler = Path(f"/proc/{process.pid}/root{disk}/filler")
            _fill_up(filler)
            names = await _fill(client, 20_000)
            assert (await client.get("/readyz"))[0] == 500
            for name in names[:2]:
                assert (await client.get(f"{CONFIG_MAPS}/{name}"))[0] == 200
            filler.unlink()
            await _until_ready(client)
            await client.create(CONFIG_MAPS, {"metadata": {"name": "after"}, "data": {"a": "x" * 20_000}})
        assert "Traceback" not in (tmp_path / "log").read_text()
    finally:
        process.terminate()
        process.wait()
