"""A small tree out of a large one: chosen files, what their links point to, and the libraries they need.

Files are hard-linked, not copied: both trees are scratch, and nothing is written through them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rackless.errors import RacklessError
from rackless.images import elf

_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/systemd", "usr/lib/systemd", "usr/lib")
_PROGRAMS = ("usr/bin", "usr/sbin")


@dataclass
class PackageSelection:
    source: Path
    target: Path
    _taken: set[Path] = field(default_factory=set)
    _libraries: set[str] = field(default_factory=set)

    def take(self, name: str) -> None:
        """One file or link, by its path inside the tree; with everything it needs."""
        path = self.source / name
        if not os.path.lexists(path):
            raise RacklessError(f"the unpacked packages have no {name}", why="the image cannot do without it")
        self._take(path)

    def take_program(self, name: str) -> None:
        for folder in _PROGRAMS:
            if os.path.lexists(self.source / folder / name):
                return self.take(f"{folder}/{name}")
        raise RacklessError(f"the unpacked packages have no program {name}", why="the image cannot do without it")

    def take_tree(self, name: str, wanted: Callable[[str], bool]) -> None:
        """The files under a folder whose path below it is `wanted`; folders that are not wanted are not entered."""
        top = self.source / name
        for folder, folders, files in os.walk(top):
            below = os.path.relpath(folder, top)
            folders[:] = [one for one in folders if wanted(os.path.normpath(f"{below}/{one}") + "/")]
            for file in files:
                if wanted(os.path.normpath(f"{below}/{file}")):
                    self._take(Path(folder, file))

    def take_libraries_of(self, files: Iterable[Path]) -> None:
        """The libraries that files from elsewhere need. A library that is not here must be beside its user."""
        for file in files:
            for library in elf.needed(file):
                self._take_library(library, required=False)

    def _take(self, path: Path) -> None:
        path = self._inside(path.parent) / path.name
        if path in self._taken:
            return
        self._taken.add(path)
        place = self.target / path.relative_to(self.source)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            link = os.readlink(path)
            pointed = self.source / link.lstrip("/") if link.startswith("/") else path.parent / link
            if os.path.lexists(pointed) and not pointed.is_dir():
                place.symlink_to(link)
                self._take(pointed)
            return
        os.link(path, place)
        for library in elf.needed(path):
            self._take_library(library, required=True)

    def _take_library(self, name: str, *, required: bool) -> None:
        if name in self._libraries:
            return
        self._libraries.add(name)
        for folder in _LIBRARIES:
            if os.path.lexists(self.source / folder / name):
                self._take(self.source / folder / name)
                return
        # The loader itself is named as a library by libc.
        if required and not name.startswith("ld-linux"):
            raise RacklessError(f"the unpacked packages have no library {name}", why="a program in the image needs it")

    def _inside(self, folder: Path) -> Path:
        """The folder with links resolved, which all stay inside the tree (/lib is usr/lib)."""
        resolved = folder.resolve()
        return resolved if resolved.is_relative_to(self.source) else folder
