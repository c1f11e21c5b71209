"""The kernel's namespaces and mounts, by system call: what Python 3.11's `os` does not have. `drivers.lab_namespaces` serves the
port with it.

Used by the holder, which must stay small, and by `destroy` and `doctor` to find the processes in a lab's network namespace.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

CLONE_FS = 0x00000200
CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
MS_RDONLY = 1
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19
MNT_DETACH = 2

T = TypeVar("T")
_ESCAPED = re.compile(r"\\([0-7]{3})")
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
    yield from (pid for pid, network in networks_of_all() if network == wanted)


def networks_of_all() -> Iterator[tuple[int, tuple[int, int]]]:
    """Every process that we may look at, with the network namespace it lives in."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (network := network_id(entry / "ns" / "net")) is not None:
            yield int(entry.name), network


def pins() -> Iterator[Path]:
    """The files at which namespaces are mounted, as our mount namespace has them."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as table:
        for line in table.readlines():
            fields, _, kind = line.partition(" - ")
            if kind.startswith("nsfs "):
                yield Path(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields.split(" ")[4]))


def command(pid: int) -> str:
    """Its command line, for people; empty when it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


class ThreadRoom:
    """A second network namespace beside the one we are in, kept by a thread that lives there.

    The thread opens sockets and sets up links in it for us. It needs no pin: when our process ends, the namespace is
    gone, and whoever comes after us makes a new one. One that `stays` is no new one: its thread is where we are now, and stays
    there when we go elsewhere, because the kernel moves one thread at a time.
    """

    def __init__(self, name: str, *, stays: bool = False) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._native = self._thread.submit(_stay if stays else _move).result()

    @property
    def path(self) -> Path:
        """The namespace as a file, for those who enter it or move links into it."""
        return Path(f"/proc/{os.getpid()}/task/{self._native}/ns/net")

    def call(self, work: Callable[[], T]) -> T:
        """Do something in there and wait for it."""
        return self._thread.submit(work).result()

    async def acall(self, work: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._thread.submit(work))

    def close(self) -> None:
        self._thread.shutdown(wait=True)


def _stay() -> int:
    """With a working folder of its own, so that it keeps none of the hypervisor's folders busy."""
    unshare(CLONE_FS)
    os.chdir("/")
    return threading.get_native_id()


def _move() -> int:
    unshare(CLONE_NEWNET)
    return threading.get_native_id()
