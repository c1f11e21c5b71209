"""A full rehearsal's own parts, on loopback: what the live ISO prepares, what is offered to it, and what control planes write."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rackless.api.process import ApiServer, ApiSettings
from rackless.cluster.bootstrap.membership import EtcdRefused
from rackless.cluster.openshift import ignition, site
from rackless.cluster.openshift.faults import PLAYED_AFTERWARDS, InstallFault
from rackless.cluster.openshift.site import ClusterMetal, ClusterSite
from rackless.drivers.clock import SystemClock
from rackless.drivers.kubernetes.client import Client
from rackless.drivers.kubernetes.resources import MERGE, KubernetesResources
from rackless.drivers.process import LocalProcesses
from rackless.errors import LabError
from rackless.images import gpt
from rackless.operations.rehearsal import full as rehearsal_full
from rackless.operations.rehearsal import operators as rehearsal_operators
from rackless.operations.rehearsal.operators import ObjectWriter, is_written, write_all
from rackless.operations.rehearsal.release import extract_root
from rackless.trust.kubeconfig_reading import read_kubeconfig
from tests.cluster.openshift.bootstrap_config import Made

Json = dict[str, Any]
OWN = IPv4Interface("10.20.30.9/24")
MAC = "52:54:00:11:22:33"


class ReleaseServer:
    """On loopback; says something else first, as often as it is told to."""

    def __init__(self) -> None:
        self.system = bytes(range(256)) * 5000
        self.checksum = hashlib.sha256(self.system).hexdigest()
        self.damaged = 0
        self.listed = True
        self.url = ""

    async def list(self, _: web.Request) -> web.Response:
        names = ("node", "payload", *(["root"] if self.listed else []))
        sums = {"root": self.checksum}
        return web.json_response(
            {name: {"url": f"{self.url}/{name}", "sha256": sums.get(name, "a" * 64)} for name in names}
        )

    async def root(self, _: web.Request) -> web.Response:
        self.damaged -= 1
        return web.Response(body=self.system if self.damaged < 0 else self.system[:-1] + b"x")


@pytest.fixture
async def release() -> AsyncIterator[ReleaseServer]:
    server, application = ReleaseServer(), web.Application()
    application.router.add_get("/release.json", server.list)
    application.router.add_get("/root", server.root)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


@pytest.fixture
def known() -> ClusterSite:
    made = Made()
    made.add_installing()
    return site.read(ignition.read(made.text()))


async def _prepare(known: ClusterSite, release: str, folder: Path) -> tuple[Path, list[Mapping[str, Any]]]:
    disk = folder / "vda"
    told: list[Mapping[str, Any]] = []
    disk.write_bytes(bytes(3 << 20))

    async def ask(host: ClusterMetal) -> tuple[bool, str]:
        return host.name != "m-1", f"asked as {host.username}"

    await rehearsal_full.prepare(known, OWN, MAC, release, ask, told.append, disk, folder / "run/bootstrap.ign")
    return disk, told


@pytest.mark.parametrize("module", ["rehearsal.bootstrap", "rehearsal.operators"])
def test_what_runs_in_the_live_iso_and_on_nodes_needs_nothing_that_is_not_there(module: str) -> None:
    missing = ("pydantic", "pydantic_core", "rich", "pyroute2", "libvirt", "jinja2", "ruamel")
    program = f"import sys\nfor name in {missing!r}: sys.modules[name] = None\nimport rackless.operations.{module}"
    subprocess.run([sys.executable, "-P", "-c", program], check=True, timeout=120)


async def test_the_live_iso_writes_the_system_to_the_disk_and_makes_its_config(
    known: ClusterSite, release: ReleaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal_full, "PAUSE_SECONDS", 0.0)
    release.damaged = 1
    disk, told = await _prepare(known, f"{release.url}/release.json", tmp_path)
    assert disk.read_bytes().startswith(release.system) and disk.stat().st_size == 3 << 20
    config = tmp_path / "run/bootstrap.ign"
    assert config.stat().st_mode & 0o777 == 0o600
    files = {one["path"] for one in json.loads(config.read_text())["storage"]["files"]}
    assert {"/etc/rackless/pki/named/api.crt", "/opt/openshift/release.json"} <= files
    assert {one["bmc"]: one["good"] for one in told if "bmc" in one} == {"m-0": True, "m-1": False, "m-2": True}
    assert [one["phase"] for one in told if "phase" in one] == ["system written", "config translated"]


async def test_a_system_that_stays_damaged_or_is_not_offered_is_told_and_no_config_is_left(
    known: ClusterSite, release: ReleaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal_full, "PAUSE_SECONDS", 0.0)
    release.damaged = 99
    with pytest.raises(LabError, match=r"could not be written to .*: ValueError: its checksum is"):
        await _prepare(known, f"{release.url}/release.json", tmp_path)
    release.listed = False
    with pytest.raises(LabError, match="has no system for the bootstrap"):
        await _prepare(known, f"{release.url}/release.json", tmp_path)
    with pytest.raises(LabError, match="the release server does not give"):
        await _prepare(known, f"{release.url}/nothing.json", tmp_path)
    assert not (tmp_path / "run/bootstrap.ign").exists()


async def test_the_root_of_a_node_image_is_cut_out_as_it_is(tmp_path: Path) -> None:
    processes = LocalProcesses()
    root, esp, disk = tmp_path / "root.ext4", tmp_path / "esp", tmp_path / "disk.raw"
    await processes.run(["mke2fs", "-q", "-F", "-t", "ext4", "-L", "node-root", root, "4M"])
    esp.write_bytes(b"e" * 1000)
    gpt.write(
        disk, [gpt.Partition(gpt.EFI_SYSTEM, "ESP", esp), gpt.Partition(gpt.LINUX_ROOT_X86_64, "root", root)], "seed"
    )
    await processes.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", disk, tmp_path / "node.qcow2"])
    await extract_root(tmp_path / "node.qcow2", tmp_path / "cut", processes)
    assert (tmp_path / "cut").read_bytes() == root.read_bytes()


# what control planes write


class Etcd:
    """Answers with one list after the other, and then with the last."""

    def __init__(self, *answers: list[str] | None) -> None:
        self.answers = list(answers)

    async def members(self) -> list[str]:
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if found is None:
            raise EtcdRefused("etcd does not answer")
        return found


async def test_the_installer_is_told_what_is_true_and_what_has_nothing_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal_operators, "LOOK_EVERY", 0.01)
    from rackless.api.duties.defaults import ensure_definitions
    from rackless.cluster.openshift import payload

    kubeconfig, clock = tmp_path / "kubeconfig", SystemClock()
    told: list[Mapping[str, Any]] = []
    settings = ApiSettings(f"sqlite:{tmp_path / 'objects'}", tmp_path / "pki", port=0, kubeconfig=kubeconfig)
    async with ApiServer(settings) as api:
        assert api.objects is not None
        await ensure_definitions(
            api.objects, [one for one in payload.definitions() if "baremetal" not in one["metadata"]["name"]]
        )
        access, _ = read_kubeconfig(kubeconfig, tmp_path)
        client, resources = (
            Client(access, clock, 5.0),
            KubernetesResources(access, namespace=payload.MACHINE_API, clock=clock),
        )
        for space in payload.NAMESPACES:
            await client.call(
                "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
            )
        await resources.apply(_config_map("root-ca", "kube-system", {"ca.crt": "the root"}))
        version = {"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
                   "spec": {"channel": "stable"}}  # fmt: skip
        await client.call("POST", "/apis/config.openshift.io/v1/clusterversions", version)
        etcd = Etcd(["bootstrap", "m-0"], None, ["m-0", "m-1", "m-2"])
        try:
            work = asyncio.create_task(
                write_all("apps.site.example.net", ObjectWriter(client), resources, etcd.members, clock, told.append)
            )
            await _until(lambda: any(one.get("phase") == "etcd without the bootstrap" for one in told))
            found = await client.call("GET", "/apis/operator.openshift.io/v1/etcds/cluster")
            assert _conditions(found) == {"EtcdBootstrapMemberRemoved": "True"}
            await _until_said(client, "Working towards rehearsal: 0 of 0 nodes are ready")
            for number in range(3):
                await client.call("POST", "/api/v1/nodes", _node(f"m-{number}"))
                ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
                await client.call("PATCH", f"/api/v1/nodes/m-{number}/status", ready, media=MERGE)
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "metal3"},
                     "spec": {"holderIdentity": "m-1"}}  # fmt: skip
            await resources.apply(_machine("site-worker-0"))
            await resources.create(lease)
            await _until_said(client, "Working towards rehearsal: site-worker-0 has no host")  # the installer shows it
            assert not await is_written(client)
            await resources.delete("Machine", "site-worker-0")
            async with asyncio.timeout(30):
                await work
            assert await is_written(client)
            version = await client.call("GET", f"{_CONFIG}/clusterversions/version")
            assert _conditions(version) == {"Available": "True", "Progressing": "False", "Failing": "False"}
            assert version["spec"] == {"channel": "stable"}  # the installer's
            operators = (await client.call("GET", f"{_CONFIG}/clusteroperators"))["items"]
            words = {one["metadata"]["name"]: one["status"]["conditions"][0]["message"] for one in operators}
            assert set(words) == set(payload.OPERATORS)
            assert words["etcd"] == "3 members vote: m-0, m-1, m-2" and words["baremetal"] == "metal3 runs on m-1"
            assert words["monitoring"] == "rehearsed: nothing of it is installed"
            ingress = await resources.get("ConfigMap", "default-ingress-cert", namespace="openshift-config-managed")
            assert ingress is not None and ingress["data"] == {"ca-bundle.crt": "the root"}
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            await client.close()
            await resources.close()
    assert told[-1] == {"phase": "cluster version", "nodes": ["m-0", "m-1", "m-2"]}


async def _until_said(client: Client, words: str) -> None:
    async with asyncio.timeout(30):
        while True:
            found = await client.call("GET", f"{_CONFIG}/clusterversions/version")
            told = [
                one["message"]
                for one in (found.get("status") or {}).get("conditions", ())
                if one["type"] == "Progressing"
            ]
            if told == [words]:
                assert _conditions(found)["Available"] == "False"
                return
            await asyncio.sleep(0.01)


class Written:
    """`ObjectWriter`: what was written last, by kind and name."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Json] = {}

    async def put(self, body: Json) -> None:
        self.objects[(body["kind"], body["metadata"]["name"])] = body


class Standing:
    """`Resources` of a cluster of one node, where nothing is missing."""

    async def list(self, kind: str, **_: Any) -> list[Json]:
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        return [{"metadata": {"name": "m-0"}, "status": ready}] if kind == "Node" else []

    async def get(self, kind: str, name: str, **_: Any) -> Json:
        return {"spec": {"holderIdentity": "m-0"}, "data": {"ca.crt": "the root"}}


@pytest.mark.parametrize("fault", [None, *PLAYED_AFTERWARDS])
async def test_what_is_to_fail_after_the_bootstrap_fails_and_nothing_else(fault: InstallFault | None) -> None:
    written, told = Written(), list[Mapping[str, Any]]()
    resources: Any = Standing()
    objects: Any = written
    await write_all("apps.x", objects, resources, Etcd(["m-0"]).members, SystemClock(), told.append, fault)
    there = written.objects
    etcd = _conditions(there[("Etcd", "cluster")])["EtcdBootstrapMemberRemoved"]
    assert (etcd == "False") == (fault is InstallFault.ETCD_STAYS)
    if fault is InstallFault.ETCD_STAYS:
        assert set(there) == {("Etcd", "cluster")}
        return
    degraded = [
        name
        for (kind, name), one in there.items()
        if kind == "ClusterOperator" and _conditions(one)["Degraded"] == "True"
    ]
    moving = [name for (kind, name), one in there.items()
              if kind == "ClusterOperator" and _conditions(one)["Progressing"] == "True"]  # fmt: skip
    assert moving == (["authentication"] if fault is InstallFault.OPERATOR_UNSTABLE else [])
    available = _conditions(there[("ClusterVersion", "version")])["Available"]
    to_degrade = fault is InstallFault.OPERATOR_DEGRADED
    assert (degraded, available) == ((["ingress"], "False") if to_degrade else ([], "True"))
    assert (("Route", "console") in there) == (fault is not InstallFault.NO_CONSOLE)


_CONFIG = "/apis/config.openshift.io/v1"


def _conditions(found: Json) -> dict[str, str]:
    return {one["type"]: one["status"] for one in found["status"]["conditions"]}


def _config_map(name: str, namespace: str, data: dict[str, str]) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def _machine(name: str) -> Json:
    metadata = {"name": name, "namespace": "openshift-machine-api"}
    return {"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "metadata": metadata, "spec": {}}


def _node(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


async def _until(found: Any) -> None:
    async with asyncio.timeout(30):
        while not found():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def test_the_live_iso_goes_on_as_a_node_only_with_a_system_whose_kernel_is_its_own() -> None:
    """The init cannot be run here; what it must not lose is read."""
    from rackless.images.files import read

    init = read("bootstrap/init").decode()
    assert re.search(r"uname -r.*\n\s*say failed", init) and "exec $B sh /node/init" in init
    assert "rehearsal.release=@RELEASE@" in read("bootstrap/grub.cfg").decode()
