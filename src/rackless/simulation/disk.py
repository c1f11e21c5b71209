"""The disk of a simulated computer: files are real, in a folder of the story; what can go wrong with a disk is done to them here.

It can be full, read-only or slow, and a power cut loses what was written in the last seconds and not synced: a file without
its `fsync`, a name without that of its folder. SQLite keeps its own promises, so its files are left out.
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

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_SCRATCH = re.compile(r"(?<=\.)[0-9a-z_]{8}$")
"""How the name of what is not yet in its place ends, by chance."""
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
    _before: dict[Path, tuple[int, bytes] | None] | None = None
    """What is on the disk for certain: inode and content by path. Kept from the moment that a power cut is near."""
    _synced: dict[int, bytes] = field(default_factory=dict)
    """What is on the disk of each file, by its inode: a file keeps its content when it is given another name."""
    _named: set[Path] = field(default_factory=set)
    """Folders whose names are on the disk as they are now, since `_before`."""

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """While this lasts, what this process does with files of the folder goes through this disk."""
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
        """From now on what is not synced may be lost."""
        self._before = {path: _look(path) for path in self._all()}
        self._synced = {seen[0]: seen[1] for seen in self._before.values() if seen is not None}
        self._named.clear()

    def expect_no_cut(self) -> None:
        self._before = None

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
        before, self._before = self._before, None
        if before is None:
            return []
        lost = []
        for path in sorted({*before, *self._all()}, reverse=True):
            if path.is_dir() or not path.parent.is_dir() or chance.random() < 0.4:
                continue  # it happened to be written all the same
            there, now = self._on_disk(path, before), _look(path)
            if there == (now[1] if now else None):
                continue
            lost.append(f"{path.relative_to(self.lasting)} {'is gone' if there is None else 'is as it was'}")
            path.unlink(missing_ok=True) if there is None else path.write_bytes(there)
        return sorted(lost)

    def _on_disk(self, path: Path, before: dict[Path, tuple[int, bytes] | None]) -> bytes | None:
        """What is read there after the power cut; None when there is no such name."""
        was, now = before.get(path), _look(path)
        if (was and was[0]) != (now and now[0]) and path.parent not in self._named:
            return was[1] if was else None  # another file, or none, under this name; the folder does not say so yet
        if now is None:
            return None
        return self._synced.get(now[0], b"")

    def _all(self) -> Iterator[Path]:
        for path in self.lasting.rglob("*"):
            if not path.is_symlink() and path.is_file() and path.suffix not in _LEFT_OUT:
                yield path

    # what programs do

    def _ours(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and str(path).startswith(str(self.folder))

    def _touch(self, method: str, path: Any) -> None:
        if self._ours(path):
            name = str(path)[len(str(self.folder)) + 1 :]
            if not name.endswith(_LEFT_OUT) and not name.startswith("cache"):
                self.touched(method, _SCRATCH.sub("", name))
            if self.refuses:
                raise OSError(self.refuses, os.strerror(self.refuses), str(path))

    def _fsync(self, handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")
        self._touch("sync", path)
        if self.slow:
            self.stall(self.slow)
        if self._before is None:
            return
        if os.path.isdir(path):
            self._named.add(Path(path))
        else:
            self._synced[os.fstat(handle).st_ino] = Path(path).read_bytes()

    def _opened(self, file: Any, mode: str = "r", *more: Any, **rest: Any) -> Any:
        if any(letter in mode for letter in "wax+"):
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
        self._replace(source, target, **rest)
        if self._before is not None:
            self._named.discard(Path(target).parent)


NO_ROOM, READ_ONLY = errno.ENOSPC, errno.EROFS


def _look(path: Path) -> tuple[int, bytes] | None:
    try:
        return path.stat().st_ino, path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
