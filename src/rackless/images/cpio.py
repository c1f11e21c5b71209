"""Writes the kernel's initramfs format (cpio "newc") from a folder, in pure Python.

Everything belongs to root and has no time, so the same tree gives the same bytes.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

_DEVICE_NODES = (
    # The kernel opens /dev/console for init before anything is mounted.
    ("dev/console", stat.S_IFCHR | 0o600, (5, 1)),
    ("dev/null", stat.S_IFCHR | 0o666, (1, 3)),
)


class Archive:
    """One cpio archive being written."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._written = 0
        self._inode = 0

    def add(self, name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        self._inode += 1
        encoded = name.encode() + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
        self._write(b"070701" + b"".join(b"%08x" % field for field in fields) + encoded)
        self._write(data)

    def add_tree(self, root: Path) -> None:
        """Everything under `root`, parents first, in order of name. Special files are left out."""
        for folder, folders, files in os.walk(root):
            folders.sort()
            for name in sorted(folders + files):
                path = Path(folder, name)
                mode = path.lstat().st_mode
                relative = str(path.relative_to(root))
                if stat.S_ISLNK(mode):
                    self.add(relative, mode, os.readlink(path).encode())
                elif stat.S_ISDIR(mode):
                    self.add(relative, mode)
                elif stat.S_ISREG(mode):
                    self.add(relative, mode, path.read_bytes())

    def add_device_nodes(self) -> None:
        for name, mode, device in _DEVICE_NODES:
            self.add(name, mode, device=device)

    def finish(self) -> None:
        self.add("TRAILER!!!", 0)
        self._sink.write(b"\0" * (-self._written % 512))

    def _write(self, data: bytes) -> None:
        padding = -len(data) % 4
        self._sink.write(data + b"\0" * padding if padding else data)
        self._written += len(data) + padding


def write(root: Path, target: Path) -> None:
    """An initramfs of `root`."""
    with target.open("wb") as sink:
        archive = Archive(sink)
        archive.add_tree(root)
        archive.add_device_nodes()
        archive.finish()
