"""The fingerprint of this build of rackless: `up` restarts a labd of another build than its own."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import rackless


@cache
def fingerprint() -> str:
    """Of the package's files as they are on the disk when a process first asks: names, sizes, times. A few milliseconds."""
    root = str(Path(rackless.__file__).parent)
    found = []
    for folder, _, names in os.walk(root):
        for path in (f"{folder}/{name}" for name in names if name.endswith(".py")):
            seen = os.stat(path)
            found.append(f"{path.removeprefix(root)} {seen.st_size} {seen.st_mtime_ns}\n")
    return hashlib.sha256("".join(sorted(found)).encode()).hexdigest()[:16]
