"""A provisioned server that is replaced: its host goes in good order, and nothing of the old one is left."""

from __future__ import annotations

import json

import pytest

from tests.real.conftest import PretendHost
from tests.real.test_lab_life import describe

pytestmark = [pytest.mark.real, pytest.mark.long]


def records(host: PretendHost, kind: str) -> list[str]:
    found = host.rackless("exec", "--", "kubectl", "get", kind, "-o", "name", check=False)
    return found.stdout.split()


def test_a_provisioned_server_is_replaced_and_removed_without_a_trace(host: PretendHost) -> None:
    before = host.snapshot()
    state = host.folder / "state/lab"
    describe(host, "servers: {box: {role: worker}}\n")
    host.rackless("up", timeout=1500)
    assert [one["metadata"]["name"] for one in json.loads(host.rackless("host", "list", "--json").stdout)] == ["box-0"]
    full = (state / "disks/box-0.qcow2").stat().st_blocks
    key = (state / "secrets/cluster/hosts/box-0").read_text()

    describe(host, "servers: {box: {role: worker, disk: 9GiB}}\n")
    assert host.rackless("up", check=False).returncode == 4, "not without --replace"
    done = host.rackless("up", "--until", "bmc", "--replace", timeout=1500)
    assert "box-0: deprovisioning" in done.stdout and "let go" not in done.stdout, "in good order"
    assert json.loads(host.rackless("host", "list", "--json").stdout) == []
    assert (state / "disks/box-0.qcow2").stat().st_blocks < full / 10, "a new disk"
    assert not (state / "secrets/cluster/hosts/box-0").exists() and key
    assert "box-0-user-data" not in str(records(host, "secrets"))
    assert [server["power"] for server in host.status()["servers"]] == ["off"]

    describe(host, "servers: {other: {role: spare}}\n")
    host.rackless("up", "--until", "bmc", "--replace")
    assert "box-0" not in host.rackless("exec", "--", "virsh", "net-dumpxml", "cluster").stdout
    assert "box-0" not in host.rackless("exec", "--", "virsh", "list", "--all").stdout
    assert list((state / "disks").glob("box*")) == [] and list((state / "bmc").glob("box*")) == []
    host.rackless("destroy", "--yes")
    (host.folder / "lab.yaml").unlink()
    assert host.snapshot() == before
