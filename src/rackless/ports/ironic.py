"""A provisioning engine as a service: ours, started and stopped by us, behind the `Provisioner` port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rackless.events import Bus
from rackless.ports.process import Processes
from rackless.ports.provisioner import Discovery, Provisioner
from rackless.spec.address import Ip
from rackless.spec.discover import Discover

HOST_PACKAGES = (
    "ipmitool",  # for hosts with an ipmi:// address
    "isolinux",  # what a BIOS starts of a boot ISO …
    "syslinux-common",  # … and the library of that
    "python3-venv",  # the virtualenv is made with the system's Python
    "qemu-utils",  # qemu-img, to look into images before they are handed to an agent
    "xorriso",  # stands in for mkisofs: boot ISOs and config drives
)
"""What Ironic needs from the computer it runs on, besides its own virtualenv; Debian's names.

GRUB's and mtools' part, the ESP image, comes ready-made from the image builder.
"""


@dataclass(frozen=True, slots=True)
class IronicSite:
    """Where Ironic keeps things, where it listens, and what it boots servers with."""

    state: Path
    address: Ip
    """The address in the lab on which Ironic listens, and which agents call back."""
    certificate: Path
    key: Path
    ca: Path
    """The lab's CA: it signed `certificate`, and is handed to agents on their boot ISO."""
    username: str
    password: str = field(repr=False)
    http_url: str
    """The lab's file server, as BMCs and agents see it …"""
    http_root: Path
    """… and the directory it serves, where Ironic puts boot ISOs."""
    kernel: Path
    ramdisk: Path
    esp: Path
    """The deploy ramdisk's kernel and initramfs, and an ESP image whose GRUB looks for the menu on the ISO."""
    discover: Discover = Discover.OFF
    """Whether servers that are not known are taken in, and how their agents find this Ironic."""


class OpenProvisioner(Provisioner, Discovery, Protocol):
    async def close(self) -> None: ...


class ProvisioningService(Protocol):
    """An engine of ours that runs."""

    @property
    def forgetful(self) -> bool:
        """Whether it has lost all that it knew; started again it begins with nothing."""
        ...

    def open(self, *, network_boot: bool) -> OpenProvisioner: ...

    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Guest:
    """What is different in an Ironic that is not our own."""

    prefix: str
    """Before the names of our nodes: others may have a ctrl-0 too."""
    ramdisk: Mapping[str, str] = field(default_factory=dict)
    """The deploy ramdisk, by fields of `driver_info`; empty leaves it to that Ironic."""


@dataclass(frozen=True, slots=True)
class ForeignAccess:
    """How to reach an engine that is not ours."""

    url: str
    username: str
    password: str = field(repr=False)
    ca: Path | None = None


class ForeignProvisioning(Protocol):
    """Somebody else's engine."""

    async def check(self) -> None:
        """Raises LabError with what is wrong and where it is set."""
        ...

    def open(self, guest: Guest) -> OpenProvisioner: ...

    async def forget_all(self, guest: Guest) -> list[str]:
        """Delete all nodes of this guest; their servers are not touched."""
        ...


class EngineEnvironment(Protocol):
    """The engine's own programs, in a cache that labs share."""

    async def current(self, cache: Path) -> Path:
        """Where the environment of today's versions is, or would be."""
        ...

    async def ensure(self, cache: Path, bus: Bus) -> Path:
        """Have it there; two who want it at the same time make it once."""
        ...

    def complete(self, place: Path) -> bool:
        """Whether it was made to its end."""
        ...

    def retire(self, place: Path) -> bool:
        """Remove one; False when somebody is making it at this moment."""
        ...


class StartProvisioning(Protocol):
    async def __call__(
        self, site: IronicSite, environment: Path, processes: Processes, *, log: Path
    ) -> ProvisioningService:
        """Return when the engine answers."""
        ...
