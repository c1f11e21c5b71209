"""Writing files: a reader sees the old content or the new, never half, also after a power cut; a secret is never
readable meanwhile."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


def write(path: Path, content: str | bytes, *, mode: int = 0o644, owner: tuple[int, int] | None = None) -> bool:
    """Replace the file at once; False when it already said this with this mode. It is `owner`'s (user, group) from before it is
    at its place."""
    data = content.encode() if isinstance(content, str) else content
    try:
        there = path.stat()
        same = owner is None and there.st_mode & 0o777 == mode and there.st_size == len(data)
        if (
            same and stat.S_ISREG(there.st_mode) and path.read_bytes() == data
        ):  # to read a pipe is to wait for its writer
            return False
    except FileNotFoundError:
        pass
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            if owner is not None:
                os.fchown(handle, *owner)
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return True


def write_secret(path: Path, content: str | bytes) -> bool:
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return write(path, content, mode=0o600)


def sync_folder(folder: Path) -> None:
    """fsync the folder: syncing a file does not make its name in the folder survive a power cut."""
    with suppress(FileNotFoundError):  # taken away meanwhile
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
