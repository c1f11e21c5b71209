"""The machine-config server gives a role's config over TLS, and nothing else."""

from __future__ import annotations

import ssl
from pathlib import Path

import aiohttp
import pytest

from rackless.cluster.bootstrap import config_server
from rackless.trust.authority import Authority, Use


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.ensure(tmp_path / "ca", "root-ca")


async def test_each_role_gets_its_own_config_and_who_asked_is_told(tmp_path: Path, authority: Authority) -> None:
    folder = tmp_path / "machine-config"
    folder.mkdir()
    (folder / "master.ign").write_text('{"role": "master"}')
    (tmp_path / "secret.ign").write_text("not for machines")
    leaf = authority.ensure_leaf("server", ["127.0.0.1"], uses=(Use.SERVER,))
    told: list[object] = []
    runner = await config_server.listen(folder, leaf.certificate, leaf.key, told.append, address="127.0.0.1", port=0)
    try:
        url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        tls = ssl.create_default_context(cafile=authority.certificate)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session:
            async with session.get(f"{url}/config/master") as answer:
                assert answer.status == 200 and await answer.text() == '{"role": "master"}'
                assert answer.content_type == "application/vnd.coreos.ignition+json"
            assert told == [{"machine-config": "master", "to": "127.0.0.1"}]
            for path in ("worker", "..%2Fsecret", "master.ign", "", "%2Fetc%2Fpasswd"):
                async with session.get(f"{url}/config/{path}") as answer:
                    assert answer.status == 404, path
            async with session.get(f"{url}/healthz") as answer:
                assert answer.status == 200
    finally:
        await runner.cleanup()
    assert len(told) == 1
