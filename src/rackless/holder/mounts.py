"""The mounts of a lab's mount namespace: what its processes see of the file system.

Mounts go from the hypervisor into the lab (slave) and never back. `/run` and the three folders of `/var` that libvirt writes to are
the lab's own, which also hides the hypervisor's D-Bus, resolver and libvirt; in them only rackless's own folders are kept. All
content lies in ordinary directories of the hypervisor, so a new mount namespace with the same mounts takes over the servers that
still run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from rackless.lab.accounts import KVM
from rackless.lab.servers import PASSAGE
from rackless.ports.mounts import Mounts
from rackless.run.files import write
from rackless.run.paths import LabPaths

NSSWITCH = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"

ACCOUNTS = {
    Path("/etc/passwd"): "libvirt-qemu:x:64055:64055:Libvirt Qemu,,,:/var/lib/libvirt:/usr/sbin/nologin\n",
    Path("/etc/group"): "libvirt-qemu:x:64055:\n",
}
"""Debian's libvirtd wants this account to exist, even when told to use another; so it is in the lab's own passwd, and not made on
the hypervisor."""


def ensure_mounts(mounts: Mounts, paths: LabPaths, gateway: str, domain: str, shown: Mapping[Path, Path]) -> None:
    """Make the lab's mounts in the mount namespace of this process; `shown` are folders that QEMU sees."""
    mounts.keep_inside()
    resolver = f"search {domain}\nnameserver {gateway}\n"
    _replace_file(mounts, paths, Path("/etc/resolv.conf"), resolver)
    _replace_file(mounts, paths, Path("/etc/nsswitch.conf"), NSSWITCH)
    for table, line in ACCOUNTS.items():
        _replace_file(mounts, paths, table, _with_account(mounts.read(table), line))
    for target, private in _private_folders(paths):
        private.mkdir(parents=True, exist_ok=True)
        for kept in (paths.roots.state, paths.roots.cache, paths.run):
            if kept.is_relative_to(target):
                mounts.bind(kept, private / kept.relative_to(target))
        mounts.bind(private, target, tree=True)
    for source, target in _bound_folders(paths):
        mounts.bind(source, target)
    for source, target in shown.items():
        source.mkdir(parents=True, exist_ok=True)
        source.chmod(PASSAGE)
        mounts.bind(source, target)
    try:
        # on most computers only root and a group may open it, and servers run as neither
        mounts.open_device(KVM, paths.run / "dev")
    except OSError as error:
        sys.stderr.write(f"{KVM} stays closed to servers' users: {error}\n")
    mounts.mount_sysfs(Path("/sys"))
    mounts.work_in(paths.state)


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


def _replace_file(mounts: Mounts, paths: LabPaths, target: Path, content: str) -> None:
    """Put a file of the lab in the place of one of the hypervisor's."""
    real = mounts.resolve(target)
    if real.is_relative_to("/run"):  # a link into /run, which the lab's own /run hides: have it lead to a file there
        write(paths.inner_run / real.relative_to("/run"), content)
    elif mounts.exists(real):
        source = paths.etc / target.name
        write(source, content)
        mounts.bind(source, real)
