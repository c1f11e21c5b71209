"""The event log in a lab's folder, one numbered line for each event: a reader that lost its connection goes on from the last
number it has.

Numbers go on when labd is started again. Two files are kept, `events.jsonl` and the one before it, so that a lab that runs for
years does not fill its disk. Lines of versions that did not number them count from the line before. A line that was cut short, by
a full disk or a computer that went off, has no number and is passed over.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from rackless import events
from rackless.codec import BadValue
from rackless.protocol.hearing import Hearing

MOST_BYTES = 4 << 20
"""Of one of the two files: some 20 000 events."""
_TAIL_BYTES = 1 << 16
_NUMBER = re.compile(rb'\{"seq": (\d+), ')


@dataclass(frozen=True, slots=True)
class Numbered:
    seq: int
    event: events.Event

    def to_json(self) -> dict[str, object]:
        return {"seq": self.seq, **events.to_json(self.event)}


@dataclass(frozen=True, slots=True)
class Missed:
    """Events after number `after` and before number `before` are no longer kept."""

    after: int
    before: int


class EventLog:
    """The writing end, of which a lab has one: labd's. The file is opened for every line: somebody may take it away."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._followers: list[asyncio.Event] = []
        self.last = last_number(path)
        self._torn = True
        """Whether the last line of the file may have been cut short."""

    def append(self, event: events.Event) -> None:
        """On a full disk events are not written, and the work that they tell of goes on."""
        line = json.dumps(Numbered(self.last + 1, event).to_json()).encode() + b"\n"
        try:
            self._write(line)
        except OSError:
            self._torn = True
            return
        self.last += 1
        for follower in self._followers:
            follower.set()

    def _write(self, line: bytes) -> None:
        with suppress(FileNotFoundError):
            if self._path.stat().st_size + len(line) > self._most_bytes:
                self._path.replace(previous(self._path))
        with self._open() as file:
            if self._torn and file.seek(0, os.SEEK_END) and _last_byte(file) != b"\n":
                line = b"\n" + line
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, "the line was cut short")
            self._torn = False

    def _open(self) -> FileIO:
        try:
            return self._path.open("a+b", buffering=0)
        except FileNotFoundError:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return self._path.open("a+b", buffering=0)

    @contextmanager
    def following(self) -> Iterator[asyncio.Event]:
        """Set whenever there is more to read."""
        more = asyncio.Event()
        self._followers.append(more)
        try:
            yield more
        finally:
            self._followers.remove(more)

    def reader(self, since: int) -> EventReader:
        return EventReader(self._path, since)


class EventReader:
    """Reads the lines that were added since it last read, also when the file was put aside for a new one meanwhile."""

    def __init__(self, path: Path, since: int = 0) -> None:
        self._path = path
        self._since = since
        """The number of the last event that was given, or is not wanted."""
        self._at = 0
        """The number of the last line that was read."""
        self._file: _Opened | None = None
        self._rest = b""

    def read(self) -> Iterator[Numbered | Missed]:
        """The events that are in the log now and that this reader has not given yet."""
        while self._has_more():
            for line in self._lines():
                found = _NUMBER.match(line)
                number = int(found[1]) if found else None
                if number is not None and number <= self._since:
                    self._at = number  # known: not worth decoding
                    continue
                try:
                    value = json.loads(line)
                except ValueError:  # cut short
                    continue
                self._at = number if number is not None else self._at + 1
                if self._at <= self._since:
                    continue
                before, self._since = self._since, self._at
                if self._at > before + 1:
                    yield Missed(before, self._at)
                with suppress(BadValue):  # of a newer rackless
                    yield Numbered(self._at, events.from_json(value))

    def _lines(self) -> Iterator[bytes]:
        assert self._file is not None
        while chunk := self._file.read():
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            yield from (line for line in lines if line)

    def _has_more(self) -> bool:
        """Whether the file at hand, or the next one, which is then at hand, has lines that were not read."""
        if self._file is None:
            return self._open(previous(self._path)) or self._open(self._path)
        ours = _identity(self._file.number)
        aside = ours != _identity(self._path)
        if self._file.has_more():
            return True
        if not aside:
            return False
        if ours != _identity(previous(self._path)) and self._open(previous(self._path)):
            return True  # more than one file was put aside since; what of it is known is passed over
        return self._open(self._path)

    def _open(self, path: Path) -> bool:
        try:
            self._file, self._rest = _Opened(path), b""
        except FileNotFoundError:
            return False
        return True


class _Opened:
    """A file that is closed when nobody has it any more: who follows events is cut off anywhere."""

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._at = 0

    def read(self) -> bytes:
        chunk = os.read(self.number, _TAIL_BYTES)
        self._at += len(chunk)
        return chunk

    def has_more(self) -> bool:
        return self._at < os.fstat(self.number).st_size

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


class Selection:
    """Which events a reader wants: after a number, and about which subjects."""

    def __init__(self, since: int, hearing: Hearing) -> None:
        self._since = since
        self._hearing = hearing

    @property
    def reads_from(self) -> int:
        """A listener that hears of a step also needs its beginning, however long ago that was."""
        return self._since if self._hearing.everything else 0

    def take(self, one: Numbered | Missed) -> Numbered | Missed | None:
        if isinstance(one, Missed):
            return Missed(max(one.after, self._since), one.before) if one.before > self._since + 1 else None
        wanted = self._hearing.everything or self._hearing.concerns(one.event)
        return one if wanted and one.seq > self._since else None


def read_events(path: Path, since: int, hear: Sequence[str]) -> Iterator[Numbered | Missed]:
    """The events in the log after a number and about some subjects: for readers while no labd answers."""
    selection = Selection(resolve(since, last_number(path)), Hearing(None, hear))
    for one in EventReader(path, selection.reads_from).read():
        if (told := selection.take(one)) is not None:
            yield told


def resolve(since: int, last: int) -> int:
    """The number after which to begin. Below zero, `since` counts from the end; above `last` it is of another lab's log, and all is
    read."""
    return max(0, last + since) if since < 0 else since if since <= last else 0


def previous(path: Path) -> Path:
    return path.with_suffix(f".1{path.suffix}")


def last_number(path: Path) -> int:
    """The number of the last event; 0 when there is none."""
    for file in (path, previous(path)):
        with suppress(FileNotFoundError):
            if (found := _last_in(file)) is not None:
                return found
    # an earlier version wrote the log, without numbers
    return sum(isinstance(one, Numbered) for one in EventReader(path).read())


def _last_in(path: Path) -> int | None:
    """The number of the last line; None when none near the end is numbered."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = file.read().split(b"\n")
    last = None
    for line in lines:
        with suppress(ValueError):
            value = json.loads(line)
            last = value.get("seq", last + 1 if last is not None else None)
    return last


def _last_byte(file: FileIO) -> bytes:
    file.seek(-1, os.SEEK_END)
    return file.read(1) or b""


def _identity(file: int | Path) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
