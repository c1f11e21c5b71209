"""The bootstrap machine's end of the hand-over, against the embedded API."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackless.api.process import ApiServer, ApiSettings
from rackless.cluster.bootstrap.following import CONTROL_PLANE, MACHINE_API, ROLE_LABEL
from rackless.cluster.bootstrap.taking_over import KEYS, NAMESPACE, keys_objects
from rackless.drivers.clock import SystemClock
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.installer.assets.ignition import control_plane
from rackless.operations import bootstrap_handover
from rackless.operations.bootstrap_handover import Place
from rackless.provisioning.baremetalhost import PAUSED
from rackless.trust.kubeconfig_reading import read_kubeconfig

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
