"""kubectl as the only hand: hosts, Machines and a set in the API process, the real controllers, a provisioner that pretends."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
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
from rackless.provisioning.baremetalhost import baremetalhost, secret
from tests.api.conftest import Running
from tests.controllers.machine_site import machine_set

pytestmark = [pytest.mark.real, pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl is installed here")]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Running]:
    found = Running(tmp_path)
    found.start()
    yield found
    found.process.terminate()
    found.process.wait()


@asynccontextmanager
async def controlled(api: Running) -> AsyncIterator[KubernetesResources]:
    pki = api.folder / "pki"
    access = Access(f"https://127.0.0.1:{api.port}", pki / "ca.crt", pki / "admin.crt", pki / "admin.key")
    resources, clock = KubernetesResources(access, namespace="metal3", patience=30), SystemClock()
    await resources.ensure_namespace()
    runtime = Runtime(clock, Bus())
    seconds = dict.fromkeys(SECONDS, 0.05)
    host_controller(runtime, resources, FakeProvisioner(clock, seconds))
    machine_controller(runtime, resources, resources)
    machineset_controller(runtime, resources, resources)
    task = asyncio.create_task(runtime.run())
    try:
        yield resources
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await resources.close()


class Kubectl:
    def __init__(self, api: Running, home: Path) -> None:
        self._env = {**os.environ, "KUBECONFIG": str(api.kubeconfig), "HOME": str(home)}

    async def __call__(self, *words: str, given: str = "") -> str:
        process = await asyncio.create_subprocess_exec(
            "kubectl", "-n", "metal3", *words, env=self._env, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await asyncio.wait_for(process.communicate(given.encode()), 120)
        assert process.returncode == 0, f"kubectl {words}: {out.decode()}"
        return out.decode()

    async def until(self, said: str, *words: str) -> None:
        found = ""
        for _ in range(300):
            if (found := (await self(*words)).strip()) == said:
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"kubectl {words} said {found!r} at last, not {said!r}")


NODE: Record = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "worker-0"},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "192.0.2.10"}],
    },
}


async def test_kubectl_grows_and_shrinks_a_cluster(api: Running, tmp_path: Path) -> None:
    kubectl = Kubectl(api, tmp_path)
    hosts = [
        baremetalhost(f"worker-{n}", f"redfish://192.0.2.{n + 1}/redfish/v1/Systems/1", "bmc", f"02:00:00:00:00:0{n}")
        for n in range(3)
    ]
    given = [
        secret("bmc", {"username": "admin", "password": "x"}),
        secret("worker-user-data", {"userData": "{}"}),
        *hosts,
        machine_set("workers", 1),
    ]
    async with controlled(api) as nodes:
        await kubectl("create", "-f", "-", given=yaml.safe_dump_all(given))
        phases = ("get", "machines", "-o", "jsonpath={.items[*].status.phase}")
        await kubectl.until("Provisioned", *phases)
        await nodes.create(NODE)
        await nodes.patch_status("Node", "worker-0", NODE["status"])
        await kubectl.until("Running", *phases)
        await kubectl.until("1", "get", "machineset", "workers", "-o", "jsonpath={.status.readyReplicas}")
        described = await kubectl("describe", "machines")
        assert "worker-0: the " in described and "HostClaimed" in described and "NodeJoined" in described
        assert "metal3/workers-" in await kubectl("describe", "node", "worker-0")
        assert "Claimed" in await kubectl("describe", "bmh", "worker-0")
        table = await kubectl("get", "machines", "-o", "wide")
        assert table.split("\n")[0].split() == [
            "NAME",
            "PHASE",
            "TYPE",
            "REGION",
            "ZONE",
            "AGE",
            "NODE",
            "PROVIDERID",
            "STATE",
        ]
        assert "baremetalhost:///metal3/worker-0/" in table and "provisioned" in table

        await kubectl("scale", "machineset", "workers", "--replicas=3")
        await kubectl.until("3", "get", "machineset", "workers", "-o", "jsonpath={.status.replicas}")
        states = ("get", "bmh", "-o", "jsonpath={.items[*].status.provisioning.state}")
        await kubectl.until("provisioned provisioned provisioned", *states)
        running = await kubectl(
            "get", "machines", "-o", "jsonpath={.items[?(@.status.phase=='Running')].metadata.name}"
        )
        await kubectl("annotate", "machine", running, "machine.openshift.io/delete-machine=")
        await kubectl("scale", "machineset", "workers", "--replicas=2")
        await kubectl.until("available provisioned provisioned", *states)
        assert "No resources found" in await kubectl("get", "nodes")

        await kubectl("delete", "machineset", "workers")
        await kubectl.until("available available available", *states)
        await kubectl.until("", "get", "machines", "-o", "name")
        seen = await kubectl("get", "events", "-o", "jsonpath={.items[*].reason}")
    assert {"SuccessfulCreate", "HostClaimed", "DrainSucceeded", "Deleted"} <= set(seen.split())
