"""The disk of a simulated computer: files are real, in a folder of the story; what can go wrong with a disk is done to them here.

It can be full, read-only or slow, and a power cut loses what was written in the last thirty seconds and not synced: a file
without its `fsync`, a name without that of its folder. SQLite keeps its own promises, so its files are left out.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

_READING = frozenset("rbtU")
"""What stands in the mode of a file that nobody writes to."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_SCRATCH = re.compile(r"(?<=\.)[0-9a-z_]{8}$")
"""How the name of what is not yet in its place ends, by chance."""
WRITTEN_BACK = 30.0
"""Seconds after which a kernel writes what nobody synced (`vm.dirty_expire_centisecs`)."""
KEPT = 0.4
"""The share of what was not synced that happens to be written all the same."""
_LEFT_OUT = (".db", ".db-wal", ".db-shm", ".log")


@dataclass
class FaultyDisk:
    folder: Path
    """Whose files it is about."""
    lasting: Path
    """What of it outlives a restart of the computer."""
    stall: Callable[[float], None] = lambda _: None
    refuses: int = 0
    """The errno with which every write is answered: no room, or read-only."""
    slow: float = 0.0
    """Seconds that every sync takes."""
    touched: Callable[[str, str], None] = lambda _, __: None
    """Told of everything that is about to be written: what is done, and to which file."""
    now: Callable[[], float] = lambda: 0.0
    """Seconds, by the clock that does not jump."""
    _when: dict[Path, float] | None = None
    """When each name was last written to or changed; kept where a power cut is to come."""
    _names: dict[Path, int] = field(default_factory=dict)
    """Which file each name is, by its inode, when the power fails: what the folder on the disk says."""
    _contents: dict[int, bytes] = field(default_factory=dict)
    """What is on the disk of each file, by its inode: a file keeps its content when it is given another name."""

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """While this lasts, what this process does with files of the folder goes through this disk."""
        self._within = f"{self.folder}/"
        self._open, self._os_open, self._mkdir, self._replace = io.open, os.open, os.mkdir, os.replace
        self._unlink, self._rmdir = os.unlink, os.rmdir
        with ExitStack() as swapped:
            for target, name, value in (
                (os, "fsync", self._fsync),
                (os, "open", self._opened_low),
                (os, "mkdir", self._made),
                (os, "replace", self._replaced),
                (os, "unlink", self._unlinked),
                (os, "rmdir", self._removed),
                (io, "open", self._opened),
                (builtins, "open", self._opened),
            ):
                swapped.enter_context(patch.object(target, name, value))
            yield

    # a power cut

    def expect_cut(self) -> None:
        """The power will fail one day: from now on what is not synced is at risk for `WRITTEN_BACK` seconds."""
        self._when = {}
        seen = {path: found for path in self._all() if (found := _look(path)) is not None}
        self._names = {path: inode for path, (inode, _) in seen.items()}
        self._contents = dict(seen.values())

    def expect_no_cut(self) -> None:
        self._when = None

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """What is done to files is nobody's work, and always succeeds."""
        heard, self.touched = self.touched, lambda _, __: None
        refuses, self.refuses = self.refuses, 0
        try:
            yield
        finally:
            self.touched, self.refuses = heard, refuses

    def cut(self, chance: random.Random) -> list[str]:
        """The power fails: says what was lost."""
        if self._when is None:
            return []
        lost = []
        for path in sorted({*self._names, *self._all()}, reverse=True):
            self._write_back(path)
            if path.is_dir() or not path.parent.is_dir() or chance.random() < KEPT:
                continue  # it happened to be written all the same
            there, now = self._on_disk(path), _look(path)
            if there == (now[1] if now else None):
                continue
            lost.append(f"{path.relative_to(self.lasting)} {'is gone' if there is None else 'is as it was'}")
            path.unlink(missing_ok=True) if there is None else path.write_bytes(there)
        self.expect_cut()  # another one
        return sorted(lost)

    def _on_disk(self, path: Path) -> bytes | None:
        """What is read there after the power cut; None when there is no such name."""
        inode = self._names.get(path)
        return None if inode is None else self._contents.get(inode, b"")

    def _write_back(self, path: Path) -> None:
        """What nobody has changed for a while is on the disk by now, as it is, without being synced."""
        if self._when is None or self.now() - self._when.get(path, -WRITTEN_BACK) < WRITTEN_BACK:
            return
        if (found := _look(path)) is None:
            self._names.pop(path, None)
        else:
            self._names[path] = found[0]
            self._contents[found[0]] = found[1]

    def _changes(self, path: Path) -> None:
        """This name is about to be written to, or to become another file's, or nobody's."""
        if self._when is not None and self._lasts(path):
            self._write_back(path)
            self._when[path] = self.now()

    def _lasts(self, path: Path) -> bool:
        return path.suffix not in _LEFT_OUT and path.is_relative_to(self.lasting) and not path.is_symlink()

    def _keep_names(self, folder: Path) -> None:
        """The folder was synced: its names are on the disk as they are now, whatever is in the files."""
        there = {path: path.stat().st_ino for path in folder.iterdir() if self._lasts(path) and path.is_file()}
        for path in [path for path in self._names if path.parent == folder]:
            del self._names[path]
        self._names |= there

    def _all(self) -> Iterator[Path]:
        for path in self.lasting.rglob("*"):
            if not path.is_symlink() and path.is_file() and path.suffix not in _LEFT_OUT:
                yield path

    # what programs do

    def _touch(self, method: str, path: Any) -> None:
        said = path if isinstance(path, str) else str(path) if isinstance(path, Path) else ""
        if said.startswith(self._within):
            name = said[len(self._within) :]
            if not name.endswith(_LEFT_OUT) and not name.startswith("cache"):
                self.touched(method, _SCRATCH.sub("", name))
            if self.refuses:
                raise OSError(self.refuses, os.strerror(self.refuses), str(path))
            if self._when is not None and method in ("write", "replace", "unlink"):
                self._changes(Path(path))

    def _fsync(self, handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")
        self._touch("sync", path)
        if self.slow:
            self.stall(self.slow)
        if self._when is None:
            return
        if os.path.isdir(path):
            self._keep_names(Path(path))
        else:
            self._contents[os.fstat(handle).st_ino] = Path(path).read_bytes()

    def _opened(self, file: Any, mode: str = "r", *more: Any, **rest: Any) -> Any:
        if not _READING.issuperset(mode):
            self._touch("write", file)
        return self._open(file, mode, *more, **rest)

    def _opened_low(self, path: Any, flags: int, *more: Any, **rest: Any) -> int:
        if flags & _WRITING:
            self._touch("write", path)
        return self._os_open(path, flags, *more, **rest)

    def _made(self, path: Any, *more: Any, **rest: Any) -> None:
        self._touch("mkdir", path)
        self._mkdir(path, *more, **rest)

    def _unlinked(self, path: Any, **rest: Any) -> None:
        self._touch("unlink", path)
        self._unlink(path, **rest)

    def _removed(self, path: Any, **rest: Any) -> None:
        self._touch("rmdir", path)
        self._rmdir(path, **rest)

    def _replaced(self, source: Any, target: Any, **rest: Any) -> None:
        self._touch("replace", target)
        self._changes(Path(source))
        self._replace(source, target, **rest)


NO_ROOM, READ_ONLY = errno.ENOSPC, errno.EROFS


def _look(path: Path) -> tuple[int, bytes] | None:
    try:
        return path.stat().st_ino, path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
