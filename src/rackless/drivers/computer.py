"""`ports.computer.Computer`: this one."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import platform
import shutil
import stat
import time
from pathlib import Path

from rackless.ports.computer import Memory, OperatingSystem
from rackless.ports.fabric import Impairment

KVM = Path("/dev/kvm")
_SYSTEM_MODULES = "/usr/lib/python3/dist-packages"
_COMPILED = {"libvirt": ("libvirtmod",)}
"""Modules that come with another one and are compiled for one version of Python."""
_SYNCS = 40
_LONGEST = 0.3
"""Seconds after which measuring fsync stops: a slow disk has shown itself by then."""
_BLOCK = b"\0" * 2300
"""About what etcd writes for one entry of its log."""


class LinuxComputer:
    def root(self) -> bool:
        return os.geteuid() == 0

    def system(self) -> OperatingSystem:
        try:
            release = platform.freedesktop_os_release()
        except OSError:
            release = {}
        return OperatingSystem(release.get("PRETTY_NAME", platform.system()), platform.machine())

    def has_program(self, name: str) -> bool:
        return shutil.which(name) is not None

    def has_module(self, name: str) -> bool:
        """In this environment, or in the system's folder and for this version of Python."""
        if importlib.util.find_spec(name) is not None:
            return True
        parts = (name, *_COMPILED.get(name, ()))
        return all(importlib.machinery.PathFinder.find_spec(part, [_SYSTEM_MODULES]) is not None for part in parts)

    def has_file(self, path: Path) -> bool:
        return path.exists()

    def may_use(self, device: Path) -> bool:
        return os.access(device, os.R_OK | os.W_OK)

    def virtualises(self) -> bool:
        flags = Path("/proc/cpuinfo").read_text()
        return " vmx" in flags or " svm" in flags

    def firmware(self, *, secure: bool) -> str | None:
        from rackless.drivers.libvirt.firmware_xml import OVMF, OVMF_SECURE  # late: few ask

        places = OVMF_SECURE if secure else OVMF
        return next((code for code, vars in places if Path(code).exists() and Path(vars).exists()), None)

    def boot_id(self) -> str:
        return Path("/proc/sys/kernel/random/boot_id").read_text()

    def kernel_log(self) -> Path:
        return Path("/dev/kmsg")

    def memory(self) -> Memory:
        found = {}
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            found[name] = int(rest.split()[0]) * 1024
        return Memory(found["MemTotal"], found["MemAvailable"])

    def cpus(self) -> int:
        return len(os.sched_getaffinity(0))

    def free_bytes(self, folder: Path) -> int:
        space = os.statvfs(_existing(folder))
        return space.f_bavail * space.f_frsize

    def fsync_seconds(self, folder: Path) -> float | None:
        """The file has no name and leaves nothing. None where we may not write, or the file system has no such files."""
        try:
            handle = os.open(_existing(folder), os.O_TMPFILE | os.O_RDWR, 0o600)
        except OSError:
            return None
        times: list[float] = []
        try:
            while len(times) < _SYNCS and sum(times) < _LONGEST:
                os.write(handle, _BLOCK)
                started = time.perf_counter()
                os.fdatasync(handle)
                times.append(time.perf_counter() - started)
        finally:
            os.close(handle)
        return sorted(times)[-2 if len(times) == _SYNCS else -1]

    def kvm_open(self) -> bool:
        wanted = stat.S_IROTH | stat.S_IWOTH
        return KVM.exists() and KVM.stat().st_mode & wanted == wanted

    def can_tag(self) -> bool:
        from rackless.drivers.netlink.links import (
            can_tag,  # late: netlink takes its time to load, and few labs want tags
        )

        return can_tag()

    def can_impair(self, wanted: Impairment) -> bool:
        from rackless.drivers.netlink.impairment import can_impair

        return can_impair(wanted)


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())
