"""What can be seen of the system a node runs on: its resources, what is left of them, its versions. Reads, never writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

MIB = 1 << 20
LEAST_MEMORY = 100 * MIB
LEAST_DISK, LEAST_INODES, LEAST_PIDS = 0.10, 0.05, 0.10
"""The free part of the whole below which a node reports pressure. Memory, disk and inodes as a kubelet's own defaults."""


class DiskRoom(NamedTuple):
    """How much there is of something, and how much of that is left."""

    whole: int
    left: int


class Facts(NamedTuple):
    processors: int
    memory: DiskRoom
    disk: DiskRoom
    inodes: DiskRoom
    pids: DiskRoom
    addresses: tuple[str, ...]
    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    kernel: str = ""
    system: str = ""

    @property
    def memory_pressure(self) -> bool:
        return self.memory.left < LEAST_MEMORY

    @property
    def disk_pressure(self) -> bool:
        return self.disk.left < self.disk.whole * LEAST_DISK or self.inodes.left < self.inodes.whole * LEAST_INODES

    @property
    def pid_pressure(self) -> bool:
        return self.pids.left < self.pids.whole * LEAST_PIDS


def look(addresses: tuple[str, ...], root: Path = Path("/"), system_uuid: str = "") -> Facts:
    disk = os.statvfs(root)
    return Facts(
        processors=os.cpu_count() or 1,
        memory=_memory(root),
        disk=DiskRoom(disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize),
        inodes=DiskRoom(disk.f_files, disk.f_favail),
        pids=_pids(root),
        addresses=addresses,
        machine_id=_line(root / "etc/machine-id"),
        system_uuid=system_uuid or _line(root / "sys/class/dmi/id/product_uuid"),
        boot_id=_line(root / "proc/sys/kernel/random/boot_id"),
        kernel=os.uname().release,
        system=_system(root),
    )


def _memory(root: Path) -> DiskRoom:
    found = {}
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            found[name] = int(rest.split()[0]) * 1024
    return DiskRoom(found.get("MemTotal", 0), found.get("MemAvailable", 0))


def _pids(root: Path) -> DiskRoom:
    """Process ids: every thread takes one."""
    running = _line(root / "proc/loadavg").split()  # 0.00 0.01 0.05 1/123 4567
    most = min(int(_line(root / f"proc/sys/kernel/{name}") or 1 << 15) for name in ("pid_max", "threads-max"))
    used = int(running[3].partition("/")[2]) if len(running) > 3 else 0
    return DiskRoom(most, most - used)


def _system(root: Path) -> str:
    for line in _text(root / "etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return "Linux"


def _line(path: Path) -> str:
    return _text(path).strip()


def _text(path: Path) -> str:
    """The file's text; empty when there is no such file or we may not read it."""
    try:
        return path.read_text()
    except OSError:
        return ""
