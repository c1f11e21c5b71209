"""A lab made when its records were files: they are brought into its Kubernetes API, once.

Nothing looks after hosts meanwhile, so doing it again after it was cut short changes nothing; the files go last.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from rackless.events import Bus
from rackless.ports.resources import Record, Refused, Resources
from rackless.run.resources import LocalResources


async def migrate_records(folder: Path, resources: Resources, bus: Bus) -> int:
    """How many records came over; the folder is gone afterwards."""
    if not folder.exists():
        return 0
    old = LocalResources(folder)
    kinds = sorted((path.name for path in folder.iterdir() if path.is_dir()), key=lambda kind: (kind != "Secret", kind))
    records = [record for kind in kinds for record in await old.list(kind)]
    for record in records:
        await _bring(record, resources, bus)
    await asyncio.to_thread(shutil.rmtree, folder)
    return len(records)


async def _bring(record: Record, resources: Resources, bus: Bus) -> None:
    kind, name = record["kind"], record["metadata"]["name"]
    kept = {
        key: record["metadata"][key] for key in ("annotations", "finalizers", "labels") if key in record["metadata"]
    }
    await resources.apply({**record, "metadata": {"name": name, **kept}})
    if status := record.get("status"):
        try:
            await resources.patch_status(kind, name, status)
        except Refused as refusal:  # what inspection found came from the server's own mouth
            bus.warn(f"{name}: what is known of its hardware is not taken over: {refusal.why}")
            await resources.patch_status(kind, name, {key: status[key] for key in status if key != "hardware"})
    if record["metadata"].get("deletionTimestamp"):
        await resources.delete(kind, name)
