"""An install by its own bootstrap machine, in a lab that has nothing but servers and BMCs."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from rackless.cluster.bootstrap.following import is_ready
from tests.real.conftest import PretendHost
from tests.real.test_stranger import KEY, PULL_SECRET

pytestmark = [pytest.mark.real, pytest.mark.long]

LAB = """\
name: ipi
servers:
  ctrl: {role: control-plane, count: 1, memory: 2GiB}
  worker: {role: worker, count: 1}
"""
VIP = "192.168.111.5"
BOOTSTRAP, MASTER = "192.168.111.9", "192.168.111.20"


@pytest.fixture
def folder(host: PretendHost) -> Path:
    """A lab with BMCs, and a folder with its install-config."""
    (host.folder / "lab.yaml").write_text(LAB)
    (host.folder / "pull-secret").write_text(PULL_SECRET)
    (host.folder / "key.pub").write_text(KEY)
    host.rackless("up", "--until", "bmc", "--no-install", timeout=1800)
    place = host.folder / "site"
    place.mkdir()
    options = ("--pull-secret", "pull-secret", "--ssh-key", "key.pub", "-o", str(place / "install-config.yaml"))
    host.rackless("install-config", *options)
    return place


def inside(host: PretendHost, *argv: str) -> str:
    return host.rackless("exec", "--", *argv).stdout


def test_a_cluster_installs_itself_and_looks_after_its_hosts(host: PretendHost, folder: Path) -> None:
    host.rackless("install", "create", "cluster", "--dir", str(folder), timeout=5400)

    kubeconfig = json.loads((folder / "auth/kubeconfig").read_text())
    ca = host.folder / "api.crt"
    ca.write_bytes(base64.b64decode(kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]))
    assert inside(host, "curl", "-sf", "--cacert", str(ca), f"https://{VIP}:6443/readyz") == "ok"
    kubectl = ("kubectl", "--kubeconfig", str(folder / "auth/kubeconfig"), "get", "-A", "-o", "json")
    hosts = json.loads(inside(host, *kubectl, "bmh"))["items"]
    states = {each["metadata"]["name"]: each["status"]["provisioning"]["state"] for each in hosts}
    assert states == {"ctrl-0": "provisioned", "worker-0": "provisioned"}
    assert all(each["spec"]["consumerRef"]["kind"] == "Machine" for each in hosts)
    nodes = {each["metadata"]["name"]: each for each in json.loads(inside(host, *kubectl, "nodes"))["items"]}
    assert sorted(nodes) == ["ctrl-0", "worker-0"] and all(is_ready(each) for each in nodes.values())
    machines = json.loads(inside(host, *kubectl, "machines"))["items"]
    assert sorted(each["status"]["nodeRef"]["name"] for each in machines) == ["ctrl-0", "worker-0"]
    assert "bootstrap" in [
        each["metadata"]["name"] for each in json.loads(inside(host, *kubectl, "configmaps"))["items"]
    ]
    audit = (host.folder / "state/ipi/logs/bmc-audit.jsonl").read_text().splitlines()
    callers = {(json.loads(line)["client"], json.loads(line)["server"]) for line in audit}
    assert {client for client, _ in callers} == {BOOTSTRAP, MASTER}
    assert (BOOTSTRAP, "worker-0") not in callers  # the bootstrap installs the control plane and nothing else

    for what in ("bootstrap-complete", "install-complete"):
        host.rackless("install", "wait-for", what, "--dir", str(folder), timeout=120)
    assert sorted(inside(host, "virsh", "list", "--all", "--name").split()) == ["ctrl-0", "worker-0"]
    assert sorted(path.name for path in (host.folder / "state/ipi/disks").glob("*bootstrap*")) == []
    host.rackless("destroy", "--yes")
    assert host.inhabitants("ipi") == []
    assert [str(path) for place in ("state", "run") for path in (host.folder / place).glob("*")] == []
