"""All ports as one value, which operations, labd and the holder are given: they do not know whether drivers or fakes are behind it.

`drivers.open_drivers` makes one for this computer; `drivers.fake` has one without a computer, on which a whole lab runs in
virtual time. Parts that take long to load, or connect to something, are opened by a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rackless.ports.api import Access, ApiConnection
from rackless.ports.clock import Clock
from rackless.ports.computer import Computer
from rackless.ports.computer_devices import ComputerDevices
from rackless.ports.computer_network import ComputerNetwork
from rackless.ports.console import Consoles
from rackless.ports.fabric import Links
from rackless.ports.firewall import Firewall
from rackless.ports.hypervisor import Hypervisor
from rackless.ports.ironic import EngineEnvironment, ForeignAccess, ForeignProvisioning, StartProvisioning
from rackless.ports.metal import Metal
from rackless.ports.namespaces import Namespaces
from rackless.ports.nodes import Nodes
from rackless.ports.packages import Packages
from rackless.ports.process import ProcessTable


class OpenMetal(Protocol):
    def __call__(self, console_log: Callable[[str], Path], *, kvm: bool, shown: Mapping[Path, Path]) -> Metal:
        """`shown` says, for each folder of the lab, its path as QEMU sees it."""
        ...


class OpenApi(Protocol):
    def __call__(self, access: Access, *, patience: float, namespace: str | None = None) -> ApiConnection:
        """`patience` is for how many seconds a request is tried again while the API does not answer; `namespace` is that of
        the records that name none, a lab's own without it."""
        ...


@dataclass(frozen=True, slots=True)
class Drivers:
    clock: Clock
    computer: Computer
    network: ComputerNetwork
    """The hypervisor's own."""
    devices: ComputerDevices
    """The hypervisor's bridges and NICs that are attached to labs."""
    firewall: Firewall
    packages: Packages
    processes: ProcessTable
    namespaces: Namespaces
    open_links: Callable[[], Links]
    open_metal: OpenMetal
    open_hypervisor: Callable[[str], AbstractAsyncContextManager[Hypervisor]]
    """Servers that are not ours, behind a libvirt URI."""
    open_consoles: Callable[[Callable[[str], Path]], Consoles]
    """Consoles of servers whose libvirt does not run: only their logs."""
    open_api: OpenApi
    open_nodes: Callable[[], Nodes]
    open_environment: Callable[[], EngineEnvironment]
    start_provisioning: StartProvisioning
    reach_provisioning: Callable[[ForeignAccess], ForeignProvisioning]
