"""Hosts, Machines and sets as the real installer writes them: they apply as they are, and are acted on."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from rackless.controllers.host import host_controller
from rackless.controllers.machines.controller import machine_controller
from rackless.controllers.machines.sets import machineset_controller
from rackless.controllers.runtime.runtime import Runtime
from rackless.drivers.clock import SystemClock
from rackless.drivers.fake.provisioner import SECONDS, FakeProvisioner
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.events import Bus
from rackless.ports.api import Access
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import PAUSED
from tests.api.conftest import ROOT, Running
from tests.real import openshift

pytestmark = pytest.mark.real
NAMESPACE = "openshift-machine-api"
KINDS = ("Secret", "BareMetalHost", "Machine", "MachineSet")


def _configs() -> Path:
    return next(
        (ROOT.parents[above] / "shared/data/install-config" for above in (0, 1)
         if (ROOT.parents[above] / "shared/data/install-config").exists()),
        ROOT / "shared/data/install-config",
    )  # fmt: skip


def _manifests(name: str, folder: Path) -> list[Record]:
    """What the installer makes of a config, in a namespace without a network."""
    config = _configs() / f"{name}.yaml"
    if not config.exists():
        pytest.skip(f"{config} is not here")
    if os.geteuid() != 0:
        pytest.skip("a namespace for the installer needs root")
    installer = openshift.installer()
    shutil.copy(config, folder / "install-config.yaml")
    command = ["unshare", "--net", str(installer), "create", "manifests", "--dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "HOME": str(folder)})
    assert done.returncode == 0, done.stderr
    found: list[Record] = []
    for path in sorted((folder / "openshift").glob("99_openshift-cluster-api_*.yaml")):
        found += [record for record in yaml.safe_load_all(path.read_text()) if record and record["kind"] in KINDS]
    return sorted(found, key=lambda record: KINDS.index(record["kind"]))


@pytest.mark.parametrize(
    "name",
    [
        "good-disabled-vmedia", "good-compact-3-masters", "good-prov-gateway", "good-dual-stack", "good-dual-stack-v6-primary",
        "good-ntp", "good-bgp-devpreview",
    ],
)  # fmt: skip
async def test_what_the_installer_writes_is_acted_on(name: str, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    records = _manifests(name, tmp_path / "made")
    api = Running(tmp_path)
    api.start()
    pki = tmp_path / "pki"
    access = Access(f"https://127.0.0.1:{api.port}", pki / "ca.crt", pki / "admin.crt", pki / "admin.key")
    resources, clock = KubernetesResources(access, namespace=NAMESPACE, patience=30), SystemClock()
    runtime = Runtime(clock, Bus())
    host_controller(runtime, resources, FakeProvisioner(clock, dict.fromkeys(SECONDS, 0.0)))
    machine_controller(runtime, resources, resources)
    machineset_controller(runtime, resources, resources)
    task = asyncio.create_task(runtime.run())
    try:
        await resources.ensure_namespace()
        for record in records:
            await resources.create(record)
        for record in await resources.list("BareMetalHost"):  # as the bootstrap does when the control plane stands
            await resources.patch(
                "BareMetalHost", record["metadata"]["name"], {"metadata": {"annotations": {PAUSED: None}}}
            )
        wanted = _wanted(records)
        for _ in range(600):
            machines = await resources.list("Machine")
            phases = [(machine.get("status") or {}).get("phase") for machine in machines]
            if phases == ["Provisioned"] * wanted:
                break
            await asyncio.sleep(0.1)
        else:
            raise AssertionError(f"{phases}, not {wanted} that are provisioned")
        hosts = {host["metadata"]["name"]: host for host in await resources.list("BareMetalHost")}
        for record in records:
            consumer = (record.get("spec") or {}).get("consumerRef") if record["kind"] == "BareMetalHost" else None
            if consumer:
                its = hosts[record["metadata"]["name"]]
                assert its["spec"]["consumerRef"]["name"] == consumer["name"], "a control plane keeps its Machine"
                assert its["status"]["provisioning"]["customDeploy"] == {"method": "install_coreos"}
        consumers = [host["spec"]["consumerRef"]["name"] for host in hosts.values() if host["spec"].get("consumerRef")]
        assert len(set(consumers)) == wanted
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await resources.close()
        api.process.terminate()
        api.process.wait()


def _wanted(records: list[Record]) -> int:
    masters = [record for record in records if record["kind"] == "Machine"]
    return len(masters) + sum(int(record["spec"]["replicas"]) for record in records if record["kind"] == "MachineSet")
