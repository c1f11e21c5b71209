"""Writes the files in which BMCs remember: durable, never half written, without holding up the loop.

A file is written under another name, synced and renamed; then the folder is synced. One thread syncs, and all files that
arrive during a sync share the next one, so a hundred BMCs cost little more than one. While images are built a sync takes
seconds: a caller that waited `patience` seconds continues once the file is renamed (safe from the end of this process,
not yet from a power cut), and the sync follows. A write that fails, or is cut short, is the caller's error, and the old file stays.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class _New:
    """The new content of a file, in a file of its own."""

    handle: int
    temporary: str
    path: Path


class StateDisk:
    def __init__(self, *, patience: float = 1.0, complain: Callable[[str], None] = lambda _: None) -> None:
        self.patience = patience
        self._complain = complain
        """Told of a sync that failed when nobody waited for it any more."""
        self.syncs = 0
        """How often the disk was waited for."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bmc-disk")
        self._writers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="bmc-write")
        """Not the loop's own threads: those may all be waiting for somebody's name server."""
        self._waiting: list[tuple[_New, asyncio.Future[None]]] = []
        self._flushing: asyncio.Task[None] | None = None

    async def replace(self, path: Path, content: bytes) -> None:
        """Returns when the content is on disk, or in its place after `patience`. One call at a time for one path."""
        loop = asyncio.get_running_loop()
        new = await loop.run_in_executor(self._writers, _write, path, content)
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((new, done))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush())
        await asyncio.wait({done}, timeout=self.patience)
        if done.done():
            done.result()
        else:
            done.add_done_callback(lambda done: self._came_late(path, done))
            await loop.run_in_executor(self._writers, _take_place, new)

    def _came_late(self, path: Path, done: asyncio.Future[None]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._complain(f"{path} may not outlive a power cut: {error}")

    async def close(self) -> None:
        if self._flushing is not None:
            await self._flushing
        self._thread.shutdown()
        self._writers.shutdown()

    async def _flush(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            self.syncs += 1
            failures = await asyncio.get_running_loop().run_in_executor(
                self._thread, _commit, [new for new, _ in batch]
            )
            for (_, done), failure in zip(batch, failures, strict=True):
                done.set_result(None) if failure is None else done.set_exception(failure)


def _write(path: Path, content: bytes) -> _New:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        rest = memoryview(content)
        while rest:  # a disk that gets full takes a part, and refuses the next one
            rest = rest[os.write(handle, rest) :]
    except BaseException:
        os.close(handle)
        os.unlink(temporary)
        raise
    return _New(handle, temporary, path)


def _commit(batch: Sequence[_New]) -> list[OSError | None]:
    """What went wrong, for each."""
    failures = [_settle(new) for new in batch]
    for folder in {new.path.parent for new, failure in zip(batch, failures, strict=True) if failure is None}:
        try:
            _sync_folder(folder)
        except OSError as error:
            failures = [
                error if new.path.parent == folder else failure for new, failure in zip(batch, failures, strict=True)
            ]
    return failures


def _settle(new: _New) -> OSError | None:
    try:
        os.fsync(new.handle)
        _take_place(new)
    except OSError as error:
        with suppress(FileNotFoundError):
            os.unlink(new.temporary)
        return error
    finally:
        os.close(new.handle)
    return None


def _sync_folder(folder: Path) -> None:
    with suppress(FileNotFoundError):  # the whole lab was taken away
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _take_place(new: _New) -> None:
    with suppress(FileNotFoundError):  # it has done so already
        os.replace(new.temporary, new.path)
