"""`rackless pivot` between two APIs, each with controllers and a real Ironic of its own: the second one takes over servers that the
first one has installed, without a start or a stop of any of them.

BMCs are ours, with servers in memory behind them; what boots there only answers as an agent does.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from types import ModuleType
from uuid import UUID

import pytest

from rackless.bmc.core.accounts import Account
from rackless.bmc.fleet import Bmc, Fleet
from rackless.controllers.host import host_controller
from rackless.controllers.machines.controller import machine_controller
from rackless.controllers.machines.sets import machineset_controller
from rackless.controllers.runtime.runtime import Runtime
from rackless.drivers.clock import SystemClock
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.drivers.ironic.config import IronicConfig
from rackless.drivers.ironic.provisioner import IronicProvisioner
from rackless.drivers.ironic.service import IronicService
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.drivers.process import LocalProcesses
from rackless.events import Bus
from rackless.lab.files import FileServer
from rackless.ports.api import Access
from rackless.ports.hypervisor import BootDevice, Disk, Firmware, Power, ServerState
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import baremetalhost, secret
from rackless.trust.authority import Authority, Use
from tests.api.conftest import ROOT, Running
from tests.controllers.machine_site import machine_set
from tests.controllers.test_pivot_apis import rackless_pivot

from .test_real_ironic import network, venv

__all__ = ["network", "venv"]

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a network namespace"),
]

ENGINES = ("192.0.2.1", "192.0.2.2")
HOSTS = ("worker-0", "worker-1")
SEEN_S = 600.0


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"scripts/benchmarks/parts/{name}.py")
    assert spec and spec.loader
    found = sys.modules[name] = importlib.util.module_from_spec(spec)  # its dataclass looks for its module
    spec.loader.exec_module(found)
    return found


def bmc_of(number: int) -> str:
    return f"192.0.2.{20 + number}"


def agent_of(number: int) -> str:
    return f"192.0.2.{100 + number}"


def mac_of(number: int) -> str:
    return f"02:00:00:00:88:{number:02x}"


def server(number: int, name: str) -> ServerState:
    return ServerState(
        name=name, uuid=UUID(int=0xABC000 + number), power=Power.OFF, memory_mib=1536, vcpus=1, firmware=Firmware.UEFI,
        macs=(mac_of(number),), disks=(Disk(Path("/disks/a"), 8 << 30, f"disk-{number}"),), media=None,
        boot_first=BootDevice.DISK,
    )  # fmt: skip


@dataclass
class Metal:
    """Servers in memory with their BMCs, and what boots on them."""

    hypervisor: FakeHypervisor
    ca: Path

    @property
    def starts(self) -> int:
        return len(self.hypervisor.boots)

    @property
    def switched(self) -> list[tuple[str, str]]:
        return [
            (work, name)
            for work, name in self.hypervisor.calls
            if work in ("power_on", "power_off", "shut_down", "reset")
        ]

    def powers(self) -> dict[str, Power]:
        return {name: self.hypervisor._servers[name].power for name in HOSTS}


@asynccontextmanager
async def metal(folder: Path, authority: Authority, certificate: tuple[Path, Path]) -> AsyncIterator[Metal]:
    agent = _module("agent")
    hypervisor = FakeHypervisor()
    hypervisor.define([server(number, name) for number, name in enumerate(HOSTS)])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    fleet = Fleet(
        [Bmc(name, bmc_of(number)) for number, name in enumerate(HOSTS)], hypervisor, (Account("admin", "secret"),),
        state=folder / "state", media=folder / "media", bus=Bus(), tls=tls,
    )  # fmt: skip
    await fleet.start()
    agents = [
        asyncio.create_task(
            agent.Agent(name, agent_of(n), mac_of(n), hypervisor, authority.certificate, folder, 2.0, 2.0).live()
        )
        for n, name in enumerate(HOSTS)
    ]
    try:
        yield Metal(hypervisor, authority.certificate)
    finally:
        for task in agents:
            task.cancel()
        await asyncio.gather(*agents, return_exceptions=True)
        await fleet.stop()


@dataclass
class Side:
    """An API, its controllers and their Ironic."""

    api: Running
    resources: KubernetesResources
    ironic: IronicProvisioner

    async def nodes(self) -> dict[str, str]:
        """The provisioning states of the hosts that this Ironic knows."""
        found = {}
        for name in await self.ironic._ironic.nodes():
            node = await self.ironic._ironic.node(name)
            assert node
            found[name] = node["provision_state"]
        return found

    async def hosts(self) -> dict[str, Record]:
        return {host["metadata"]["name"]: host for host in await self.resources.list("BareMetalHost")}

    async def states(self) -> dict[str, str]:
        return {
            name: ((host.get("status") or {}).get("provisioning") or {}).get("state") or ""
            for name, host in (await self.hosts()).items()
        }

    async def until(self, machines: list[str], states: list[str]) -> None:
        """Until the phases of Machines and the states of hosts are these, in whatever order."""
        seen: object = None
        async with asyncio.timeout(SEEN_S):
            while True:
                phases = [
                    (each.get("status") or {}).get("phase") or "" for each in await self.resources.list("Machine")
                ]
                seen = sorted(phases), sorted((await self.states()).values())
                if seen == (sorted(machines), sorted(states)):
                    return
                failed = [
                    host["status"]["errorMessage"]
                    for host in (await self.hosts()).values()
                    if (host.get("status") or {}).get("errorMessage")
                ]
                assert not failed, failed
                await asyncio.sleep(0.3)


@asynccontextmanager
async def side(
    address: str, folder: Path, venv: Path, authority: Authority, certificate: tuple[Path, Path]
) -> AsyncIterator[Side]:
    folder.mkdir()
    boot = folder / "boot"
    boot.mkdir()
    for name, mebibytes in (("kernel", 2), ("initramfs", 4), ("esp", 3)):
        (boot / name).write_bytes(os.urandom(4096) * (mebibytes * 256))
    config = IronicConfig(
        state=folder / "ironic", address=IPv4Address(address), certificate=certificate[0], key=certificate[1],
        ca=authority.certificate, username="rackless", password="secret", http_url=f"http://{address}:6180",
        http_root=folder / "http", kernel=boot / "kernel", ramdisk=boot / "initramfs", esp=boot / "esp", ipmi=False,
    )  # fmt: skip
    service = IronicService(config, venv, LocalProcesses())
    files = FileServer(config.http_root, address, port=6180)
    api = Running(folder)
    api.start()
    async with AsyncExitStack() as stack:
        stack.callback(_end, api)
        await service.start(within=600)
        stack.push_async_callback(service.stop)
        await files.start()
        stack.push_async_callback(files.stop)
        (config.http_root / "node.qcow2").write_bytes(os.urandom(1 << 20))
        ironic = IronicProvisioner(config.url, config.username, config.password, config.ca, database=config.database)
        stack.push_async_callback(ironic.close)
        pki = folder / "pki"
        access = Access(f"https://127.0.0.1:{api.port}", pki / "ca.crt", pki / "admin.crt", pki / "admin.key")
        resources = KubernetesResources(access, namespace="metal3", patience=30)
        stack.push_async_callback(resources.close)
        await resources.ensure_namespace()
        runtime = Runtime(SystemClock(), Bus())
        host_controller(runtime, resources, ironic, bmc_ca=authority.certificate)
        machine_controller(runtime, resources, resources)
        machineset_controller(runtime, resources, resources)
        task = asyncio.create_task(runtime.run())
        try:
            yield Side(api, resources, ironic)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _end(api: Running) -> None:
    api.process.terminate()
    api.process.wait()


def _records() -> list[Record]:
    image = {"url": f"http://{ENGINES[0]}:6180/node.qcow2", "checksum": "ab" * 32, "format": "qcow2"}
    found = [
        secret("bmc", {"username": "admin", "password": "secret"}),
        secret("worker-user-data", {"userData": '{"ignition": {"version": "3.2.0"}}'}),
        machine_set("workers", 1, provider={"image": image}),
    ]
    for number, name in enumerate(HOSTS):
        address = f"redfish-virtualmedia://{bmc_of(number)}/redfish/v1/Systems/1"
        found.append(baremetalhost(name, address, "bmc", mac_of(number)))
    return found


@pytest.fixture
def wire(network: None) -> None:
    """Addresses of the second engine, of BMCs and of agents, all in the test's own namespace."""
    for address in (ENGINES[1], *(bmc_of(n) for n in range(2)), *(agent_of(n) for n in range(2))):
        subprocess.run(["ip", "address", "add", f"{address}/24", "dev", "lo"], check=True)


async def test_an_ironic_takes_over_what_another_one_has_installed(venv: Path, wire: None, tmp_path: Path) -> None:
    authority = Authority.ensure(tmp_path / "ca", "two sites")
    leaf = authority.ensure_leaf("all", [*ENGINES, *(bmc_of(n) for n in range(2))], uses=(Use.SERVER,))
    certificate = leaf.certificate, leaf.key
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(metal(tmp_path, authority, certificate))
        here = await stack.enter_async_context(side(ENGINES[0], tmp_path / "here", venv, authority, certificate))
        there = await stack.enter_async_context(side(ENGINES[1], tmp_path / "there", venv, authority, certificate))
        for record in _records():
            await here.resources.create(record)
        await here.until(["Provisioned"], ["available", "provisioned"])
        states, powers = await here.states(), servers.powers()
        assert sorted((await here.nodes()).values()) == ["active", "available"] and not await there.nodes()
        before = await here.hosts()

        switched = servers.switched
        await rackless_pivot(here.api, there.api, kill_after="letting it go here")
        await rackless_pivot(here.api, there.api)
        await there.until(["Provisioned"], ["available", "provisioned"])
        await _known(there, states)
        assert not await here.nodes() and not await here.hosts(), "the first one knows nothing of them any more"
        assert await there.states() == states
        assert (servers.switched, servers.powers()) == (switched, powers), "no server is touched"
        after = await there.hosts()
        for name in HOSTS:
            assert after[name]["metadata"]["uid"] != before[name]["metadata"]["uid"]
            node = await there.ironic._ironic.node(name)
            assert node and after[name]["status"]["provisioning"]["ID"] == node["uuid"]
            assert after[name]["status"]["hardware"] == before[name]["status"]["hardware"]
        [machine] = await there.resources.list("Machine")
        consumed = next(name for name in HOSTS if states[name] == "provisioned")
        assert machine["spec"]["providerID"].endswith(after[consumed]["metadata"]["uid"])

        # the second one works on: a server that is free is installed, and the one that was taken over is taken off
        await there.resources.patch("MachineSet", "workers", {"spec": {"replicas": 2}})
        await there.until(["Provisioned"] * 2, ["provisioned"] * 2)
        annotation = {"metadata": {"annotations": {"machine.openshift.io/delete-machine": ""}}}
        await there.resources.patch("Machine", machine["metadata"]["name"], annotation)
        await there.resources.patch("MachineSet", "workers", {"spec": {"replicas": 1}})
        await there.until(["Provisioned"], ["available", "provisioned"])
        states, powers = await there.states(), servers.powers()
        assert states[consumed] == "available"

        switched = servers.switched
        await rackless_pivot(there.api, here.api)
        await here.until(["Provisioned"], ["available", "provisioned"])
        await _known(here, states)
        assert await here.states() == states and not await there.nodes()
        assert (servers.switched, servers.powers()) == (switched, powers), "nor on the way back"


async def _known(there: Side, states: dict[str, str]) -> None:
    """Until its Ironic has adopted what is installed: the record says so from the start, because it was moved."""
    wanted = {
        name: {"active"} if state == "provisioned" else {"manageable", "available"} for name, state in states.items()
    }
    async with asyncio.timeout(SEEN_S):
        while True:
            found = await there.nodes()
            if found.keys() == wanted.keys() and all(found[name] in wanted[name] for name in wanted):
                return
            await asyncio.sleep(0.3)
