"""Paths of servers' files as QEMU sees them, which differ from those labd sees.

A server's QEMU runs as a user of its own and opens its files by their paths. The folders above a lab's may be closed to it (a
home, say), so the lab mounts what its servers need where everybody gets to. Definitions have those paths; nobody else does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rackless.ports.hypervisor import Server


class LibvirtPlaces:
    def __init__(self, mounts: Mapping[Path, Path] | None = None) -> None:
        """`mounts` leads from each folder as we see it to the one QEMU sees."""
        self._inside = dict(mounts or {})
        self._outside = {theirs: ours for ours, theirs in self._inside.items()}

    def inside(self, path: Path) -> Path:
        return _moved(path, self._inside)

    def outside(self, path: Path) -> Path:
        return _moved(path, self._outside)

    def of(self, server: Server) -> Server:
        """The server with its files as QEMU sees them; the console's log is opened by libvirtd."""
        return replace(
            server,
            disks=tuple(replace(disk, path=self.inside(disk.path)) for disk in server.disks),
            nvram=self.inside(server.nvram),
            ignition=self.inside(server.ignition) if server.ignition is not None else None,
        )


def _moved(path: Path, folders: Mapping[Path, Path]) -> Path:
    folder = folders.get(path.parent)
    return path if folder is None else folder / path.name
