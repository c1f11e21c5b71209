"""Mounts in memory: `ports.mounts.Mounts`. A bind mount is only noted; nothing is made at the computer's own paths."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

ETC = {
    Path("/etc/resolv.conf"): "nameserver 203.0.113.1\n",
    Path("/etc/nsswitch.conf"): "hosts: files resolve dns\n",
    Path("/etc/passwd"): "root:x:0:0:root:/root:/bin/bash\n",
    Path("/etc/group"): "root:x:0:\n",
}


@dataclass
class FakeMounts:
    files: dict[Path, str] = field(default_factory=lambda: dict(ETC))
    """Files of the computer."""
    links: dict[Path, Path] = field(default_factory=dict)
    """The targets of those files that are links."""
    closed: set[Path] = field(default_factory=set)
    """Devices that not everybody may open …"""
    forbidden: bool = False
    """… and whether making devices is forbidden."""
    bound: list[tuple[Path, Path]] = field(default_factory=list)
    """Source and target of every bind mount, in the order in which they were mounted."""
    trees: set[Path] = field(default_factory=set)
    """Targets of recursive bind mounts, which also show what is mounted below their source."""
    inside: bool = False
    sysfs: set[Path] = field(default_factory=set)
    opened: set[Path] = field(default_factory=set)
    folder: Path | None = None

    def keep_inside(self) -> None:
        self.inside = True

    def resolve(self, path: Path) -> Path:
        return self.links.get(path, path)

    def exists(self, path: Path) -> bool:
        source = self._source(path)
        return source in self.files or (not source.is_relative_to("/etc") and source.exists())

    def read(self, file: Path) -> str:
        source = self._source(file)
        return self.files[source] if source in self.files else source.read_text()

    def bind(self, source: Path, target: Path, *, tree: bool = False) -> None:
        if source.is_file():
            if not self.exists(target):
                raise FileNotFoundError(target)
        else:
            source.mkdir(parents=True, exist_ok=True)
        self.bound.append((source, target))
        if tree:
            self.trees.add(target)

    def mount_sysfs(self, target: Path) -> None:
        self.sysfs.add(target)

    def open_device(self, device: Path, scratch: Path) -> None:
        if device in self.closed:
            if self.forbidden:
                raise PermissionError(f"{device}: making devices is forbidden")
            self.closed.discard(device)
            self.opened.add(device)

    def work_in(self, folder: Path) -> None:
        if folder.exists():
            self.folder = folder

    def _source(self, path: Path, before: int | None = None) -> Path:
        """The path that is shown at `path`: by the last mount there or above it; below a recursive one, by the mounts that were
        in it then."""
        for place, (source, target) in reversed(list(enumerate(self.bound[:before]))):
            if path.is_relative_to(target):
                shown = source / path.relative_to(target)
                return self._source(shown, place) if target in self.trees else shown
        return path
