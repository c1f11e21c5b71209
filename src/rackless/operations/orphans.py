"""Orphans: labs that still run but cannot be destroyed by name, because somebody deleted the ledger or the pin of the network
namespace.

They are found by their processes' network namespaces, which carry a lab's mark of this very computer. A lab is an orphan when its
ledger does not list the namespace, or the pin does not lead to it. What is ended lives in that namespace; what is
removed is proven to belong to it. Folders with disks are left, and named.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackless.errors import LabError
from rackless.events import Bus
from rackless.lab.gate import table_of
from rackless.lab.mark import Mark, read_mark
from rackless.operations import forwarding, uplink
from rackless.ports.drivers import Drivers
from rackless.ports.namespaces import Namespaces, Network, Space
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots

_PROGRAMS = ("nsenter", "ip", "nft")
"""On a computer that lacks one of these programs no lab was ever made, and nothing is searched."""


@dataclass(frozen=True, slots=True)
class Orphan:
    mark: Mark
    paths: LabPaths
    space: Space
    why: str

    @property
    def name(self) -> str:
        return self.mark.name

    @property
    def pids(self) -> tuple[int, ...]:
        return self.space.pids

    @property
    def left(self) -> list[Path]:
        """Folders that stay when the orphan is ended: somebody may want its disks."""
        return [folder for folder in (self.paths.state,) if folder.exists()]


async def find_orphans(roots: Roots, drivers: Drivers) -> list[Orphan]:
    """All on this computer, whatever RACKLESS_STATE they were made with. Only root can see them; others find none."""
    if not _may_look(drivers):
        return []
    namespaces = drivers.namespaces
    home, found = namespaces.home(), []
    for space in namespaces.others():
        mark = read_mark(await namespaces.read_mark(space.door))
        if mark is None or mark.host != home:
            continue
        paths = mark.paths(roots.cache)
        if why := _lost(paths, space.network, namespaces):
            found.append(Orphan(mark, paths, space, why))
    return found


async def orphans_of(paths: LabPaths, drivers: Drivers) -> list[Orphan]:
    """The orphans of this lab: their mark names the same state and run folders."""
    wanted = paths.state, paths.run
    return [one for one in await find_orphans(paths.roots, drivers) if (one.paths.state, one.paths.run) == wanted]


async def refuse_orphan(paths: LabPaths, drivers: Drivers) -> None:
    """Refuse to start a lab whose orphan still runs: both would write to the same disks."""
    for orphan in await orphans_of(paths, drivers):
        raise LabError(
            f"the lab {paths.name} still runs, and cannot be reached: {len(orphan.pids)} processes",
            why=orphan.why,
            hint="`rackless destroy --orphans` ends them and leaves its folder; then `rackless up` starts it again",
        )


async def end_orphan(orphan: Orphan, bus: Bus, drivers: Drivers) -> None:
    namespaces = drivers.namespaces
    with bus.step("orphan", subject=f"lab/{orphan.name}") as step:
        joined, mounted = await _uplink_is(orphan, drivers), _mount_namespace(orphan, namespaces)
        for _ in range(20):  # a process may fork while we look
            living = namespaces.residents(orphan.space.network, mounted)
            if not living:
                break
            await asyncio.gather(*(drivers.processes.end(pid, within=0) for pid in living))
        else:
            raise LabError(f"processes of the lab do not end: {', '.join(map(str, living))}")
        ours = namespaces.pins(orphan.space.network)
        for pin in ours:
            namespaces.unpin(pin)
        if joined:
            await uplink.retire_link(uplink.link_name(orphan.paths), drivers)
        if orphan.paths.netns in ours and not Ledger(orphan.paths.ledger).exists:
            await asyncio.to_thread(shutil.rmtree, orphan.paths.run, ignore_errors=True)
        step.detail = f"{len(orphan.pids)} processes"
        for folder in orphan.left:
            bus.tell("folder-left", folder=str(folder))


async def lost_tables(drivers: Drivers) -> list[str]:
    """Rules of uplinks whose link is gone: of labs that were ended by hand."""
    if not _may_look(drivers):
        return []
    links = {table_of(link) for link in await drivers.network.links()}
    return sorted(set(await forwarding.registered(drivers.firewall)) - links)


async def sweep_tables(bus: Bus, drivers: Drivers) -> None:
    for table in await lost_tables(drivers):
        with bus.step(f"rules {table} of an uplink that is gone"):
            await uplink.retire_link(table.replace("_", "-"), drivers)


def describe(orphan: Orphan, drivers: Drivers) -> dict[str, Any]:
    return {
        "lab": orphan.name,
        "why": orphan.why,
        "processes": [{"pid": pid, "command": drivers.processes.command(pid)} for pid in orphan.pids],
        "folder": str(orphan.paths.state),
        "left": [str(folder) for folder in orphan.left],
    }


def _may_look(drivers: Drivers) -> bool:
    return drivers.computer.root() and all(map(drivers.computer.has_program, _PROGRAMS))


def _lost(paths: LabPaths, network: Network, namespaces: Namespaces) -> str:
    """Why `rackless destroy` cannot end what runs in this namespace; empty when it can."""
    ledger = Ledger(paths.ledger)
    if not ledger.exists:
        return f"its ledger {paths.ledger} is gone"
    if not any(entry.kind == "network-namespace" and entry.id == str(paths.netns) for entry in ledger.entries()):
        return f"its ledger {paths.ledger} does not list it any more"
    pinned = namespaces.leads_to(paths.netns)
    if pinned is None:
        return f"the pin of its namespace {paths.netns} is gone"
    if pinned != network:
        return f"{paths.netns} leads to another namespace"
    return ""


def _mount_namespace(orphan: Orphan, namespaces: Namespaces) -> int | None:
    """The lab's mount namespace, as its mark says; believed only when a process of the orphan is in it."""
    told = orphan.mark.mnt
    shared = told in (namespaces.mount_namespace(1), namespaces.home().mnt)
    return told if not shared and any(namespaces.mount_namespace(pid) == told for pid in orphan.pids) else None


async def _uplink_is(orphan: Orphan, drivers: Drivers) -> bool:
    """Whether the uplink is the orphan's to remove: it leads into its namespace, or is gone. A new lab of that name may have it."""
    link = uplink.link_name(orphan.paths)
    if link not in await drivers.network.links():
        return True
    return await drivers.network.joined(link, uplink.INSIDE, orphan.space.door)
