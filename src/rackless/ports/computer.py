"""The Linux computer a lab runs on: memory, disk, KVM, kernel. Read only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rackless.ports.fabric import Impairment


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes."""

    total: int
    available: int


@dataclass(frozen=True, slots=True)
class OperatingSystem:
    name: str
    """Of the distribution, for people."""
    architecture: str


class Computer(Protocol):
    def root(self) -> bool:
        """Whether we may do everything here."""
        ...

    def system(self) -> OperatingSystem: ...

    def has_program(self, name: str) -> bool: ...

    def has_module(self, name: str) -> bool:
        """Whether Python finds it, in our own environment or in the system's."""
        ...

    def has_file(self, path: Path) -> bool: ...

    def may_use(self, device: Path) -> bool:
        """Whether it is there, and we may read and write it."""
        ...

    def virtualises(self) -> bool:
        """Whether the processor has virtualisation (VMX or SVM)."""
        ...

    def firmware(self, *, secure: bool) -> str | None:
        """Where the UEFI firmware for servers is, the plain one or the one with secure boot; None when it is not there."""
        ...

    def boot_id(self) -> str:
        """Another one after every start of the computer."""
        ...

    def kernel_log(self) -> Path:
        """The kernel's log (/dev/kmsg), for what must be told when every other log is gone."""
        ...

    def memory(self) -> Memory: ...

    def cpus(self) -> int: ...

    def free_bytes(self, folder: Path) -> int:
        """Room on the disk of a folder that need not exist yet."""
        ...

    def fsync_seconds(self, folder: Path) -> float | None:
        """The slowest but one of forty small writes with a sync, as etcd makes them; None where that cannot be tried."""
        ...

    def kvm_open(self) -> bool:
        """Whether every user, not only root, may open /dev/kvm."""
        ...

    def can_tag(self) -> bool:
        """Whether the kernel knows VLANs."""
        ...

    def can_impair(self, wanted: Impairment) -> bool:
        """Whether the kernel can make a link as slow and lossy as that."""
        ...
