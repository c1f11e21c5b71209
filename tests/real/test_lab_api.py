"""kubectl and a lab: from the host's loopback and from inside, while parts of the lab are killed."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.real.conftest import PretendHost, kill, leaked_secrets

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]

HOST = {
    "apiVersion": "metal3.io/v1alpha1",
    "kind": "BareMetalHost",
    "metadata": {"name": "stranger"},
    "spec": {"online": False, "bootMACAddress": "02:00:00:00:00:99"},
}


def kubectl(host: PretendHost, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    config, cache = f"--kubeconfig={host.folder}/kubeconfig", f"--cache-dir={host.folder}/cache"
    return host.run("kubectl", config, cache, *arguments, check=check)


def eventually(look: Callable[[], bool], within: float = 120) -> None:
    deadline = time.monotonic() + within
    while not look():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.2)


def listening(host: PretendHost) -> list[str]:
    """Ports of the pretend host, not of its labs."""
    return [line.split()[3] for line in host.run("ss", "-Hlnt").stdout.splitlines()]


def test_kubectl_sees_and_makes_hosts_from_the_host_and_from_inside(host: PretendHost) -> None:
    before = host.snapshot()
    host.rackless("up", "--until", "engine")
    host.rackless("kubeconfig", "--of", "lab", "-o", "kubeconfig")
    assert (host.folder / "kubeconfig").stat().st_mode & 0o777 == 0o600
    assert sorted(listening(host)) == ["127.0.0.1:16443", "127.0.0.1:16444"]

    assert {"default", "metal3"} <= set(
        kubectl(host, "get", "ns", "-o", "name").stdout.replace("namespace/", "").split()
    )
    (host.folder / "host.json").write_text(json.dumps(HOST))
    kubectl(host, "create", "-f", str(host.folder / "host.json"))
    assert "stranger" in kubectl(host, "get", "bmh").stdout
    inside = host.rackless(
        "exec", "--", "kubectl", "--cache-dir", str(host.folder / "cache"), "get", "bmh", "-o", "name"
    )
    assert inside.stdout.strip() == "baremetalhost.metal3.io/stranger"
    assert "stranger" in host.rackless("host", "list").stdout
    eventually(lambda: "unmanaged" in kubectl(host, "get", "bmh").stdout)  # the host controller has seen it
    kubectl(host, "delete", "bmh", "stranger", "--timeout=60s")

    assert leaked_secrets(host.folder / "state" / "lab") == []
    host.rackless("destroy", "--yes")
    assert listening(host) == [] and host.inhabitants() == []
    shutil.rmtree(host.folder / "cache")
    for name in ("kubeconfig", "host.json"):
        (host.folder / name).unlink()
    assert host.snapshot() == before


def test_a_kubeconfig_stays_good_when_parts_of_the_lab_are_killed(host: PretendHost) -> None:
    host.rackless("up", "--until", "lab")
    host.rackless("kubeconfig", "--of", "lab", "-o", "kubeconfig")
    (host.folder / "host.json").write_text(json.dumps(HOST))
    kubectl(host, "create", "-f", str(host.folder / "host.json"))

    def answers() -> bool:
        return "stranger" in kubectl(host, "get", "bmh", check=False).stdout

    for victim in ("api serve", "rackless.labd.main"):
        kill(host.one(victim))
        host.one(victim)  # started again
        assert sorted(listening(host)) == ["127.0.0.1:16443", "127.0.0.1:16444"]  # the holder has it
        eventually(answers)

    kill(host.one("rackless.holder.main"))
    eventually(lambda: listening(host) == [])
    host.rackless("up", "--until", "lab")
    assert answers()
    host.rackless("down")
    assert listening(host) == []
    host.rackless("up", "--until", "lab")
    assert answers()


def test_each_lab_has_a_port_and_hosts_of_its_own(host: PretendHost) -> None:
    host.rackless("up", "--until", "lab")
    host.rackless("up", "--until", "lab", "--name", "other")
    assert sorted(listening(host)) == [f"127.0.0.1:{port}" for port in range(16443, 16447)]
    host.rackless("kubeconfig", "--of", "lab", "-o", "kubeconfig")
    (host.folder / "host.json").write_text(json.dumps(HOST))
    kubectl(host, "create", "-f", str(host.folder / "host.json"))
    assert "stranger" not in host.rackless("exec", "--name", "other", "--", "kubectl", "get", "bmh").stdout
    stolen = host.rackless("kubeconfig", "--of", "lab").stdout.replace("16443", "16445")
    (host.folder / "kubeconfig").write_text(stolen)
    assert kubectl(host, "get", "bmh", check=False).returncode != 0


def test_records_of_a_lab_made_before_are_taken_over_once(host: PretendHost) -> None:
    host.rackless("up", "--until", "lab")
    host.rackless("down")
    records = host.folder / "state" / "lab" / "records"
    for kind, record in (
        ("BareMetalHost", HOST),
        ("Secret", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"}}),
    ):
        (records / kind).mkdir(parents=True)
        metadata = {**record["metadata"], "uid": "1", "generation": 1, "resourceVersion": "7"}  # type: ignore[dict-item]
        (records / kind / f"{metadata['name']}.json").write_text(json.dumps({**record, "metadata": metadata}))
    host.rackless("up", "--until", "lab")
    assert not records.exists()
    assert "stranger" in host.rackless("host", "list").stdout
