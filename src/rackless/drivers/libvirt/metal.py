"""`ports.metal.Metal`: one connection to the libvirtd of the namespaces we are in, and all that is behind it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from rackless.drivers.libvirt import firmware_xml
from rackless.drivers.libvirt.connection import Connection
from rackless.drivers.libvirt.domain_xml import Platform
from rackless.drivers.libvirt.hypervisor import LibvirtHypervisor
from rackless.drivers.libvirt.networks import LibvirtNetworks
from rackless.drivers.libvirt.places import LibvirtPlaces
from rackless.drivers.libvirt.terminal import find_terminal
from rackless.drivers.terminals import TerminalConsoles
from rackless.errors import HypervisorError, LabError


class LibvirtMetal:
    def __init__(self, console_log: Callable[[str], Path], *, kvm: bool, shown: Mapping[Path, Path]) -> None:
        self._connection = Connection()
        self.networks = LibvirtNetworks(self._connection)
        self.hypervisor = LibvirtHypervisor(self._connection, platform(kvm=kvm), LibvirtPlaces(shown))
        self.consoles = TerminalConsoles(console_log, partial(find_terminal, self._connection))

    def accelerate(self, *, kvm: bool) -> None:
        self.hypervisor.platform = platform(kvm=kvm)

    async def absent(self) -> str:
        try:
            await self._connection.call(lambda conn: conn.getLibVersion())
        except LabError as error:
            return error.why or error.what
        return ""

    async def close(self) -> None:
        await self._connection.close()


def platform(*, kvm: bool) -> Platform:
    emulator = shutil.which("qemu-system-x86_64")
    firmware, secure = (firmware_xml.find(places) for places in (firmware_xml.OVMF, firmware_xml.OVMF_SECURE))
    if emulator is None or firmware is None:
        raise HypervisorError(
            "QEMU or its UEFI firmware is not installed",
            why=f"qemu-system-x86_64: {emulator or 'not found'}; OVMF: {firmware or 'not found'}",
            hint="run `rackless prepare`, which installs what is missing",
        )
    return Platform(kvm, Path(emulator), *firmware, *(secure or ()))
