"""Destroying a lab: what its ledger lists, backwards, and nothing else.

All of a lab's processes live in its network namespace and are found by that, never by name; so it does not matter who
started them or whether labd, libvirtd or the holder is still there.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rackless.errors import LabError, RacklessError
from rackless.events import Bus, Event
from rackless.lab import forwards
from rackless.operations import attachment, uplink
from rackless.ports.drivers import Drivers
from rackless.protocol.client import ControlClient
from rackless.protocol.exchange import Nothing
from rackless.protocol.messages import STOP
from rackless.run.ledger import Ledger, LedgerEntry
from rackless.run.paths import LabPaths, Roots

END_WITHIN = 35.0
"""Seconds for labd to end: it ends its programs one after the other and gives each ten."""


async def teardown(paths: LabPaths, bus: Bus, drivers: Drivers) -> None:
    ledger = Ledger(paths.ledger)
    retire: dict[str, Callable[[LedgerEntry], Awaitable[None]]] = {
        "network-namespace": lambda entry: _retire_namespace(entry, drivers),
        "folder": _retire_folder,
        "folder-when-empty": _retire_when_empty,
        uplink.KIND: lambda entry: uplink.retire_uplink(entry, drivers),
        attachment.KIND: lambda entry: attachment.retire_attachment(entry, drivers),
        forwards.KIND: _retire_forward,
    }
    processes = drivers.processes
    if (holder := processes.find(paths.launched_pid)) is not None:  # it may not have entered the lab's namespaces yet
        await processes.end(holder, within=0)
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


async def stop_daemon(
    paths: LabPaths, bus: Bus, drivers: Drivers, *, told: Callable[[], Sequence[Event]] = tuple
) -> None:
    """Have labd stop its processes, when it answers; whatever still runs then is killed. `told` returns the command's own events,
    which labd writes into the lab's event log first."""
    client = ControlClient(paths.socket)
    with suppress(RacklessError, TimeoutError):
        async with asyncio.timeout(20):
            if await client.alive():
                await client.work(STOP, Nothing(), bus, told=told())
    await end_daemon(paths, drivers)


async def end_daemon(paths: LabPaths, drivers: Drivers) -> None:
    """End the holder and its labd. A labd whose holder was killed lives on for a while: it gets 35 s to end by itself."""
    for pidfile in (paths.launched_pid, paths.holder_pid, paths.labd_pid):
        if (pid := drivers.processes.find(pidfile)) is not None:
            await drivers.processes.end(pid, within=END_WITHIN)


async def retire_namespace(paths: LabPaths, drivers: Drivers) -> None:
    """End all processes in the lab's network namespace and delete it; the lab's folders stay."""
    ledger = Ledger(paths.ledger)
    for entry in reversed(ledger.entries()):
        if entry.kind == uplink.KIND:
            await uplink.retire_uplink(entry, drivers)
            ledger.strike(entry)
        elif entry.kind == attachment.KIND:
            await attachment.retire_attachment(entry, drivers)
            ledger.strike(entry)
        elif entry.kind == "network-namespace":
            await _retire_namespace(entry, drivers)
            ledger.strike(entry)


def owned(paths: LabPaths, drivers: Drivers) -> list[dict[str, Any]]:
    """What the ledger lists, in the order in which `destroy` removes it, each with its current contents."""
    found: list[dict[str, Any]] = []
    for entry in reversed(Ledger(paths.ledger).entries()):
        detail: dict[str, Any] = {"kind": entry.kind, "id": entry.id}
        if entry.kind == "folder":
            detail["bytes"] = used_bytes(Path(entry.id))
        elif entry.kind == "network-namespace":
            detail["processes"] = [
                {"pid": pid, "command": drivers.processes.command(pid)}
                for pid in sorted(drivers.namespaces.inhabitants(Path(entry.id)))
            ]
        found.append(detail)
    return found


def used_bytes(folder: Path) -> int:
    """What a folder takes on the disk; thin files count as much as is in them."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_blocks * 512
    return total


async def _retire_namespace(entry: LedgerEntry, drivers: Drivers) -> None:
    pin = Path(entry.id)
    for _ in range(20):  # a process may fork while we look
        living = drivers.namespaces.inhabitants(pin)
        if not living:
            break
        # all of it is thrown away: no time for grace
        await asyncio.gather(*(drivers.processes.end(pid, within=0) for pid in living))
    else:
        raise LabError(f"processes of the lab do not end: {', '.join(map(str, living))}")
    drivers.namespaces.unpin(pin)


async def _retire_forward(_: LedgerEntry) -> None:
    """Nothing to do: the holder, which had the port open, was ended before the first entry."""


async def _retire_folder(entry: LedgerEntry) -> None:
    if Path(entry.id).exists():
        await asyncio.to_thread(shutil.rmtree, entry.id)


async def _retire_when_empty(entry: LedgerEntry) -> None:
    """A parent folder that `up` made; it stays when others have put files into it."""
    with suppress(OSError):
        Path(entry.id).rmdir()


def remove_empty(roots: Roots) -> None:
    """The folders above the labs, when there are no labs left in them."""
    for folder in (roots.state, roots.run):
        with suppress(OSError):
            folder.rmdir()
