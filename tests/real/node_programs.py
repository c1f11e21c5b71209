"""Programs of the node image, unpacked from its packages into a folder: nothing is installed."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from rackless.drivers.process import LocalProcesses
from rackless.images import packages
from rackless.images.sources import of_computer, refresh
from rackless.run.paths import Roots


@contextmanager
def unpacked(names: Sequence[str]) -> Iterator[Path]:
    """A root with these packages and what they need, and the users that haproxy wants."""
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    debs = Roots.from_environment().cache / "images" / "debs"
    with tempfile.TemporaryDirectory(prefix="rackless-front-") as place, tempfile.TemporaryDirectory() as scratch:
        asyncio.run(_unpack(Path(place), Path(scratch), debs, names))
        yield Path(place)


async def _unpack(root: Path, scratch: Path, debs: Path, names: Sequence[str]) -> None:
    processes = LocalProcesses()
    sources = of_computer(debs.parent)
    await refresh(processes, sources)
    found = await packages.resolve(processes, sources, names, scratch)
    await packages.fetch(processes, found, debs)
    await packages.unpack(processes, found, debs, root, scratch)
    for table, line in (("passwd", "haproxy:x:900:900::/:/bin/false\n"), ("group", "haproxy:x:900:\n")):
        master = root / f"usr/share/base-passwd/{table}.master"
        (root / "etc" / table).write_text(master.read_text() + line)
    for folder in ("proc", "dev", "run", "tmp"):
        (root / folder).mkdir(exist_ok=True)
