"""`rackless pivot` between two API processes, over TLS: killed half-way, ended by the next, and back."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from rackless.controllers.host import host_controller
from rackless.controllers.machines.controller import machine_controller
from rackless.controllers.machines.sets import machineset_controller
from rackless.controllers.pivot import journal
from rackless.controllers.runtime.runtime import Runtime
from rackless.drivers.clock import SystemClock
from rackless.drivers.fake.provisioner import SECONDS
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.events import Bus
from rackless.ports.api import Access
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import baremetalhost, secret
from tests.api.conftest import Running
from tests.controllers.machine_site import machine_set
from tests.controllers.test_pivot import WORK, Engine

pytestmark = pytest.mark.slow
HOSTS = ("one", "two", "three")


@pytest.fixture
def apis(tmp_path: Path) -> Iterator[tuple[Running, Running]]:
    found = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        found.append(Running(tmp_path / name))
        found[-1].start()
    yield found[0], found[1]
    for each in found:
        each.process.terminate()
        each.process.wait()
        assert "Traceback" not in (each.folder / "log").read_text()


@asynccontextmanager
async def controlled(api: Running, engine: Engine) -> AsyncIterator[KubernetesResources]:
    pki = api.folder / "pki"
    access = Access(f"https://127.0.0.1:{api.port}", pki / "ca.crt", pki / "admin.crt", pki / "admin.key")
    resources = KubernetesResources(access, namespace="metal3", patience=30)
    await resources.ensure_namespace()
    runtime = Runtime(SystemClock(), Bus())
    host_controller(runtime, resources, engine)
    machine_controller(runtime, resources, resources)
    machineset_controller(runtime, resources, resources)
    task = asyncio.create_task(runtime.run())
    try:
        yield resources
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await resources.close()


async def phases(resources: KubernetesResources, wanted: list[str]) -> None:
    found: list[str] = []
    for _ in range(600):
        machines = await resources.list("Machine")
        found = [(record.get("status") or {}).get("phase") or "" for record in machines]
        if found == wanted:
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"{found} at last, not {wanted}")


async def rackless_pivot(source: Running, target: Running, *more: str, kill_after: str = "") -> str:
    """With `kill_after`, killed when it has said so."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-u", "-m", "rackless", "pivot", "--from", str(source.kubeconfig), "--to", str(target.kubeconfig),
        "--namespace", "metal3", *more, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    said = ""
    while line := (await asyncio.wait_for(process.stdout.readline(), 300)).decode():
        said += line
        if kill_after and kill_after in line:
            process.send_signal(signal.SIGKILL)
    code = await process.wait()
    assert code == (-signal.SIGKILL if kill_after else 0), said
    return said


async def test_two_apis(apis: tuple[Running, Running]) -> None:
    here, there = apis
    engines = [Engine(SystemClock(), dict.fromkeys(SECONDS, 0.05)) for _ in apis]
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(controlled(here, engines[0]))
        two = await stack.enter_async_context(controlled(there, engines[1]))
        await one.create(secret("bmc", {"username": "admin", "password": "secret"}))
        await one.create(secret("worker-user-data", {"userData": '{"ignition": {}}'}))
        for number, name in enumerate(HOSTS):
            address = f"redfish-virtualmedia://192.0.2.{number + 1}/redfish/v1/Systems/1"
            await one.create(baremetalhost(name, address, "bmc", f"02:00:00:00:00:0{number}"))
        await one.create(machine_set("workers", 2))
        await phases(one, ["Provisioned"] * 2)
        machines = [record["metadata"]["name"] for record in await one.list("Machine")]
        states = _states(await one.list("BareMetalHost"))
        for engine in engines:
            engine.on = set(HOSTS)
            engine.started.clear()

        await rackless_pivot(here, there, kill_after="writing it there")
        await rackless_pivot(here, there, "--undo")
        assert await journal.load(one) is None and not await two.list("BareMetalHost")
        await rackless_pivot(here, there, kill_after="letting it go here")
        said = json.loads(await rackless_pivot(here, there, "--json"))
        assert said["id"] and not said["remembered"]
        await phases(two, ["Provisioned"] * 2)
        assert not await one.list("BareMetalHost") and not await one.list("Machine")
        assert _states(await two.list("BareMetalHost")) == states
        assert [record["metadata"]["name"] for record in await two.list("Machine")] == machines

        said = json.loads(await rackless_pivot(there, here, "--json"))
        assert said["moved"] == {"Secret": 2, "BareMetalHost": 3, "HardwareData": 3, "MachineSet": 1, "Machine": 2}
        await phases(one, ["Provisioned"] * 2)
        assert _states(await one.list("BareMetalHost")) == states and not await two.list("BareMetalHost")
        touched = {work for engine in engines for _, work in engine.started} & WORK
        assert not touched, "no host is touched"
        await one.patch("MachineSet", "workers", {"spec": {"replicas": 3}})
        await phases(one, ["Provisioned"] * 3)


def _states(hosts: list[Record]) -> dict[str, str]:
    return {host["metadata"]["name"]: host["status"]["provisioning"]["state"] for host in hosts}
