"""The kernel's namespaces and mounts, by system call: what Python 3.11's `os` does not have.

Used by the holder, which must stay small, and by whoever has to find or end what lives in a lab's network namespace.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
MS_RDONLY = 1
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19
MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def enter(namespace: Path, kind: int) -> None:
    handle = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(handle, kind), f"setns {namespace}")
    finally:
        os.close(handle)


def mount(source: str | Path, target: str | Path, *, filesystem: str = "", flags: int = 0) -> None:
    _check(
        _libc.mount(str(source).encode(), str(target).encode(), filesystem.encode() or None, flags, None),
        f"mount {source} on {target}",
    )


def bind(source: Path, target: Path) -> None:
    mount(source, target, flags=MS_BIND)


def unmount(target: Path) -> None:
    _check(_libc.umount2(str(target).encode(), MNT_DETACH), f"umount {target}")


def is_mounted(target: Path) -> bool:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as table:
        return any(line.split(" ")[4] == str(target) for line in table)


def network_id(path: Path) -> tuple[int, int] | None:
    """What identifies a network namespace: device and inode of its pin or of a process's link."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def inhabitants(pin: Path) -> Iterator[int]:
    """The processes that live in the pinned network namespace."""
    wanted = network_id(pin)
    if wanted is None or not is_mounted(pin):
        return
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and network_id(entry / "ns" / "net") == wanted:
            yield int(entry.name)
