"""The lab's own libvirt, or what stands in for it: servers, their networks, their consoles, behind one connection."""

from __future__ import annotations

from typing import Protocol

from rackless.ports.console import Consoles
from rackless.ports.fabric import Networks
from rackless.ports.hypervisor import Hypervisor


class Metal(Protocol):
    @property
    def hypervisor(self) -> Hypervisor: ...

    @property
    def networks(self) -> Networks: ...

    @property
    def consoles(self) -> Consoles: ...

    def accelerate(self, *, kvm: bool) -> None:
        """Whether servers that are defined from now on use KVM."""
        ...

    async def absent(self) -> str:
        """Why it does not answer; empty when it does."""
        ...

    async def close(self) -> None: ...
