"""Metal3 on the bootstrap machine, and on a control plane after it: a file server, Ironic out of the payload, and the controllers.

It runs on the node image, without pydantic, on the one machine that leads (`leading`). The bootstrap provisions the
control plane's hosts and nothing else: workers stay paused, and MachineSets are left to the cluster.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Interface
from pathlib import Path

from rackless.cluster.bootstrap.provisioning_network import BootNetwork, address_on, await_network, find_link
from rackless.cluster.bootstrap.telling import Tell
from rackless.controllers.health.controller import health_controller
from rackless.controllers.host import host_controller
from rackless.controllers.machines.controller import machine_controller
from rackless.controllers.machines.sets import machineset_controller
from rackless.controllers.nodes.approving import csr_controller
from rackless.controllers.nodes.life import node_life_controller
from rackless.controllers.runtime.runtime import Runtime
from rackless.drivers.clock import SystemClock
from rackless.drivers.ironic.config import IronicConfig
from rackless.drivers.ironic.provisioner import IronicProvisioner
from rackless.drivers.ironic.service import IronicService
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.drivers.process import LocalProcesses
from rackless.events import Bus, Event, Note, StepFinished, StepStarted
from rackless.images.payload_places import DEPLOY, DNSMASQ, IPXE, IRONIC, ISOLINUX, LDLINUX, LOADERS
from rackless.images.trust import write_trusting
from rackless.lab.files import FileServer
from rackless.lab.network_boot import Loaders, NetworkBoot
from rackless.ports.fabric import Network
from rackless.ports.process import Processes
from rackless.ports.resources import Resources
from rackless.run.supervise import KeptProcesses
from rackless.run.waiting import until
from rackless.spec.address import Ip
from rackless.trust.authority import Authority, Use

USERNAME = "bootstrap-user"
STATE = Path("/var/lib/rackless/metal3")
IRONIC_WITHIN = 900.0
"""Seconds for Ironic's start: 40 s were measured on an emulated machine that does nothing else, and here it does."""
ADDRESS_WITHIN = 300.0


async def serve(
    resources: KubernetesResources, payload: Path, interface: str, tell: Tell, *, provisioning: str, whole: bool
) -> None:
    """Where hosts boot over a provisioning network, Ironic, files and, unless somebody else does, DHCP are served on that network
    and not on `interface`; `provisioning` names the NIC on it, on a machine that already has an address there."""
    processes, clock = LocalProcesses(), SystemClock()
    address = await _own_address(interface, processes, clock)
    boots = await await_network(resources, clock)
    if boots is None:
        await _serve(resources, _config(address.ip, payload, keeps=not whole), payload, tell, whole=whole)
        return
    async with _place_on(boots, provisioning, resources, processes, clock) as (link, own):
        dhcp = boots.served_by(link, own)
        tell({"phase": "provisioning network", "on": link, "address": str(own.ip), "dhcp": dhcp is not None})
        config = _config(own.ip, payload, keeps=not whole, network_boot=True)
        await _serve(resources, config, payload, tell, dhcp, network_boot=True, whole=whole)


@asynccontextmanager
async def _place_on(
    boots: BootNetwork, given: str, resources: Resources, processes: Processes, clock: SystemClock
) -> AsyncIterator[tuple[str, IPv4Interface]]:
    """Our NIC on the network, and our address there for as long as this lasts."""
    if given:
        yield given, await _own_address(given, processes, clock)
        return
    hosts = await resources.list("BareMetalHost")
    link = await find_link([each["spec"].get("bootMACAddress") or "" for each in hosts], processes)
    async with address_on(link, boots.address, processes):
        yield link, IPv4Interface(boots.address)


async def _serve(
    resources: KubernetesResources,
    config: IronicConfig,
    payload: Path,
    tell: Tell,
    answers: Network | None = None,
    *,
    network_boot: bool = False,
    whole: bool,
) -> None:
    """`answers` is the network on which DHCP and TFTP are ours."""
    bus = Bus()
    bus.subscribe(_SubjectTeller(tell))
    processes = KeptProcesses(LocalProcesses(), STATE, bus)  # an Ironic that dies is started again: hosts wait for it
    files = FileServer(config.http_root, str(config.address))
    service = IronicService(config, payload / IRONIC, processes, log=STATE / "ironic.log")
    await files.start()
    dhcp = _network_boot(answers, files.url, payload, processes) if answers is not None else None
    # Beside Ironic's start, which takes a minute and more: nodes and their certificates do not wait for it. Hosts do: how long each
    # of their phases may take is counted, and an engine that is not there yet is no fault of theirs.
    working = [asyncio.create_task(_look_after_machines(resources, bus, whole=whole))]
    try:
        if dhcp is not None:
            await dhcp.start()
        tell({"phase": "ironic starts", "address": str(config.address)})
        await service.start(within=IRONIC_WITHIN)
        tell({"phase": "ironic", "url": config.url})
        working.append(
            asyncio.create_task(_look_after_hosts(resources, config, bus, network_boot=network_boot, whole=whole))
        )
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        await service.stop()
        if dhcp is not None:
            await dhcp.stop()
        await files.stop()


def _network_boot(network: Network, files: str, payload: Path, processes: Processes) -> NetworkBoot:
    loaders = Loaders(payload / IPXE, *LOADERS)
    program = str(payload / DNSMASQ)
    return NetworkBoot(network, files, STATE, STATE / "network-boot.log", processes, lambda: loaders, program)


async def _look_after_machines(resources: KubernetesResources, bus: Bus, *, whole: bool) -> None:
    runtime = Runtime(SystemClock(), bus)
    machine_controller(runtime, resources, resources)
    csr_controller(runtime, resources, resources)
    node_life_controller(runtime, resources)
    if whole:
        machineset_controller(runtime, resources, resources)
        health_controller(runtime, resources, resources)
    await runtime.run()


async def _look_after_hosts(
    resources: KubernetesResources, config: IronicConfig, bus: Bus, *, network_boot: bool, whole: bool
) -> None:
    provisioner = IronicProvisioner(
        config.url, config.username, config.password, config.ca, network_boot=network_boot, database=config.database
    )  # fmt: skip
    try:
        runtime = Runtime(SystemClock(), bus)
        host_controller(runtime, resources, provisioner, new_engine=whole)
        await runtime.run()
    finally:
        await provisioner.close()


def _config(address: Ip, payload: Path, *, keeps: bool, network_boot: bool = False) -> IronicConfig:
    """Without `keeps` Ironic begins with an empty database: where several control planes take turns, what it knew when it last
    ran here may be outdated, and hosts are adopted from their BareMetalHost records."""
    STATE.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not keeps:
        shutil.rmtree(STATE / "ironic", ignore_errors=True)
    authority = Authority.ensure(STATE / "tls", "bootstrap's Ironic")
    leaf = authority.ensure_leaf("ironic", [str(address), "127.0.0.1"], uses=(Use.SERVER,))
    deploy = payload / DEPLOY
    ramdisk = deploy / "initramfs"
    if network_boot:
        ramdisk = STATE / "deploy.initramfs"
        write_trusting(deploy / "initramfs", authority.certificate, ramdisk)
    return IronicConfig(
        state=STATE / "ironic",
        address=address,
        certificate=leaf.certificate,
        key=leaf.key,
        ca=authority.certificate,
        username=USERNAME,
        password=secrets.token_hex(16),  # of this start: nobody else is let in
        http_url=f"http://{address}:6180",
        http_root=STATE / "files",
        kernel=deploy / "vmlinuz",
        ramdisk=ramdisk,
        esp=deploy / "esp",
        ipmi=network_boot,  # a host with IPMI alone boots over the network; elsewhere Ironic need not load what speaks it
        isolinux=payload / ISOLINUX,
        ldlinux=payload / LDLINUX,
    )


async def _own_address(interface: str, processes: Processes, clock: SystemClock) -> IPv4Interface:
    """The interface's own address. Not the VIP: that comes and goes, and its prefix is /32."""
    found: list[IPv4Interface] = []

    async def look() -> tuple[bool, str]:
        done = await processes.run(["ip", "-json", "-4", "address", "show", "dev", interface], check=False)
        listed = json.loads(done.stdout or "[]") if done.code == 0 else []
        own = [one for link in listed for one in link.get("addr_info", ()) if one.get("prefixlen", 32) < 32]
        found[:] = [IPv4Interface(f"{one['local']}/{one['prefixlen']}") for one in own]
        return bool(found), f"{interface} has no address yet"

    await until(look, what=f"an address on {interface}", within=ADDRESS_WITHIN, every=1.0, clock=clock)
    return found[0]


class _SubjectTeller:
    """Tells the console what the controllers do with hosts, from their events."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._phases: dict[str, tuple[str, str]] = {}

    def __call__(self, event: Event) -> None:
        match event:
            case StepStarted(subject=subject, phase=phase) if subject:
                self._phases[event.step] = (subject, phase)
                self._tell({"subject": subject, "begun": phase})
            case StepFinished(step=step) if step in self._phases:
                subject, phase = self._phases.pop(step)
                told = {"subject": subject, "ended": phase, "outcome": event.outcome, "seconds": round(event.seconds)}
                self._tell({**told, **({"detail": event.detail[:500]} if event.detail else {})})
            case Note(level="warning"):
                self._tell(
                    {"subject": event.subject, "warning": (event.message or event.code)[:500], **dict(event.values)}
                )
