"""What `rackless export hosts` writes is taken by an API that checks it as Metal3's does."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from rackless.operations import export
from rackless.run.paths import LabPaths, Roots
from tests.api.conftest import HOSTS, Client
from tests.operations.test_export import LAB, PASSWORD, make_lab


async def test_exported_hosts_are_applied_to_an_api(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    roots = Roots(tmp_path / "state", tmp_path / "run", tmp_path / "cache")
    plan = make_lab(LabPaths(roots, "lab"), LAB)
    secrets = "/api/v1/namespaces/default/secrets"
    for record in export.host_records(export.select("lab", roots), "default"):
        await client.create(HOSTS if record["kind"] == "BareMetalHost" else secrets, record)
    code, hosts = await client.get(HOSTS)
    assert code == 200 and [one["metadata"]["name"] for one in hosts["items"]] == [s.name for s in plan.servers]
    for host in hosts["items"]:
        code, found = await client.get(f"{secrets}/{host['spec']['bmc']['credentialsName']}")
        assert code == 200 and base64.b64decode(found["data"]["password"]).decode() == PASSWORD
