"""The cache of images: every entry with its size, its age, the labs that use it, and whether today's recipes make it.

An entry may go when no lab refers to it and the recipes no longer make it. The caller says which labs refer to which file; this
module does not know what a lab is.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rackless.images import payload
from rackless.images.cache import MANIFEST, ImageCache, damage
from rackless.images.catalogue import Current, current

_OF_MANY = ("deploy", "node-base", "node", "bootstrap-root", "bootstrap", payload.KIND)
"""Kinds of which the newest is kept while it is not known which one is current."""


@dataclass(frozen=True, slots=True)
class StockedImage:
    name: str
    kind: str
    path: Path
    bytes: int
    built: float
    """When, in seconds since the epoch."""
    current: bool | None
    """Whether today's recipes make it; None when apt's lists have changed since that was last looked up."""
    used_by: tuple[str, ...]

    @property
    def may_go(self) -> bool:
        return self.current is False and not self.used_by


def entries(root: Path, uses: Mapping[Path, Sequence[str]]) -> list[StockedImage]:
    """Newest first; `uses` are the labs by the file that they refer to."""
    now = current(root)
    found = [_entry(path, now, uses) for path in (root / "entries").glob("*-*")]
    return sorted(_keep_newest(found), key=lambda entry: (entry.kind, -entry.built))


def _entry(path: Path, now: Current, uses: Mapping[Path, Sequence[str]]) -> StockedImage:
    kind = path.name.rpartition("-")[0]
    labs = sorted({lab for file, names in uses.items() if file.is_relative_to(path) for lab in names})
    manifest = path / MANIFEST
    built = (manifest if manifest.exists() else path).stat().st_mtime
    # a payload's key needs the versions of Ironic, which are not known here: the newest one counts as current
    known = path.name in now.entries if kind not in (*now.unknown, payload.KIND) else None
    return StockedImage(path.name, kind, path, _size(path), built, known, tuple(labs))


def _keep_newest(found: Sequence[StockedImage]) -> Iterator[StockedImage]:
    """Where it is not known which entry of a kind is current, every entry but the newest counts as old."""
    for entry in found:
        if entry.current is None and entry.kind in _OF_MANY:
            newest = max((other for other in found if other.kind == entry.kind), key=lambda other: other.built)
            if entry is not newest:
                yield StockedImage(entry.name, entry.kind, entry.path, entry.bytes, entry.built, False, entry.used_by)
                continue
        yield entry


def verify(entry: StockedImage) -> str:
    """Reads every byte of the entry and says what is wrong with it; empty when nothing is."""
    return damage(entry.path)


def retire(root: Path, entry: StockedImage) -> bool:
    """Remove an entry; False when somebody is building it at this moment."""
    with _free(ImageCache(root).lock(entry.name)) as free:
        if not free:
            return False
        # renamed before it is deleted: a process that looks now finds no entry, and not half of one
        rubbish = root / "building" / f"{entry.name}.retired-{os.getpid()}"
        rubbish.parent.mkdir(parents=True, exist_ok=True)
        entry.path.rename(rubbish)
        shutil.rmtree(rubbish)
        return True


def leftovers(root: Path) -> list[Path]:
    """What nobody needs besides entries: what a builder that died left half built, old answers of apt, packages of old images."""
    now = current(root)
    found = [path for path in (root / "building").glob("*") if _is_dead(root, path)]
    found += [path for path in (root / "resolved").glob("*.json") if now.lookups and path.name not in now.lookups]
    if now.packages is not None:
        found += [path for path in (root / "debs").glob("*.deb") if path.name not in now.packages]
    return sorted(found)


def remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def size(path: Path) -> int:
    return _size(path) if path.is_dir() else path.lstat().st_size


def _is_dead(root: Path, path: Path) -> bool:
    """Whether its builder has died: a builder holds the lock of its entry for as long as it lives."""
    with _free(ImageCache(root).lock(path.name.rpartition(".")[0])) as free:
        return free


@contextmanager
def _free(lock: Path) -> Iterator[bool]:
    """Holds the lock if nobody else does; yields whether it is held."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def _size(folder: Path) -> int:
    """Bytes that it takes on the disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
