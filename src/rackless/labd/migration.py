"""Migration of labs that an earlier version made: what labd converts, once, when it starts.

Hosts' records were files: labd creates them in the lab's Kubernetes API. No controller runs meanwhile, so repeating it after an
interruption changes nothing; the files are deleted last. The API's keys were signed by the CA of the lab's BMCs.
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
    """Create the records in the API and delete their folder; returns how many there were."""
    if not folder.exists():
        return 0
    records = _read(folder)
    for record in records:
        await _bring(record, resources, bus)
    await asyncio.to_thread(shutil.rmtree, folder)
    return len(records)


def part_api_keys(lab: Path, api: Path) -> None:
    """Move the API's keys out of the folder of the lab's TLS CA. The key that signs service account tokens is kept, so that
    tokens stay valid; client certificates of the lab's TLS CA are no longer accepted, and the API makes its own."""
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
