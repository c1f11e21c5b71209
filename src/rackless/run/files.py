"""Writing files: a reader sees the old content or the new, never half, also after a power cut; a secret is never
readable meanwhile."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write(path: Path, content: str | bytes, *, mode: int = 0o644) -> bool:
    """Replace the file at once; False when it already said this with this mode."""
    data = content.encode() if isinstance(content, str) else content
    try:
        if path.read_bytes() == data and path.stat().st_mode & 0o777 == mode:
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
