"""`ports.mounts.Mounts` of this kernel, in the mount namespace that this process has."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from rackless.drivers import namespaces as ns


class LinuxMounts:
    def keep_inside(self) -> None:
        ns.mount("none", "/", flags=ns.MS_REC | ns.MS_SLAVE)

    def resolve(self, path: Path) -> Path:
        return path.resolve()

    def exists(self, path: Path) -> bool:
        return path.exists()

    def read(self, file: Path) -> str:
        return file.read_text()

    def bind(self, source: Path, target: Path, *, tree: bool = False) -> None:
        if not source.is_file():
            source.mkdir(parents=True, exist_ok=True)
            target.mkdir(parents=True, exist_ok=True)
        ns.mount(source, target, flags=ns.MS_BIND | (ns.MS_REC if tree else 0))

    def mount_sysfs(self, target: Path) -> None:
        ns.mount("sysfs", target, filesystem="sysfs")

    def open_device(self, device: Path, scratch: Path) -> None:
        wanted = stat.S_IROTH | stat.S_IWOTH
        if not device.exists() or device.stat().st_mode & wanted == wanted:
            return
        scratch.mkdir()
        ns.mount("tmpfs", scratch, filesystem="tmpfs")
        try:
            node = scratch / device.name
            os.mknod(node, stat.S_IFCHR | 0o666, device.stat().st_rdev)
            node.chmod(0o666)  # whatever the umask
            os.close(os.open(node, os.O_RDONLY))
            ns.bind(node, device)
        finally:
            ns.unmount(scratch)
            scratch.rmdir()

    def work_in(self, folder: Path) -> None:
        with suppress(FileNotFoundError):
            os.chdir(folder)
