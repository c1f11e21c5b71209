"""What tests fetch once and keep between runs, in a folder of the person who runs them."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path.home() / ".cache" / "rackless-tests"


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Nobody else looks for it or makes it meanwhile; workers are several processes."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
