"""A computer without a computer, on which whole labs run in virtual time: the fakes put together as `ports.drivers.Drivers`.

Files are real files, in folders that the world's maker chooses; everything else is in memory: processes, namespaces, what
libvirt knows, what the provisioning engine wrote. Tests and simulations can look at all of it and make it go wrong.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rackless.drivers.fake.answers import losing
from rackless.drivers.fake.api import FakeApis
from rackless.drivers.fake.computer import FakeComputer
from rackless.drivers.fake.computer_devices import FakeComputerDevices
from rackless.drivers.fake.computer_network import FakeComputerNetwork
from rackless.drivers.fake.consoles import FakeConsoles
from rackless.drivers.fake.environment import FakeEnvironment
from rackless.drivers.fake.fabric import FakeLinks, FakeNetworks
from rackless.drivers.fake.firewall import FakeFirewall
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.drivers.fake.loop import VirtualLoop
from rackless.drivers.fake.namespaces import FakeNamespaces
from rackless.drivers.fake.nodes import FakeNodes
from rackless.drivers.fake.packages import FakePackages
from rackless.drivers.fake.processes import FakeProcess, FakeProcesses, Program
from rackless.drivers.fake.provisioning import FakeForeign, FakeProvisioningService, LabProvisioner, start_provisioning
from rackless.drivers.fake.resources import MemoryResources
from rackless.drivers.fake.script import Script
from rackless.drivers.terminals import recorded_consoles
from rackless.ports.api import Access, ApiConnection
from rackless.ports.console import Consoles
from rackless.ports.drivers import Drivers
from rackless.ports.fabric import Networks
from rackless.ports.hypervisor import Hypervisor, Power
from rackless.ports.ironic import IronicSite
from rackless.ports.process import Processes
from rackless.ports.resources import Resources

T = TypeVar("T")
BOOTS_WITHIN = 20.0
"""Seconds from a server's start to its system's first answer."""


class LoopClock:
    """`ports.clock.Clock` by the loop's own time."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class ScriptedHypervisor(FakeHypervisor):
    """Every call passes through the script, and what changes a server is noted as a change."""

    script: Script = field(default_factory=Script)

    async def _answer(self, method: str, name: str = "") -> None:
        await self.script.meet("hypervisor", method, name)
        await super()._answer(method, name)

    async def ensure(self, server: Any) -> bool:
        changed = await super().ensure(server)
        if changed:
            self.script.change("hypervisor", "ensure", server.name)
        return changed

    async def retire(self, name: str) -> None:
        there = name in self._servers
        await super().retire(name)
        if there:
            self.script.change("hypervisor", "retire", name)

    def _set(self, name: str, **changes: object) -> None:
        super()._set(name, **changes)
        if "power" in changes:
            self.script.change("hypervisor", "power", name)


@dataclass
class FakeLab:
    """Everything of one lab that is neither a file nor a process of ours: its network, its libvirt, its engine."""

    script: Script
    pid: Callable[[], int]
    links: FakeLinks = field(init=False)
    networks: FakeNetworks = field(init=False)
    hypervisor: ScriptedHypervisor = field(init=False)
    consoles: FakeConsoles = field(default_factory=lambda: FakeConsoles(set()))
    provisioner: LabProvisioner = field(init=False)
    nodes: FakeNodes = field(init=False)
    kvm: bool = False
    _since: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.links = FakeLinks(self.script)
        self.networks = FakeNetworks(self.script, self.links, reachable=False)
        self.hypervisor = ScriptedHypervisor(script=self.script, reachable=False)
        self.provisioner = LabProvisioner(LoopClock(), hypervisor=self.hypervisor, script=self.script)
        self.nodes = FakeNodes(self.answers, self.script)

    # ports.metal.Metal

    def accelerate(self, *, kvm: bool) -> None:
        self.kvm = kvm

    async def absent(self) -> str:
        await self.script.meet("metal", "absent")
        return "" if self.hypervisor.reachable else "nobody listens"

    # what happens to it

    def libvirtd_runs(self, runs: bool) -> None:
        self.networks.reachable = runs
        if runs:
            self.hypervisor.reachable = True
        else:
            self.hypervisor.go_away()

    def vanish(self) -> None:
        """The lab's network namespace is gone, and everything that lived in it."""
        self.links.vanish()
        self.networks.vanish()
        self.stop_servers()

    def stop_servers(self) -> None:
        for name in self.running():
            self.hypervisor.guest_stops(name)

    def forget_lost(self) -> None:
        """Servers and networks whose definitions were in a folder that is gone are not defined any more."""
        for name, server in list(self.hypervisor._defined.items()):
            if not server.console_log.parent.exists():
                del self.hypervisor._defined[name], self.hypervisor._servers[name]
                self.provisioner.disks.pop(name, None)
                self.networks.defined.clear()
                self.networks.bridged.clear()
                self.nodes.forget_all()

    def running(self) -> list[str]:
        return [name for name, state in self.hypervisor._servers.items() if state.power is Power.ON]

    def answers(self, who: str) -> bool:
        """Whether the node of this name or address has had the time to boot the system on its disk."""
        named = {
            str(r.address): r.name.partition(".")[0] for n in self.networks.defined.values() for r in n.reservations
        }
        name = named.get(who, who)
        if name not in self.provisioner.disks or name not in self.running():
            self._since.pop(name, None)
            return False
        now = asyncio.get_running_loop().time()
        return now >= self._since.setdefault(name, now) + BOOTS_WITHIN


@dataclass
class FakeOpenMetal:
    """`ports.metal.Metal`: what a lab's libvirt has, over a connection whose answers may be lost."""

    lab: FakeLab
    hypervisor: Hypervisor = field(init=False)
    networks: Networks = field(init=False)
    consoles: Consoles = field(init=False)

    def __post_init__(self) -> None:
        self.hypervisor = losing("hypervisor", self.lab.hypervisor, self.lab.script)
        self.networks = losing("networks", self.lab.networks, self.lab.script)
        self.consoles = self.lab.consoles

    def accelerate(self, *, kvm: bool) -> None:
        self.lab.accelerate(kvm=kvm)

    async def absent(self) -> str:
        return await self.lab.absent()

    async def close(self) -> None: ...


@dataclass
class FakeWorld:
    programs: Mapping[str, Callable[[FakeWorld], Program]]
    """The programs that can be run here besides the world's own, by name; each is made for this world."""
    seed: int = 0
    computer: FakeComputer = field(default_factory=FakeComputer)
    script: Script = field(init=False)
    namespaces: FakeNamespaces = field(init=False)
    network: FakeComputerNetwork = field(init=False)
    devices: FakeComputerDevices = field(init=False)
    firewall: FakeFirewall = field(init=False)
    packages: FakePackages = field(init=False)
    environment: FakeEnvironment = field(init=False)
    processes: FakeProcesses = field(init=False)
    apis: FakeApis = field(init=False)
    labs: dict[str, FakeLab] = field(default_factory=dict)
    pinned: set[str] = field(default_factory=set)
    stores: dict[str, Resources] = field(default_factory=dict)
    """The records of each API, by the file that stands for its database."""
    _strangers: dict[tuple[int, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.script = Script(self.seed)
        self.processes = FakeProcesses(self.script, strangers=self._all_strangers)
        self.script.caller = lambda: self.processes.own
        self.namespaces = FakeNamespaces(self)
        self.packages = FakePackages(self.script)
        self.environment = FakeEnvironment(self.script)
        self.network = FakeComputerNetwork(
            self.script, living=lambda pin: pin in self.pinned, caller=self.processes._current
        )
        self.devices = FakeComputerDevices(self.script, self._guests)
        self.firewall = FakeFirewall(self.script, lambda: str(self.processes._current().network))
        self.apis = FakeApis(self.script)
        self.processes.programs |= {"libvirtd": self._libvirtd, "ironic": self._ironic}
        self.processes.programs |= {name: make(self) for name, make in self.programs.items()}

    def run(self, work: Coroutine[Any, Any, T], chance: random.Random | None = None) -> T:
        """Runs the world until the work is done; then everything stops, as if the power went off."""
        loop = VirtualLoop(chance)
        try:
            return loop.run_until_complete(work)
        finally:
            for process in self.processes.all.values():
                self.processes.kill(process)
            loop.close()

    def drivers(self) -> Drivers:
        return Drivers(
            clock=LoopClock(),
            computer=self.computer,
            network=self.network,
            devices=self.devices,
            firewall=self.firewall,
            packages=self.packages,
            processes=self.processes,
            namespaces=self.namespaces,
            open_links=lambda: losing("links", self.here().links, self.script),
            open_metal=self._open_metal,
            open_hypervisor=lambda uri: nullcontext(self.here().hypervisor),
            open_consoles=recorded_consoles,
            open_api=self._open_api,
            open_nodes=lambda: self.here().nodes,
            open_environment=lambda: self.environment,
            start_provisioning=self._start_provisioning,
            reach_provisioning=lambda access: FakeForeign(access, self.here().provisioner),
        )

    def lab(self, pin: str) -> FakeLab:
        if pin not in self.labs:
            self.labs[pin] = FakeLab(self.script, lambda: self.processes.own)
        return self.labs[pin]

    def vanish(self, pin: str) -> None:
        """A lab's network namespace is gone, and all that was in it."""
        self.lab(pin).vanish()
        self.network.vanish(pin)
        self.devices.vanish(pin)
        self.firewall.vanish(pin)

    def _guests(self, pin: str) -> set[str] | None:
        """The links that came into a namespace from outside; None where there is no such namespace."""
        return self.lab(pin).links.guests if pin in self.pinned else None

    def here(self) -> FakeLab:
        """The lab of the process that calls."""
        return self.lab(str(self.processes._current().network))

    def store(self, place: Path) -> Resources:
        """The records whose database this file stands for; new ones when there is no such file."""
        if not place.exists() or str(place) not in self.stores:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
            self.stores[str(place)] = MemoryResources()
        return self.stores[str(place)]

    def restart_computer(self, run: Path) -> None:
        """The power fails: all processes, namespaces and running servers are gone, and what is in `run`."""
        for process in list(self.processes.all.values()):
            self.processes.kill(process)
        for pin in self.labs:
            self.vanish(pin)
        self.pinned.clear()
        self.namespaces.made.clear()
        self.namespaces.marks.clear()
        self.network.restart()
        self.devices.restart()
        self.firewall.tables.clear()
        self.computer.starts += 1
        for path in sorted(run.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()

    def strangers_of(self, lab: FakeLab) -> dict[int, Callable[[], None]]:
        """The QEMU processes of a lab: one for each server that is on, with the call that ends it."""
        found: dict[int, Callable[[], None]] = {}
        for name in lab.running():
            pid = self._strangers.setdefault((id(lab), name), 1_000_000 + len(self._strangers))
            found[pid] = lambda name=name: lab.hypervisor.guest_stops(name)  # type: ignore[misc]
        return found

    # inside

    def _all_strangers(self) -> dict[int, Callable[[], None]]:
        return {pid: stop for lab in self.labs.values() for pid, stop in self.strangers_of(lab).items()}

    def _open_metal(
        self, console_log: Callable[[str], Path], *, kvm: bool, shown: Mapping[Path, Path]
    ) -> FakeOpenMetal:
        lab = self.here()
        lab.accelerate(kvm=kvm)
        return FakeOpenMetal(lab)

    def _open_api(self, access: Access, *, patience: float, namespace: str | None = None) -> ApiConnection:
        network = self.processes._current().network
        return self.apis.open(lambda: network, access, patience=patience, namespace=namespace)

    async def _start_provisioning(
        self, site: IronicSite, environment: Path, processes: Processes, *, log: Path
    ) -> FakeProvisioningService:
        return await start_provisioning(site, environment, processes, self.here().provisioner, log=log)

    async def _libvirtd(self, process: FakeProcess) -> int:
        lab = self.lab(str(process.network))
        await asyncio.sleep(0.5)
        lab.forget_lost()
        process.at_end.append(lambda: lab.libvirtd_runs(False))
        lab.libvirtd_runs(True)
        await asyncio.get_running_loop().create_future()
        return 0

    async def _ironic(self, process: FakeProcess) -> int:
        provisioner = self.lab(str(process.network)).provisioner
        await asyncio.sleep(3.0)

        def away() -> None:
            provisioner.running = False

        process.at_end.append(away)
        provisioner.running = True
        await asyncio.get_running_loop().create_future()
        return 0
