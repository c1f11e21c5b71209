"""Taking a lab away: what its ledger lists, backwards, and nothing else.

All of a lab's processes live in its network namespace and are found by that, never by name; so it does not matter who
started them or whether labd, libvirtd or the holder is still there.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from rackless.drivers import namespaces
from rackless.drivers.process import end, identity
from rackless.errors import LabError
from rackless.events import Bus
from rackless.run.ledger import Entry, Ledger
from rackless.run.paths import LabPaths, Roots


async def teardown(paths: LabPaths, bus: Bus) -> None:
    ledger = Ledger(paths.ledger)
    retire: dict[str, Callable[[Entry], Awaitable[None]]] = {
        "network-namespace": _retire_namespace,
        "folder": _retire_folder,
    }
    for entry in reversed(ledger.entries()):
        with bus.step(f"{entry.kind} {entry.id}"):
            if entry.kind not in retire:
                raise LabError(
                    f"the ledger lists a {entry.kind} that this rackless does not know",
                    why=f"{ledger.path} was written by a newer version",
                    hint="destroy the lab with the version that made it",
                )
            await retire[entry.kind](entry)
            ledger.strike(entry)
    ledger.close()


async def end_daemon(paths: LabPaths) -> None:
    """End a holder, and with it its labd, that no longer answers."""
    with suppress(FileNotFoundError, ValueError):
        text = paths.holder_pid.read_text()
        pid = int(text.split()[0])
        if identity(pid) == text:
            await end(pid, within=10)


async def _retire_namespace(entry: Entry) -> None:
    pin = Path(entry.id)
    for _ in range(20):  # a process may fork while we look
        living = list(namespaces.inhabitants(pin))
        if not living:
            break
        await asyncio.gather(*(end(pid, within=0) for pid in living))  # all of it is thrown away: no time for grace
    else:
        raise LabError(f"processes of the lab do not end: {', '.join(map(str, living))}")
    while namespaces.is_mounted(pin):
        namespaces.unmount(pin)
    pin.unlink(missing_ok=True)


async def _retire_folder(entry: Entry) -> None:
    if Path(entry.id).exists():
        await asyncio.to_thread(shutil.rmtree, entry.id)


def remove_empty(roots: Roots) -> None:
    """The folders above the labs, when there are no labs left in them."""
    for folder in (roots.state, roots.run):
        with suppress(OSError):
            folder.rmdir()
