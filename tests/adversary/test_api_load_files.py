"""Files of the API that a power cut, a full disk or a person left empty, half or mixed up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rackless.api.process import ApiServer
from rackless.errors import HypervisorError
from tests.api.conftest import Client, settings

LEAVES = ["serving.crt", "serving.key", "admin.crt", "admin.key"]


async def _serves(tmp_path: Path) -> None:
    async with ApiServer(settings(tmp_path)) as api, Client(api.url, tmp_path / "pki") as client:
        assert (await client.get("/readyz"))[0] == 200


@pytest.mark.parametrize("part", [0, 0.5], ids=["empty", "half"])
async def test_damaged_certificates_and_keys_are_made_anew_at_start(tmp_path: Path, part: float) -> None:
    await _serves(tmp_path)
    for name in LEAVES:
        file = tmp_path / "pki" / name
        os.truncate(file, int(file.stat().st_size * part))
        await _serves(tmp_path)


async def test_a_key_of_another_certificate_is_noticed(tmp_path: Path) -> None:
    await _serves(tmp_path)
    (tmp_path / "pki/serving.key").write_bytes((tmp_path / "pki/admin.key").read_bytes())
    (tmp_path / "pki/admin.key").write_bytes((tmp_path / "pki/ca.key").read_bytes())
    await _serves(tmp_path)


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "sa.key"])
async def test_what_cannot_be_made_anew_without_harm_is_told_in_a_sentence(tmp_path: Path, name: str) -> None:
    async with ApiServer(settings(tmp_path)) as api, Client(api.url, tmp_path / "pki") as client:
        account = "/api/v1/namespaces/default/serviceaccounts"
        await client.create(account, {"metadata": {"name": "builder"}})
        await client.create(f"{account}/builder/token", {"spec": {}})
    file = tmp_path / "pki" / name
    for size in (file.stat().st_size // 2, 0):
        os.truncate(file, size)
        with pytest.raises(HypervisorError, match="cannot be used") as refused:
            await _serves(tmp_path)
        assert "restore" in refused.value.hint or "go together" in refused.value.hint
        assert file.stat().st_size == size


async def test_keys_are_never_readable_by_others_not_even_while_they_are_written(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        await _serves(tmp_path)
    finally:
        os.umask(before)
    for file in (tmp_path / "pki").iterdir():
        assert file.stat().st_mode & 0o077 == 0, file
    assert (tmp_path / "kubeconfig").stat().st_mode & 0o077 == 0
