"""The inside of a lab's namespaces: what its processes see of the file system.

Mounts go from the host into the lab (slave) and never back. `/run` and the three folders of `/var` that libvirt writes to are the
lab's own, which also hides the host's D-Bus, resolver and libvirt; in them only rackless's own folders are kept. All content lies
in ordinary directories of the host, so a new mount namespace furnished the same way takes over the servers that still run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rackless.drivers import namespaces as ns
from rackless.run.files import write
from rackless.run.paths import LabPaths

NSSWITCH = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"

ACCOUNTS = {
    Path("/etc/passwd"): "libvirt-qemu:x:64055:64055:Libvirt Qemu,,,:/var/lib/libvirt:/usr/sbin/nologin\n",
    Path("/etc/group"): "libvirt-qemu:x:64055:\n",
}
"""Debian's libvirtd wants this account to exist, even when told to use another; on the host it is not ours to make."""


def enter_network(paths: LabPaths) -> None:
    """Go into the lab's network namespace; make and pin it when there is none."""
    if ns.is_mounted(paths.netns):
        ns.enter(paths.netns, ns.CLONE_NEWNET)
        return
    paths.netns.touch(mode=0o600)
    ns.unshare(ns.CLONE_NEWNET)
    ns.bind(Path("/proc/self/ns/net"), paths.netns)


def furnish(paths: LabPaths, gateway: str, domain: str) -> None:
    """Give this process a mount namespace of its own, furnished for the lab."""
    ns.unshare(ns.CLONE_NEWNS)
    ns.mount("none", "/", flags=ns.MS_REC | ns.MS_SLAVE)
    resolver = f"search {domain}\nnameserver {gateway}\n"
    _replace_file(paths, Path("/etc/resolv.conf"), resolver)
    _replace_file(paths, Path("/etc/nsswitch.conf"), NSSWITCH)
    for table, line in ACCOUNTS.items():
        _replace_file(paths, table, _with_account(table.read_text(), line))
    for target, private in _private_folders(paths):
        private.mkdir(parents=True, exist_ok=True)
        for kept in (paths.roots.state, paths.roots.cache, paths.run):
            if kept.is_relative_to(target):
                place = private / kept.relative_to(target)
                place.mkdir(parents=True, exist_ok=True)
                ns.bind(kept, place)
        ns.mount(private, target, flags=ns.MS_BIND | ns.MS_REC)
    for source, target in _bound_folders(paths):
        source.mkdir(parents=True, exist_ok=True)
        target.mkdir(parents=True, exist_ok=True)
        ns.bind(source, target)
    ns.mount("sysfs", "/sys", filesystem="sysfs")  # of this network namespace
    with suppress(FileNotFoundError):
        os.chdir(paths.state)


def _private_folders(paths: LabPaths) -> Iterator[tuple[Path, Path]]:
    yield Path("/run"), paths.inner_run
    for name in ("lib", "log", "cache"):
        yield Path("/var", name), paths.state / "var" / name


def _bound_folders(paths: LabPaths) -> Iterator[tuple[Path, Path]]:
    yield paths.libvirt / "etc", Path("/etc/libvirt")
    yield paths.libvirt / "lib", Path("/var/lib/libvirt")
    yield paths.logs / "libvirt", Path("/var/log/libvirt")
    yield paths.capabilities, Path("/var/cache/libvirt")


def _with_account(table: str, line: str) -> str:
    name = line.partition(":")[0]
    return table if any(known.startswith(f"{name}:") for known in table.splitlines()) else table + line


def _replace_file(paths: LabPaths, target: Path, content: str) -> None:
    """Put a file of the lab in the place of one of the host's."""
    real = target.resolve()
    if real.is_relative_to("/run"):  # a link into what the lab's own /run will hide: make it lead somewhere
        write(paths.inner_run / real.relative_to("/run"), content)
    elif real.exists():
        source = paths.etc / target.name
        write(source, content)
        ns.bind(source, real)
