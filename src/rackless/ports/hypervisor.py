"""Servers: what a virtual box is made of, and what can be done with it.

`lab` defines servers from `Server` values; `bmc` drives their power, boot and media. Neither knows libvirt.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol
from uuid import UUID

from rackless.errors import LabError


class Power(StrEnum):
    ON = "on"
    OFF = "off"


class BootDevice(StrEnum):
    DISK = "disk"
    CDROM = "cdrom"
    NETWORK = "network"
    REMOVABLE = "removable"
    """A USB disk or a floppy, where it has one."""
    SETUP = "setup"
    """No device: the firmware's set-up screen, on the serial console too."""


class Firmware(StrEnum):
    UEFI = "uefi"
    BIOS = "bios"


@dataclass(frozen=True, slots=True)
class FirmwareChoice:
    kind: Firmware
    secure_boot: bool = False


@dataclass(frozen=True, slots=True)
class Disk:
    path: Path
    size_bytes: int
    serial: str
    safe: bool = False
    """Whether what the guest has synced outlives a crash of the computer."""
    bus: str = "scsi"
    """`scsi`, `virtio` or `sata`."""
    backing: Path | None = None
    """A qcow2 image that the disk is an overlay of; servers share it, and it is only read."""


@dataclass(frozen=True, slots=True)
class Nic:
    mac: str
    bridge: str
    mtu: int | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """The hardware of one virtual box, as it is to be defined. The CD drive is always there, and empty."""

    name: str
    uuid: UUID
    memory_mib: int
    vcpus: int
    firmware: Firmware
    disks: tuple[Disk, ...]
    nics: tuple[Nic, ...]
    nvram: Path
    console_log: Path
    secure_boot: bool = False
    tpm: bool = False
    user: int | None = None
    """The number of the user that its emulator runs as; None leaves that to the hypervisor."""
    ignition: Path | None = None
    """An Ignition config that the firmware hands to the guest (fw_cfg), as installers give one to a bootstrap VM."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """One server as observed."""

    name: str
    uuid: UUID
    power: Power
    memory_mib: int
    vcpus: int
    firmware: Firmware
    macs: tuple[str, ...]
    disks: tuple[Disk, ...]
    media: Path | None
    boot_first: BootDevice
    lasting: bool = True
    """False when it has no definition: it is gone when it is off."""
    secure_boot: bool = False
    offers: frozenset[FirmwareChoice] = frozenset()
    """What its firmware can be made."""
    setup_screen: bool = False
    """Whether `BootDevice.SETUP` leads somewhere."""

    @property
    def choice(self) -> FirmwareChoice:
        return FirmwareChoice(self.firmware, self.secure_boot)


class ServerChange(StrEnum):
    POWERED_ON = "powered-on"
    POWERED_OFF = "powered-off"
    REBOOTED = "rebooted"
    DEFINED = "defined"
    UNDEFINED = "undefined"


@dataclass(frozen=True, slots=True)
class ServerEvent:
    name: str
    change: ServerChange


class Unreachable(LabError):
    """The hypervisor does not answer (it restarts, say). What we knew of its servers is old until it answers again."""


class NoSuchServer(LabError):
    """A server by that name is not defined."""


class Hypervisor(Protocol):
    """Every method raises Unreachable while the hypervisor does not answer; a method that acts on one server raises
    NoSuchServer when it is not there. Repeating what is already so is no error (on is on, an empty drive is empty)."""

    async def ensure(self, server: Server) -> bool:
        """Define the server, or leave it when it is already so. True when something changed."""
        ...

    async def differs(self, server: Server) -> bool:
        """Whether it is missing, or defined otherwise."""
        ...

    async def retire(self, name: str) -> None:
        """Power off and undefine; silent when it is not there."""
        ...

    async def servers(self) -> list[ServerState]: ...

    async def observe(self, name: str) -> ServerState | None: ...

    async def power_on(self, name: str, *, boot: BootDevice | None = None) -> None:
        """Start; `boot` puts that device first for this start only, never in the definition. A server that has no such
        device starts from the next in its order.

        With `boot` given, a reboot by the guest itself already uses the defined order again.
        """
        ...

    async def power_off(self, name: str) -> None:
        """Pull the plug."""
        ...

    async def shut_down(self, name: str) -> None:
        """Press the power button: ask the guest to shut down."""
        ...

    async def reset(self, name: str) -> None:
        """Press the reset button."""
        ...

    async def interrupt(self, name: str) -> None:
        """Send a non-maskable interrupt."""
        ...

    async def set_boot_first(self, name: str, device: BootDevice) -> None:
        """Change the boot order in the definition; it counts from the next start."""
        ...

    async def set_firmware(self, name: str, choice: FirmwareChoice) -> None:
        """Change the firmware in the definition, to one the server offers; it counts from the next start."""
        ...

    async def processor_seconds(self, name: str) -> float:
        """Processor time the server has used since it was started; 0 when it is off."""
        ...

    async def go_on_writing(self) -> list[str]:
        """Let servers go on that were stopped because they could not write; gives their names."""
        ...

    async def insert_media(self, name: str, image: Path) -> None:
        """Put an ISO into the CD drive, of a running server too. Where the definition has no drive one is added to it,
        which a running server has after its next start."""
        ...

    async def eject_media(self, name: str) -> None: ...

    def events(self) -> AsyncIterator[ServerEvent]:
        """What changes from now on, by whoever's hand. Raises Unreachable when the hypervisor goes away: events may
        have been missed then, so look at all servers again before listening anew."""
        ...
