"""Writing files: a reader sees the old content or the new, never half; a secret is never readable meanwhile."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, content: str | bytes, *, mode: int = 0o644) -> bool:
    """Replace the file at once; False when it already said this with this mode."""
    data = content.encode() if isinstance(content, str) else content
    try:
        if path.read_bytes() == data and path.stat().st_mode & 0o777 == mode:
            return False
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.fchmod(handle, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    return True


def write_secret(path: Path, content: str | bytes) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return write(path, content, mode=0o600)
