"""The end of a file that others write to, and what is added to it. For logs and consoles; knows nothing of labs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

_BLOCK = 1 << 16
_PAUSE = 0.1


def last_lines(path: Path, count: int) -> Iterator[str]:
    """The last lines; none when there is no file yet."""
    try:
        data = _tail(path, count)
    except FileNotFoundError:
        return
    yield from data.decode(errors="replace").splitlines()


def follow(path: Path, count: int) -> Iterator[str]:
    """The last lines, then every line that is added, until the caller stops reading."""
    rest = b""
    for chunk in chunks(path, count):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")


def chunks(path: Path, count: int) -> Iterator[bytes]:
    """The same as raw bytes, as they are written; a file that is replaced or emptied is read from its beginning."""
    position: int | None = None
    while True:
        try:
            size = path.stat().st_size
            if position is None:
                first = _tail(path, count)
                position = size
                if first:
                    yield first
            elif size < position:
                position = 0
            elif size > position:
                with path.open("rb") as file:
                    file.seek(position)
                    data = file.read(_BLOCK)
                position += len(data)
                yield data
                continue
        except FileNotFoundError:
            position = 0
        time.sleep(_PAUSE)


def _tail(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        file.seek(0, 2)
        position, data = file.tell(), b""
        while count and position > 0 and data.count(b"\n") <= count:
            step = min(_BLOCK, position)
            position -= step
            file.seek(position)
            data = file.read(step) + data
    lines = data.splitlines(keepends=True)
    return b"".join(lines[-count:]) if count else b""
