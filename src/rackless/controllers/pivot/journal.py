"""The progress of a pivot, in a ConfigMap beside the objects that are moved: after a kill the next run reads it and goes on.

    pausing ─▶ copying ─▶ leaving ─▶ resuming ─▶ moved
       └─────────┴─▶ undoing ─▶ (nothing: all is as before)

Until `leaving` nothing is deleted in the source API, and the pivot can be undone. From then on all objects are in the target API,
and the pivot can only be finished. `moved` stays: it says that this API's objects are in another one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from rackless.ports.resources import Record, Resources

NAME = "rackless-pivot"
KIND = "ConfigMap"


class MovePhase(StrEnum):
    PAUSING = "pausing"
    COPYING = "copying"
    LEAVING = "leaving"
    RESUMING = "resuming"
    MOVED = "moved"
    UNDOING = "undoing"


CAN_BE_UNDONE = (MovePhase.PAUSING, MovePhase.COPYING, MovePhase.UNDOING)


@dataclass(frozen=True, slots=True)
class MoveJournal:
    id: str
    phase: MovePhase
    to: str
    """For people: the server that the objects go to."""
    target: str
    """The same for programs: the UID of its namespace kube-system."""


async def load(resources: Resources) -> MoveJournal | None:
    found = await resources.get(KIND, NAME)
    data = (found or {}).get("data") or {}
    if not data.get("id"):
        return None
    return MoveJournal(data["id"], MovePhase(data.get("phase") or ""), data.get("to") or "", data.get("target") or "")


async def store(resources: Resources, journal: MoveJournal) -> MoveJournal:
    await resources.apply(_record(journal))
    return journal


async def reach(resources: Resources, journal: MoveJournal, phase: MovePhase) -> MoveJournal:
    return await store(resources, replace(journal, phase=phase))


async def strike(resources: Resources) -> None:
    await resources.delete(KIND, NAME)


async def elsewhere(resources: Resources) -> str:
    """The API that this API's objects were or are being moved to; empty when they are here."""
    found = await load(resources)
    return found.to if found is not None and found.phase not in CAN_BE_UNDONE else ""


def _record(journal: MoveJournal) -> Record:
    return {"apiVersion": "v1", "kind": KIND, "metadata": {"name": NAME}, "data": asdict(journal)}
