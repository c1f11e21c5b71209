"""The cache of built images: entries named by what went into them, never seen half built, built once.

An entry is a folder with files and a manifest of their sizes and checksums. It is built beside its place, made durable
and renamed into it, under a lock that also holds between processes. Files whose size and time are as the manifest says
are taken as they are; when the time differs (a copied cache, a damaged file) the checksum decides. This module does not
know what an image is.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
_POLL = 0.1


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where an entry is made: `out` becomes the entry, `scratch` is thrown away."""

    out: Path
    scratch: Path


Build = Callable[[Workspace], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ImageCache:
    root: Path

    def entry(self, kind: str, key: str) -> Path:
        return self.root / "entries" / f"{kind}-{key}"

    def lock(self, name: str) -> Path:
        return self.root / "locks" / name

    async def find(self, kind: str, key: str, *, thorough: bool = False) -> Path | None:
        """The entry, if it is whole; `thorough` reads every byte of it."""
        entry = self.entry(kind, key)
        return entry if await asyncio.to_thread(is_whole, entry, thorough=thorough) else None

    async def ensure(self, kind: str, key: str, build: Build, *, thorough: bool = False) -> Path:
        """The entry; built when it is missing or damaged. A second caller waits for the first one's build and uses that."""
        if found := await self.find(kind, key, thorough=thorough):
            return found
        async with locked(self.lock(f"{kind}-{key}")):
            if found := await self.find(kind, key, thorough=thorough):
                return found
            return await self._build(kind, key, build)

    async def _build(self, kind: str, key: str, build: Build) -> Path:
        beside = self.root / "building"
        beside.mkdir(parents=True, exist_ok=True)
        for stale in beside.glob(f"{kind}-{key}.*"):  # left by a builder that died; the lock says it is not alive
            await asyncio.to_thread(shutil.rmtree, stale, ignore_errors=True)
        place = Path(tempfile.mkdtemp(prefix=f"{kind}-{key}.", dir=beside))
        # Programs that are run in an image's tree as other users must be able to walk there.
        place.chmod(0o755)
        work = Workspace(place / "out", place / "scratch")
        work.out.mkdir()
        work.scratch.mkdir()
        try:
            await build(work)
            entry = self.entry(kind, key)
            await asyncio.to_thread(_seal, work.out)
            await asyncio.to_thread(_move_into_place, work.out, entry)
            return entry
        finally:
            await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Hold an exclusive lock on `path`, against other processes and other tasks alike."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_POLL)
        yield
    finally:
        os.close(descriptor)


def digest(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def key_of(parts: Iterable[str | bytes]) -> str:
    """A short name for what goes into something. Two lists of parts that differ in where a part ends have different keys."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()[:24]


def load_manifest(entry: Path) -> dict[str, dict[str, Any]]:
    files: dict[str, dict[str, Any]] = json.loads((entry / MANIFEST).read_text())["files"]
    return files


def is_whole(entry: Path, *, thorough: bool = False) -> bool:
    return not damage(entry, thorough=thorough)


def damage(entry: Path, *, thorough: bool = True) -> str:
    """What is wrong with an entry, in words; empty when nothing is."""
    try:
        for name, record in load_manifest(entry).items():
            if wrong := _difference(entry / name, record, thorough=thorough):
                return f"{name} {wrong}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # no manifest, or not one of ours
        return "its manifest is missing or cannot be read"
    return ""


def _difference(path: Path, record: dict[str, Any], *, thorough: bool) -> str:
    if not path.exists():
        return "is gone"
    status = path.stat()
    if status.st_size != record["size"]:
        return f"has {status.st_size} bytes instead of {record['size']}"
    if not thorough and status.st_mtime_ns == record["mtime_ns"]:
        return ""
    return "" if digest(path) == record["sha256"] else "has another content than was built"


def _seal(folder: Path) -> None:
    """Write the manifest and make everything durable."""
    files = {}
    for path in sorted(folder.iterdir()):
        status = path.stat()
        files[path.name] = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": digest(path)}
    (folder / MANIFEST).write_text(json.dumps({"files": files}, indent=1) + "\n")
    for path in (*folder.iterdir(), folder):
        _sync(path)


def _move_into_place(folder: Path, entry: Path) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    if entry.exists():  # damaged, or we would not have built
        shutil.rmtree(entry)
    folder.rename(entry)
    _sync(entry.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
