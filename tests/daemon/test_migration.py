from __future__ import annotations

from pathlib import Path
from typing import Any

from rackless.daemon.migration import migrate_records
from rackless.events import Bus, Event, Note
from rackless.ports.resources import Record, Refused
from rackless.provisioning.baremetalhost import KIND, secret
from rackless.run.resources import LocalResources, MemoryResources


def host(name: str) -> Record:
    metadata = {"name": name, "finalizers": ["keep"], "annotations": {"note": "mine"}}
    return {"apiVersion": "metal3.io/v1alpha1", "kind": KIND, "metadata": metadata, "spec": {"online": True}}


async def test_records_come_over_with_status_finalizers_and_deletion_and_the_files_go(tmp_path: Path) -> None:
    before, after = LocalResources(tmp_path / "records"), MemoryResources()
    await before.apply(host("one"))
    await before.patch_status(KIND, "one", {"poweredOn": True})
    await before.apply(host("leaving"))
    await before.delete(KIND, "leaving")
    await before.apply(secret("bmc", {"password": "secret"}))

    assert await migrate_records(tmp_path / "records", after, Bus()) == 3
    one, leaving = await after.get(KIND, "one"), await after.get(KIND, "leaving")
    assert one and one["status"] == {"poweredOn": True} and one["spec"] == {"online": True}
    assert one["metadata"]["finalizers"] == ["keep"] and one["metadata"]["annotations"] == {"note": "mine"}
    assert leaving and leaving["metadata"]["deletionTimestamp"]
    assert await after.get("Secret", "bmc")
    assert not (tmp_path / "records").exists()
    assert await migrate_records(tmp_path / "records", after, Bus()) == 0


async def test_a_migration_that_was_cut_short_is_finished_by_the_next(tmp_path: Path) -> None:
    before, after = LocalResources(tmp_path / "records"), MemoryResources()
    await before.apply(host("one"))
    await before.patch_status(KIND, "one", {"poweredOn": True})
    await after.apply(host("one"))
    await migrate_records(tmp_path / "records", after, Bus())
    one = await after.get(KIND, "one")
    assert one and one["status"] == {"poweredOn": True}


async def test_hardware_that_is_refused_does_not_hold_up_the_rest(tmp_path: Path) -> None:
    class Strict(MemoryResources):
        async def patch_status(self, kind: str, name: str, status: Any, **more: Any) -> Record:
            if "hardware" in status:
                raise Refused("no", why="nics[0].mac is not a MAC")
            return await super().patch_status(kind, name, status, **more)

    before, after = LocalResources(tmp_path / "records"), Strict()
    await before.apply(host("one"))
    await before.patch_status(KIND, "one", {"poweredOn": True, "hardware": {"nics": [{"mac": ""}]}})
    seen: list[Event] = []
    bus = Bus()
    bus.subscribe(seen.append)
    await migrate_records(tmp_path / "records", after, bus)
    one = await after.get(KIND, "one")
    assert one and one["status"] == {"poweredOn": True}
    assert any(isinstance(event, Note) and "hardware" in event.message for event in seen)
