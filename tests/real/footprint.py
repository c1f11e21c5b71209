"""What a running lab takes from its machine: processor seconds, memory, descriptors and threads of each of its processes.

A process is the lab's when it is in the lab's network namespace. CPU seconds are true beside other work, which seconds are not.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_NAMES = (
    # what is in a command line: what we call it
    (b"rackless.labd.main", "labd"),
    (b"rackless.holder.main", "holder"),
    (b"\0api\0serve\0", "API"),
    (b"ironic", "Ironic"),
    (b"libvirtd", "libvirtd"),
    (b"dnsmasq", "dnsmasq"),
    (b"swtpm", "swtpm"),
)
_GUEST = re.compile(rb"\0guest=([^,\0]+)")
CONTROL = ("labd", "API", "Ironic")
"""What manages the lab, and has nothing to do while nobody asks."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one kind of process; of a server, its QEMU."""

    cpu: float = 0.0
    """Seconds so far, with those of children that have ended."""
    pss: int = 0
    """Bytes, where pages that several processes share are counted in parts."""
    rss: int = 0
    descriptors: int = 0
    threads: int = 0
    server: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.cpu + other.cpu, self.pss + other.pss, self.rss + other.rss, self.descriptors + other.descriptors,
            self.threads + other.threads, self.server or other.server,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sample:
    at: float
    """Seconds on some clock that only goes forward."""
    processes: dict[str, Usage] = field(default_factory=dict)
    files: int = 0
    """In the lab's folders."""
    stored: int = 0
    """Bytes of them on the disk."""

    @property
    def total(self) -> Usage:
        return sum(self.processes.values(), Usage())

    @property
    def control(self) -> Usage:
        return sum((self.processes[name] for name in CONTROL if name in self.processes), Usage())


def sample(pin: Path, folders: tuple[Path, ...], at: float) -> Sample:
    """`pin` is where the lab's network namespace is held."""
    inside = os.stat(pin).st_ino
    found: dict[str, Usage] = {}
    for entry in Path("/proc").iterdir():
        # it ends while we look, or is a kernel's thread
        with suppress(OSError, StopIteration):
            if entry.name.isdigit() and os.stat(entry / "ns/net").st_ino == inside:
                command = (entry / "cmdline").read_bytes()
                name = _name(command)
                found[name] = found.get(name, Usage()) + _usage(entry, server=_GUEST.search(command) is not None)
    files, stored = _stored(folders)
    return Sample(at, found, files, stored)


def _name(command: bytes) -> str:
    if guest := _GUEST.search(command):
        return guest[1].decode()
    return next((name for words, name in _NAMES if words in command), command.partition(b"\0")[0].decode() or "?")


def _usage(entry: Path, *, server: bool) -> Usage:
    fields = (entry / "stat").read_text().rpartition(")")[2].split()
    rollup = (entry / "smaps_rollup").read_text().splitlines()
    sizes = {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in rollup if line.endswith(" kB")}
    return Usage(
        cpu=sum(map(int, fields[11:15])) / _TICKS,
        pss=sizes["Pss"],
        rss=sizes["Rss"],
        descriptors=len(os.listdir(entry / "fd")),
        threads=int(fields[17]),
        server=server,
    )


def _stored(folders: tuple[Path, ...]) -> tuple[int, int]:
    files = stored = 0
    for top in folders:
        for folder, _, names in os.walk(top):
            for name in names:
                with suppress(FileNotFoundError):
                    stored += Path(folder, name).lstat().st_blocks * 512
                    files += 1
    return files, stored
