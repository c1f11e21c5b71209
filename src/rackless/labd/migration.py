"""Labs that an earlier version made: what labd changes about them, once, before it goes on.

Records were files: labd brings them into the lab's Kubernetes API. No controller looks after hosts meanwhile, so doing it
again after it was cut short changes nothing; the files go last. The API's keys were signed by the CA of the lab's BMCs.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

from rackless.errors import LabError
from rackless.events import Bus
from rackless.ports.resources import Record, Refused, Resources
from rackless.run.files import write_secret


async def migrate_records(folder: Path, resources: Resources, bus: Bus) -> int:
    """How many records came over; the folder is gone afterwards."""
    if not folder.exists():
        return 0
    records = _read(folder)
    for record in records:
        await _bring(record, resources, bus)
    await asyncio.to_thread(shutil.rmtree, folder)
    return len(records)


def part_api_keys(lab: Path, api: Path) -> None:
    """Take the API's keys out of the folder of the lab's own CA: the key of service account tokens comes along, so that
    they stay good; certificates of the lab's CA are no longer let in, and the API makes its own."""
    tokens = lab / "sa.key"
    if tokens.exists() and not (api / "sa.key").exists():
        write_secret(api / "sa.key", tokens.read_bytes())
    for name in ("sa.key", "admin.crt", "admin.key", "serving.crt", "serving.key", "serving.hosts"):
        (lab / name).unlink(missing_ok=True)


async def _bring(record: Record, resources: Resources, bus: Bus) -> None:
    kind, name = record["kind"], record["metadata"]["name"]
    kept = {
        key: record["metadata"][key] for key in ("annotations", "finalizers", "labels") if key in record["metadata"]
    }
    await resources.apply({**record, "metadata": {"name": name, **kept}})
    if status := record.get("status"):
        try:
            await resources.patch_status(kind, name, status)
        except Refused as refusal:  # the hardware was reported by the server itself, and the API's schema may refuse it
            bus.tell("hardware-not-taken-over", subject=f"host/{name}", host=name, why=refusal.why)
            await resources.patch_status(kind, name, {key: status[key] for key in status if key != "hardware"})
    if record["metadata"].get("deletionTimestamp"):
        await resources.delete(kind, name)


def _read(folder: Path) -> list[Record]:
    """The records of `folder/KIND/NAME.json`; Secrets first, for others name them."""
    files = sorted(folder.glob("*/*.json"), key=lambda path: (path.parent.name != "Secret", path))
    records = []
    for path in files:
        if path.name.startswith("."):  # a write that did not come to its end
            continue
        try:
            record = json.loads(path.read_text())
            record["kind"], record["metadata"]["name"]
        except (ValueError, KeyError, TypeError) as error:
            raise LabError(
                f"{path} is not a record", why=f"{type(error).__name__}: {error}", hint="remove or mend that file"
            ) from error
        records.append(record)
    return records
