"""A computer that has what it is told to have: `ports.computer.Computer`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rackless.ports.computer import Memory, OperatingSystem
from rackless.ports.fabric import Impairment

GIB = 1 << 30


@dataclass
class FakeComputer:
    bytes_of_memory: int = 64 * GIB
    bytes_free: int = 500 * GIB
    processors: int = 16
    starts: int = 1
    """How often it was started."""
    sync_seconds: float | None = 0.001
    tags: bool = True
    queues: frozenset[str] = frozenset({"tbf", "netem"})
    """The queueing disciplines of its kernel, which make links slow and lossy."""
    is_root: bool = True
    lacking: set[str] = field(default_factory=set)
    """Programs and modules that are not installed."""
    absent: set[Path] = field(default_factory=lambda: {Path("/dev/kvm")})
    """Files that are not there; all others are."""
    closed: set[Path] = field(default_factory=set)
    """Devices that we may not use."""
    architecture: str = "x86_64"
    can_virtualise: bool = True
    has_firmware: bool = True

    def root(self) -> bool:
        return self.is_root

    def system(self) -> OperatingSystem:
        return OperatingSystem("Fake Linux 1", self.architecture)

    def has_program(self, name: str) -> bool:
        return name not in self.lacking

    def has_module(self, name: str) -> bool:
        return name not in self.lacking

    def has_file(self, path: Path) -> bool:
        return path not in self.absent

    def may_use(self, device: Path) -> bool:
        return self.has_file(device) and device not in self.closed

    def virtualises(self) -> bool:
        return self.can_virtualise

    def firmware(self, *, secure: bool) -> str | None:
        return "/usr/share/fake/firmware.fd" if self.has_firmware else None

    def boot_id(self) -> str:
        return f"start {self.starts}"

    def kernel_log(self) -> Path:
        return Path("/dev/null")

    def memory(self) -> Memory:
        return Memory(self.bytes_of_memory, self.bytes_of_memory)

    def cpus(self) -> int:
        return self.processors

    def free_bytes(self, folder: Path) -> int:
        return self.bytes_free

    def fsync_seconds(self, folder: Path) -> float | None:
        return self.sync_seconds

    def kvm_open(self) -> bool:
        return self.has_file(Path("/dev/kvm"))

    def can_tag(self) -> bool:
        return self.tags

    def can_impair(self, wanted: Impairment) -> bool:
        return self.queues >= ({"tbf"} if wanted.plain_rate else {"netem"})
