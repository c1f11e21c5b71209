"""The VM of a bootstrap machine: a server of the lab's that nobody planned, made for one install and taken away after it.

Its disk is an overlay of the node image, so nothing is copied; its Ignition config comes through the firmware (fw_cfg). All its
files lie beside the disks of the lab's servers, under its name: taking the lab away takes it along, whether or not the install
came to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid5

from rackless.errors import InputError
from rackless.ports.hypervisor import Disk, Firmware, Hypervisor, Nic, Power, Server
from rackless.ports.process import Processes
from rackless.run.files import write_secret

MEMORY_MIB = 2048
"""Measured: the emulator of a bootstrap that had provisioned one host took 1.5 GiB, its own memory included."""
VCPUS = 2
DISK_BYTES = 10 << 30
"""Thin: only what the bootstrap writes takes room."""
_NAMESPACE = UUID("2f6d3c0e-6a1b-5c1d-8f55-626f6f747374")


@dataclass(frozen=True, slots=True)
class BootstrapVm:
    """What an install asks for."""

    infrastructure: str
    """The install's id; installers call their VM after it."""
    nics: tuple[Nic, ...]
    folder: Path
    """Where the files of servers are."""
    console_log: Path
    image: Path
    """The node image."""
    user: int | None = None

    @property
    def name(self) -> str:
        return name_of(self.infrastructure)

    @property
    def server(self) -> Server:
        serial = f"BS{uuid5(_NAMESPACE, self.name).hex[:12].upper()}"
        return Server(
            name=self.name,
            uuid=uuid5(_NAMESPACE, f"{self.folder}/{self.name}"),
            memory_mib=MEMORY_MIB,
            vcpus=VCPUS,
            firmware=Firmware.UEFI,
            disks=(Disk(self.folder / f"{self.name}.qcow2", DISK_BYTES, serial, backing=self.image),),
            nics=self.nics,
            nvram=self.folder / f"{self.name}.nvram",
            console_log=self.console_log,
            user=self.user,
            ignition=self.folder / f"{self.name}.ign",
        )


def name_of(infrastructure: str) -> str:
    return f"{infrastructure}-bootstrap"


def bridges_to_nics(bridges: Sequence[tuple[str, str]]) -> tuple[Nic, ...]:
    """(bridge, MAC), the cluster's first."""
    return tuple(Nic(mac.lower(), bridge) for bridge, mac in bridges)


async def ensure(vm: BootstrapVm, config: str, hypervisor: Hypervisor, processes: Processes) -> bool:
    """Define it and switch it on; False when it runs already. One that is there with another config is refused: what it has begun
    would be mixed with what another install wants."""
    server = vm.server
    assert server.ignition is not None
    state = await hypervisor.observe(vm.name)
    given = server.ignition.read_text() if server.ignition.exists() else ""
    if state is not None and given != config:
        raise InputError(
            f"there is a bootstrap machine {vm.name} with another config",
            hint="`rackless install destroy bootstrap` takes it away",
        )
    if given != config:
        write_secret(server.ignition, config)
    if state is None:  # one that is there keeps the image that its disk was made of, also when there is a newer one now
        (disk,) = server.disks
        await _make_overlay(disk, processes)
        await hypervisor.ensure(server)
        server.console_log.unlink(missing_ok=True)  # what an earlier one told would be taken for this one's
    elif state.power is Power.ON:
        return False
    await hypervisor.power_on(vm.name)
    return True


async def retire(infrastructure: str, folder: Path, hypervisor: Hypervisor) -> bool:
    """The VM and its files; False when there was nothing of it. Its console's log stays, to be read."""
    name = name_of(infrastructure)
    there = await hypervisor.observe(name) is not None
    await hypervisor.retire(name)
    for path in sorted(folder.glob(f"{name}.*")):
        there = True
        path.unlink()
    return there


async def _make_overlay(disk: Disk, processes: Processes) -> None:
    assert disk.backing is not None
    scratch = disk.path.with_suffix(".new")
    scratch.unlink(missing_ok=True)
    await processes.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", disk.backing, scratch, str(disk.size_bytes)]
    )
    scratch.chmod(0o600)
    scratch.rename(disk.path)
