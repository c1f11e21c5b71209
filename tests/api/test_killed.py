"""`kill -9` under load: every acknowledged write is there afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from .conftest import Client, Etcd, Running

pytestmark = pytest.mark.real
MAPS = "/api/v1/namespaces/default/configmaps"


async def _writer(client: Client, number: int, acknowledged: set[str]) -> None:
    for step in range(10_000):
        name = f"c-{number}-{step}"
        try:
            code, answer = await client.call("POST", MAPS, {"metadata": {"name": name}, "data": {"a": "b" * 500}})
        except (OSError, aiohttp.ClientError):
            return
        if code == 503:
            return  # the store was killed, the outcome is unknown
        assert code == 201, answer
        acknowledged.add(name)


@pytest.mark.parametrize("killed", ["server on sqlite", "server on etcd", "etcd", "both"])
def test_every_acknowledged_write_survives_being_killed_under_load(
    tmp_path: Path, killed: str, request: pytest.FixtureRequest
) -> None:
    etcd: Etcd | None = None if "sqlite" in killed else request.getfixturevalue("etcd_process")
    server = Running(tmp_path, f"etcd:{etcd.url}" if etcd else "")
    server.start()
    acknowledged: set[str] = set()

    async def storm() -> None:
        async with Client(f"https://127.0.0.1:{server.port}", tmp_path / "pki") as client:
            tasks = [asyncio.create_task(_writer(client, number, acknowledged)) for number in range(16)]
            async with asyncio.timeout(240):
                while len(acknowledged) < 300:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                if etcd and killed in ("etcd", "both"):
                    etcd.kill()
                if killed != "etcd":
                    server.kill()
                await asyncio.gather(*tasks)

    async def kept() -> set[str]:
        async with Client(f"https://127.0.0.1:{server.port}", tmp_path / "pki") as client:
            for _ in range(600):  # a server that was not killed finds the store again
                code, listed = await client.get(MAPS)
                if code == 200:
                    return {item["metadata"]["name"] for item in listed["items"]}
                await asyncio.sleep(0.1)
        raise AssertionError(listed)

    try:
        asyncio.run(storm())
        if etcd and killed in ("etcd", "both"):
            etcd.start()
        if killed != "etcd":
            server.start()
        assert acknowledged <= asyncio.run(kept())
    finally:
        server.kill()
