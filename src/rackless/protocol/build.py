"""Which rackless this is, to the byte: a daemon of another build than the command that talks to it is started anew."""

from __future__ import annotations

import hashlib
from pathlib import Path

import rackless


def fingerprint() -> str:
    """Of the package's files as they are on the disk: names, sizes, times. A few milliseconds."""
    root = Path(rackless.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found = path.stat()
        digest.update(f"{path.relative_to(root)} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
