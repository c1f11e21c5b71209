"""What this machine can do for a lab and what it lacks, each with the command that mends it. Looks only, changes nothing."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rackless.daemon import image_operations
from rackless.daemon.prepare import PACKAGES, missing_packages
from rackless.drivers.libvirt.firmware_xml import OVMF, OVMF_SECURE
from rackless.drivers.netlink.links import can_tag
from rackless.events import Bus
from rackless.lab.acceleration import remembered_kvm
from rackless.lab.machine import observe_machine
from rackless.plan.budget import SLOW_FSYNC
from rackless.run.paths import Roots
from rackless.spec.lab import GIB

TINY = 5 * GIB
"""Memory for the default lab with its daemons."""


@dataclass(frozen=True, slots=True)
class Check:
    about: str
    verdict: Literal["ok", "warning", "missing"]
    saw: str
    fix: str = ""


async def examine(roots: Roots) -> list[Check]:
    return [
        _root(),
        _system(),
        _python(),
        await _packages(),
        *_firmware(),
        _kvm(roots),
        *_machine(roots),
        *_kernel(),
        await _cache(roots),
        *_leftovers(roots),
    ]


def _root() -> Check:
    if os.geteuid() == 0:
        return Check("root", "ok", "running as root")
    sudo = shutil.which("sudo")
    saw = "not root; making a lab needs it" + ("" if sudo else ", and sudo is not installed")
    return Check("root", "warning" if sudo else "missing", saw, "sudo rackless doctor" if sudo else "become root")


def _system() -> Check:
    release = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    name = release.get("PRETTY_NAME", platform.system())
    machine = platform.machine()
    if machine != "x86_64":
        return Check("system", "missing", f"{name} on {machine}", "use an x86_64 machine")
    if shutil.which("apt-get") is None:
        saw = f"{name}, without apt, which brings the packages and builds the images"
        return Check("system", "missing", saw, "use a Debian or Ubuntu machine")
    return Check("system", "ok", f"{name}, {machine}")


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    there = importlib.util.find_spec("libvirt") or any(
        Path(place, "libvirt.py").exists() for place in ("/usr/lib/python3/dist-packages",)
    )
    if there:
        return Check("python", "ok", f"{version}, with libvirt's binding")
    return Check("python", "warning", f"{version}, without libvirt's binding", "apt-get install python3-libvirt")


async def _packages() -> Check:
    if shutil.which("dpkg-query") is None:
        return Check("packages", "warning", "no dpkg here: not looked at")
    missing = await missing_packages(PACKAGES)
    if not missing:
        return Check("packages", "ok", f"all {len(PACKAGES)} are installed")
    command = f"apt-get install --no-install-recommends {' '.join(missing)}"
    return Check("packages", "warning", f"{len(missing)} missing; `rackless up` installs them", command)


def _firmware() -> Iterator[Check]:
    for about, places in (("UEFI firmware", OVMF), ("secure boot firmware", OVMF_SECURE)):
        found = next((code for code, vars in places if Path(code).exists() and Path(vars).exists()), None)
        if found:
            yield Check(about, "ok", found)
        else:
            yield Check(about, "warning", "not found where distributions keep it", "apt-get install ovmf")


def _kvm(roots: Roots) -> Check:
    known = remembered_kvm(roots.cache)
    if known is not None:
        works, says = known
        return Check("acceleration", "ok" if works else "warning", f"{says} (a guest was booted to know)")
    if not Path("/dev/kvm").exists():
        flags = Path("/proc/cpuinfo").read_text()
        capable = " vmx" in flags or " svm" in flags
        fix = (
            "modprobe kvm_intel || modprobe kvm_amd"
            if capable
            else "allow nested virtualisation, or use another machine"
        )
        return Check("acceleration", "warning", "no /dev/kvm: servers are emulated, about ten times slower", fix)
    return Check("acceleration", "warning", "/dev/kvm is there; whether it runs a guest is not known yet",
                 "rackless prepare  (boots a tiny guest to know)")  # fmt: skip


def _machine(roots: Roots) -> Iterator[Check]:
    seen = observe_machine(roots.state, syncs=True)
    enough = seen.memory >= TINY
    yield Check(
        "memory",
        "ok" if enough else "warning",
        f"{seen.memory / GIB:.1f} GiB, {seen.available / GIB:.1f} GiB available",
        "" if enough else "use fewer or smaller servers: `rackless init` writes a lab that fits",
    )
    yield Check("cpus", "ok" if seen.cpus >= 2 else "warning", f"{seen.cpus}")
    space = seen.free_disk >= 12 * GIB
    yield Check(
        "disk space",
        "ok" if space else "warning",
        f"{seen.free_disk / GIB:.1f} GiB free under {roots.state}",
        "" if space else "free some, or move it: RACKLESS_STATE=FOLDER, or storage: in lab.yaml",
    )
    if seen.fsync is not None:
        slow = seen.fsync > SLOW_FSYNC
        words = f"a sync takes {seen.fsync * 1000:.1f} ms; etcd wants {SLOW_FSYNC * 1000:.0f} ms"
        yield Check(
            "disk speed", "warning" if slow else "ok", words, "use faster storage, or bear elections" if slow else ""
        )


def _kernel() -> Iterator[Check]:
    for name, path in (("network namespaces", "/proc/self/ns/net"), ("mount namespaces", "/proc/self/ns/mnt")):
        there = Path(path).exists()
        yield Check(name, "ok" if there else "missing", "there" if there else "not in this kernel")
    if os.geteuid() == 0:  # tried in a namespace that is gone afterwards
        tags = can_tag()
        saw = "there" if tags else "not in this kernel; only networks with a `vlan` need them"
        yield Check("VLANs", "ok" if tags else "warning", saw, "" if tags else "modprobe 8021q")


async def _cache(roots: Roots) -> Check:
    if not roots.cache.exists():
        return Check("images", "ok", "none yet")
    unused = (await image_operations.prune(roots, Bus(), dry_run=True))["bytes"]
    saw = f"kept in {roots.cache}"
    if unused < GIB:
        return Check("images", "ok", saw)
    return Check("images", "warning", f"{saw}; no lab needs {unused / GIB:.1f} GiB of them", "rackless images prune")


def _leftovers(roots: Roots) -> Iterator[Check]:
    labs = roots.labs()
    yield Check("labs", "ok", ", ".join(labs) or "none yet")
    strays = sorted(
        path.name for path in roots.state.glob("*") if path.is_dir() and path.name not in labs
    ) if roots.state.exists() else []  # fmt: skip
    if strays:
        yield Check("leftovers", "warning", f"folders without a ledger in {roots.state}: {', '.join(strays)}",
                    "look at them, and remove them by hand")  # fmt: skip
