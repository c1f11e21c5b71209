"""`rackless doctor`: what this computer has for a lab and what it lacks, each with the command that fixes it. Changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rackless.events import Bus
from rackless.lab.acceleration import DEVICE, remembered_kvm
from rackless.lab.capacity import observe_capacity
from rackless.operations import images as image_operations
from rackless.operations import orphans, uplink
from rackless.operations.prepare import PACKAGES, missing_packages
from rackless.plan.budget import SLOW_FSYNC
from rackless.ports.computer import Computer
from rackless.ports.drivers import Drivers
from rackless.ports.fabric import Impairment
from rackless.run.paths import LabPaths, Roots
from rackless.spec.lab import GIB

END_ORPHANS = "rackless destroy --orphans"
TINY = 5 * GIB
"""Memory for the default lab with its daemons."""


@dataclass(frozen=True, slots=True)
class Check:
    about: str
    verdict: Literal["ok", "warning", "missing"]
    saw: str
    fix: str = ""


async def examine(roots: Roots, drivers: Drivers) -> list[Check]:
    computer = drivers.computer
    return [
        _root(computer),
        _system(computer),
        _python(computer),
        await _packages(drivers),
        *_firmware(computer),
        _kvm(roots, computer),
        *_machine(roots, computer),
        *_kernel(computer),
        await _cache(roots, drivers),
        *_leftovers(roots),
        *await _uplinks(roots, drivers),
        *await _orphans(roots, drivers),
    ]


def _root(computer: Computer) -> Check:
    if computer.root():
        return Check("root", "ok", "running as root")
    sudo = computer.has_program("sudo")
    saw = "not root; making a lab needs it" + ("" if sudo else ", and sudo is not installed")
    return Check("root", "warning" if sudo else "missing", saw, "sudo rackless doctor" if sudo else "become root")


def _system(computer: Computer) -> Check:
    system = computer.system()
    if system.architecture != "x86_64":
        return Check("system", "missing", f"{system.name} on {system.architecture}", "use an x86_64 computer")
    if not computer.has_program("apt-get"):
        saw = f"{system.name}, without apt, which brings the packages and builds the images"
        return Check("system", "missing", saw, "use a Debian or Ubuntu computer")
    return Check("system", "ok", f"{system.name}, {system.architecture}")


def _python(computer: Computer) -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if computer.has_module("libvirt"):
        return Check("python", "ok", f"{version}, with libvirt's binding")
    fix = "apt-get install python3-libvirt, which is for the system's own Python"
    return Check("python", "warning", f"{version}, without libvirt's binding", fix)


async def _packages(drivers: Drivers) -> Check:
    if not drivers.packages.known():
        return Check("packages", "warning", "no dpkg here: not looked at")
    missing = await missing_packages(PACKAGES, drivers.packages, drivers.computer)
    if not missing:
        return Check("packages", "ok", f"all {len(PACKAGES)} are installed")
    command = f"apt-get install --no-install-recommends {' '.join(missing)}"
    return Check("packages", "warning", f"{len(missing)} missing; `rackless up` installs them", command)


def _firmware(computer: Computer) -> Iterator[Check]:
    for about, secure in (("UEFI firmware", False), ("secure boot firmware", True)):
        if found := computer.firmware(secure=secure):
            yield Check(about, "ok", found)
        else:
            yield Check(about, "warning", "not found where distributions keep it", "apt-get install ovmf")


def _kvm(roots: Roots, computer: Computer) -> Check:
    known = remembered_kvm(roots.cache, computer)
    if known is not None:
        works, says = known
        return Check("acceleration", "ok" if works else "warning", f"{says} (a guest was booted to know)")
    if not computer.has_file(DEVICE):
        fix = (
            "modprobe kvm_intel || modprobe kvm_amd"
            if computer.virtualises()
            else "allow nested virtualisation, or use another computer"
        )
        return Check("acceleration", "warning", "no /dev/kvm: servers are emulated, about ten times slower", fix)
    return Check("acceleration", "warning", "/dev/kvm is there; whether it runs a guest is not known yet",
                 "rackless prepare  (boots a tiny guest to know)")  # fmt: skip


def _machine(roots: Roots, computer: Computer) -> Iterator[Check]:
    seen = observe_capacity(computer, roots.state, syncs=True)
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
        if slow:
            words += "; servers wait for it with disk.cache: safe only"
        yield Check("disk speed", "ok", words)


def _kernel(computer: Computer) -> Iterator[Check]:
    for name, path in (("network namespaces", "/proc/self/ns/net"), ("mount namespaces", "/proc/self/ns/mnt")):
        there = computer.has_file(Path(path))
        yield Check(name, "ok" if there else "missing", "there" if there else "not in this kernel")
    if computer.root():  # tried in a namespace that is gone afterwards
        tags = computer.can_tag()
        saw = "there" if tags else "not in this kernel; only networks with a `vlan` need them"
        yield Check("VLANs", "ok" if tags else "warning", saw, "" if tags else "modprobe 8021q")
        kinds = {"rate": (Impairment(rate_bits=10**6), "sch_tbf"), "delay and loss": (Impairment(1, 1.0), "sch_netem")}
        lacking = {what: module for what, (wanted, module) in kinds.items() if not computer.can_impair(wanted)}
        saw = f"no {' and no '.join(lacking)} in this kernel; only labs with `networks.cluster.link` need them"
        fix = " ".join(["modprobe -a", *lacking.values()]) if lacking else ""
        yield Check("slow links", "warning" if lacking else "ok", saw if lacking else "there", fix)


async def _cache(roots: Roots, drivers: Drivers) -> Check:
    if not roots.cache.exists():
        return Check("images", "ok", "none yet")
    unused = (await image_operations.prune(roots, Bus(), drivers, dry_run=True))["bytes"]
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


async def _uplinks(roots: Roots, drivers: Drivers) -> list[Check]:
    if not drivers.computer.has_program("ip"):
        return []
    closed = {name: await uplink.closed_ways(LabPaths(roots, name), drivers) for name in roots.labs()}
    return [
        Check(
            "uplink",
            "warning",
            f"of {name}: no reply comes back through {', '.join(ways)}",
            f"rackless up --name {name}",
        )
        for name, ways in closed.items()
        if ways
    ]


async def _orphans(roots: Roots, drivers: Drivers) -> list[Check]:
    """Labs that cannot be destroyed by name any more, and nftables tables of uplinks whose link is gone."""
    found = [
        Check("orphan", "warning", f"the lab {one.name} runs on, {len(one.pids)} processes: {one.why}", END_ORPHANS)
        for one in await orphans.find_orphans(roots, drivers)
    ]
    if tables := await orphans.lost_tables(drivers):
        found.append(Check("uplinks", "warning", f"rules of uplinks that are gone: {', '.join(tables)}", END_ORPHANS))
    return found
