"""Drivers: the implementations of the ports. `open_drivers` returns those of this computer, or of a world of fakes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rackless.drivers.fake.world import FakeWorld
    from rackless.ports.api import Access, ApiConnection
    from rackless.ports.console import Consoles
    from rackless.ports.drivers import Drivers
    from rackless.ports.fabric import Links
    from rackless.ports.hypervisor import Hypervisor
    from rackless.ports.ironic import (
        EngineEnvironment,
        ForeignAccess,
        ForeignProvisioning,
        IronicSite,
        ProvisioningService,
    )
    from rackless.ports.metal import Metal
    from rackless.ports.nodes import Nodes
    from rackless.ports.process import Processes


def library_version() -> str:
    """Of libvirt, here. Raises HypervisorError where Python has no binding of it."""
    from rackless.drivers.libvirt.binding import libvirt

    number = int(libvirt().getVersion())
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


def open_drivers(world: FakeWorld | None = None) -> Drivers:
    """This computer: its kernel, its programs, the libvirtd of the namespaces we are in; or a world of fakes.

    What a command may not need is loaded when it is opened.
    """
    if world is not None:
        return world.drivers()
    from rackless.drivers.clock import SystemClock
    from rackless.drivers.computer import LinuxComputer
    from rackless.drivers.computer_devices import LinuxComputerDevices
    from rackless.drivers.computer_network import LinuxComputerNetwork
    from rackless.drivers.debian import DebianPackages
    from rackless.drivers.lab_namespaces import LinuxNamespaces
    from rackless.drivers.nftables import NftFirewall
    from rackless.drivers.process import LocalProcesses
    from rackless.ports.drivers import Drivers

    return Drivers(
        clock=SystemClock(),
        computer=LinuxComputer(),
        network=LinuxComputerNetwork(),
        devices=LinuxComputerDevices(),
        firewall=NftFirewall(),
        packages=DebianPackages(),
        processes=LocalProcesses(),
        namespaces=LinuxNamespaces(),
        open_links=_open_links,
        open_metal=_open_metal,
        open_hypervisor=_open_hypervisor,
        open_consoles=_open_consoles,
        open_api=_open_api,
        open_nodes=_open_nodes,
        open_environment=_open_environment,
        start_provisioning=_start_ironic,
        reach_provisioning=_reach_ironic,
    )


def _open_links() -> Links:
    from rackless.drivers.netlink.links import NetlinkLinks

    return NetlinkLinks()


def _open_metal(console_log: Callable[[str], Path], *, kvm: bool, shown: Mapping[Path, Path]) -> Metal:
    from rackless.drivers.libvirt.metal import LibvirtMetal

    return LibvirtMetal(console_log, kvm=kvm, shown=shown)


@asynccontextmanager
async def _open_hypervisor(uri: str) -> AsyncIterator[Hypervisor]:
    from rackless.drivers.libvirt.connection import Connection
    from rackless.drivers.libvirt.hypervisor import LibvirtHypervisor

    connection = Connection(uri)
    try:
        yield LibvirtHypervisor(connection)
    finally:
        await connection.close()


def _open_consoles(console_log: Callable[[str], Path]) -> Consoles:
    from rackless.drivers.terminals import recorded_consoles

    return recorded_consoles(console_log)


def _open_api(access: Access, *, patience: float, namespace: str | None = None) -> ApiConnection:
    from rackless.drivers.kubernetes.resources import KubernetesResources
    from rackless.ports.api import NAMESPACE

    return KubernetesResources(access, patience=patience, namespace=namespace or NAMESPACE)


def _open_nodes() -> Nodes:
    from rackless.drivers.nodes.observer import NetworkNodes

    return NetworkNodes()


def _open_environment() -> EngineEnvironment:
    from rackless.drivers.ironic.environment import IronicEnvironment
    from rackless.drivers.process import LocalProcesses

    return IronicEnvironment(LocalProcesses())


async def _start_ironic(site: IronicSite, environment: Path, processes: Processes, *, log: Path) -> ProvisioningService:
    from rackless.drivers.ironic.serving import start_ironic

    return await start_ironic(site, environment, processes, log=log)


def _reach_ironic(access: ForeignAccess) -> ForeignProvisioning:
    from rackless.drivers.ironic.foreign import ForeignIronic

    return ForeignIronic(access)
