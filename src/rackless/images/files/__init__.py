"""Files that go into images as they are: scripts, units, settings. Here is only how to reach them."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def read(name: str) -> bytes:
    return resources.files(__name__).joinpath(name).read_bytes()


def install(name: str, target: Path, mode: int) -> None:
    """Put a file at `target`, with its folders. A link or file that is there is replaced, not written through."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    target.write_bytes(read(name))
    target.chmod(mode)
