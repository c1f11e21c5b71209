"""The bootstrap machine's end of the hand-over, against the embedded API."""

from __future__ import annotations

import asyncio
import json
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackless.api.process import ApiServer, ApiSettings
from rackless.cluster.bootstrap.following import CONTROL_PLANE, MACHINE_API, ROLE_LABEL
from rackless.cluster.bootstrap.membership import EtcdPeer
from rackless.cluster.bootstrap.taking_over import KEYS, NAMESPACE, keys_objects
from rackless.drivers.clock import SystemClock
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.installer.assets.ignition import control_plane
from rackless.operations.bootstrap import handover as bootstrap_handover
from rackless.operations.bootstrap.handover import Place
from rackless.ports.process import Completed
from rackless.provisioning.baremetalhost import PAUSED
from rackless.trust.kubeconfig_reading import read_kubeconfig
from tests.cluster.bootstrap.test_taking_over import make_keys

MACS = {"ctrl-0": "02:00:00:00:00:10", "ctrl-1": "02:00:00:00:00:11", "worker-0": "02:00:00:00:00:20"}


def host(name: str) -> dict[str, Any]:
    control = name.startswith("ctrl")
    labels = {ROLE_LABEL: CONTROL_PLANE if control else "worker"}
    annotations = {} if control else {PAUSED: ""}
    return {
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": MACHINE_API, "labels": labels, "annotations": annotations},
        "spec": {"online": True, "bootMACAddress": MACS[name]},
    }


@pytest.fixture
def machine(tmp_path: Path) -> tuple[Path, Place]:
    """The bootstrap's manifests and keys."""
    root, place = tmp_path / "opt", Place.inside(tmp_path / "machine")
    (root / "openshift").mkdir(parents=True)
    for name in MACS:
        (root / f"openshift/{name}.yaml").write_text(yaml.safe_dump(host(name)))
    (root / "tls").mkdir()
    names = ("etcd-ca.crt", "etcd-ca.key", "machine-config-server.crt", "machine-config-server.key")
    for path in (*(root / "tls" / name for name in names),
                 *(place / f"{control_plane.PKI}/{name}" for name in ("ca.crt", "ca.key", "sa.key"))):  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a key")
    return root, place


@pytest.fixture
def settings(tmp_path: Path) -> ApiSettings:
    return ApiSettings(f"sqlite:{tmp_path}/store", tmp_path / "pki", port=0, kubeconfig=tmp_path / "kubeconfig")


async def test_keys_are_offered_to_the_whole_control_plane_also_when_its_hosts_come_one_by_one(
    machine: tuple[Path, Place], settings: ApiSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that may not read them can never join, and the bootstrap would hand over to the others and go."""
    monkeypatch.setattr(bootstrap_handover, "LOOK_EVERY", 0.05)
    clock = SystemClock()
    told: list[Any] = []
    async with ApiServer(settings):
        access, _ = read_kubeconfig(tmp_path / "kubeconfig", tmp_path)
        api = KubernetesResources(access, namespace=MACHINE_API, patience=0.0, clock=clock)
        await _make_namespaces(api)
        await api.create(host("ctrl-0"))
        offering = asyncio.create_task(bootstrap_handover._offer_keys(*machine, access, clock, told.append))
        await asyncio.sleep(0.5)
        assert not offering.done() and await api.get("Secret", KEYS, namespace=NAMESPACE) is None
        for name in ("ctrl-1", "worker-0"):
            await api.create(host(name))
        assert sorted(await asyncio.wait_for(offering, 20)) == ["ctrl-0", "ctrl-1"]
        assert await api.get("Secret", KEYS, namespace=NAMESPACE) is not None
        await api.close()


async def test_a_node_asks_for_the_keys_over_one_connection_also_while_it_may_not_have_them(
    settings: ApiSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each TLS handshake takes seconds of an emulated machine's processor, and it asks every three seconds."""
    monkeypatch.setattr(bootstrap_handover, "LOOK_EVERY", 0.05)
    place, clock = Place.inside(tmp_path / "node"), SystemClock()
    opened: list[KubernetesResources] = []

    def open_api(*args: Any, **words: Any) -> KubernetesResources:
        opened.append(KubernetesResources(*args, **words))
        return opened[-1]

    monkeypatch.setattr(bootstrap_handover, "KubernetesResources", open_api)
    async with ApiServer(settings):
        access, _ = read_kubeconfig(tmp_path / "kubeconfig", tmp_path)
        assert access.certificate is not None and access.key is not None
        for path, text in ((place.kubeconfig, (tmp_path / "kubeconfig").read_text()),
                           (place.certificate, access.certificate.read_text() + access.key.read_text())):  # fmt: skip
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        told: list[Any] = []
        waiting = asyncio.create_task(bootstrap_handover._await_keys(place, clock, told.append))
        await asyncio.sleep(1.0)
        assert told and not waiting.done()
        api = KubernetesResources(access, namespace=NAMESPACE, patience=0.0, clock=clock)
        await _make_namespaces(api)
        await api.create(keys_objects({"etcd-ca.crt": "a key"}, ["ctrl-0"])[0])
        assert await asyncio.wait_for(waiting, 20) == {"etcd-ca.crt": "a key"}
        assert len(opened) == 1
        await api.close()


@pytest.mark.parametrize(
    ("own", "released"), [(set(), ["worker-0"]), ({MACS["worker-0"]}, [])], ids=["in a VM", "on worker-0"]
)
async def test_workers_are_the_clusters_but_for_the_one_that_the_bootstrap_runs_on(
    settings: ApiSettings, tmp_path: Path, own: set[str], released: list[str]
) -> None:
    """The cluster would switch that server off to inspect it, before the hand-over is told to be complete."""
    async with ApiServer(settings):
        access, _ = read_kubeconfig(tmp_path / "kubeconfig", tmp_path)
        api = KubernetesResources(access, namespace=MACHINE_API, patience=0.0, clock=SystemClock())
        await _make_namespaces(api)
        for name in MACS:
            await api.create(host(name))
        assert await bootstrap_handover._release_workers(api, own) == released
        found = await api.get("BareMetalHost", "worker-0")
        assert found is not None
        assert (PAUSED in (found["metadata"].get("annotations") or {})) is (not released)
        await api.close()


async def _make_namespaces(api: KubernetesResources) -> None:
    for name in (MACHINE_API, NAMESPACE):
        if await api.get("Namespace", name) is None:
            await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


class Peers:
    """etcd's members, all of whom vote."""

    def __init__(self, *names: str) -> None:
        self.found = [EtcdPeer(name, name, f"https://{name}.lab:2380", False) for name in names]

    async def members(self) -> list[EtcdPeer]:
        return self.found


async def test_of_the_control_plane_those_are_asked_again_that_were_not_ready_and_at_the_end_all(
    settings: ApiSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question is a TLS handshake at both ends. One that was ready may have died since."""
    monkeypatch.setattr(bootstrap_handover, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(bootstrap_handover, "describe_lacking", lambda hosts, nodes: "")
    asked: list[str] = []
    answers = {"a": [True, False, True, True], "b": [False, False, True, True], "c": [True]}

    async def is_ready(url: str, access: Any) -> bool:
        name = url.removeprefix("https://").partition(".")[0]
        asked.append(name)
        return answers[name].pop(0) if len(answers[name]) > 1 else answers[name][0]

    monkeypatch.setattr(bootstrap_handover, "_is_ready", is_ready)
    async with ApiServer(settings):
        access, _ = read_kubeconfig(tmp_path / "kubeconfig", tmp_path)
        found = await bootstrap_handover._await_voters(
            Peers("a", "b", "c"),  # type: ignore[arg-type]
            ["a", "b", "c"],
            access,
            SystemClock(),
            lambda _: None,
        )
    assert [each.name for each in found] == ["a", "b", "c"]
    assert asked == ["a", "b", "b", "b", "c", "a", "a", "b", "c"]


async def test_a_control_plane_is_laid_out_before_etcd_takes_it_and_serves_before_what_can_wait_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """etcd takes one learner at a time; and an etcd that is enabled before it knows the others would begin a cluster of its own."""
    place = Place.inside(tmp_path)
    done: list[str] = []
    unit_files = place / "/etc/systemd/system"

    class Etcd:
        async def __aenter__(self) -> Etcd:
            return self

        async def __aexit__(self, *_: object) -> None: ...

    class Systemctl:
        async def run(self, argv: Any, **_: Any) -> Completed:
            words = [str(word) for word in argv if not str(word).startswith("-")]
            if words[0] == "env":
                done.append(" ".join(word.removesuffix(".service") for word in words[words.index("systemctl") + 1 :]))
            route = [{"dev": "eth0", "prefsrc": "192.168.111.20"}]
            return Completed(tuple(words), 0, json.dumps(route), "")

    async def keys(*_: object) -> dict[str, str]:
        return make_keys()

    async def synced(_: object) -> None:
        assert 'CLUSTER_STATE="existing"' in (place / "/etc/default/etcd").read_text()
        done.append("synced")

    async def learner(_: object, peer: str) -> str:
        assert (unit_files / "rackless-api.service").exists() and "daemon-reload" in done
        assert not (place / "/etc/default/etcd").exists() and not any("enable" in each for each in done)
        done.append("learner")
        return "bootstrap=https://bootstrap.lab:2380"

    async def voter(*_: object) -> None:
        assert 'CLUSTER_STATE="existing"' in (place / "/etc/default/etcd").read_text()
        done.append("voter")

    async def ready(url: str, *_: object) -> bool:
        done.append(f"ready {url}")
        return True

    monkeypatch.setattr(bootstrap_handover, "EtcdMembership", lambda *_: Etcd())
    monkeypatch.setattr(bootstrap_handover, "LocalProcesses", Systemctl)
    for name, by in (("_await_keys", keys), ("_sync", synced), ("ensure_learner", learner), ("await_voter", voter),
                     ("_is_ready", ready)):  # fmt: skip
        monkeypatch.setattr(bootstrap_handover, name, by)
    await bootstrap_handover.join("lab", "lab", ip_address("192.168.111.5"), lambda _: None, place)
    assert done[:4] == ["daemon-reload", "learner", "restart etcd", "synced"] and done[4].startswith("enable etcd ")
    assert done[5:] == [
        "voter",
        "restart rackless-api haproxy rackless-vip",
        "ready https://192.168.111.20:6444",
        "restart rackless-machine-config",
    ]
