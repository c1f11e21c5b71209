from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.fake.resources import MemoryResources
from rackless.errors import LabError
from rackless.events import Bus, Event, Note
from rackless.labd.migration import migrate_records, part_api_keys
from rackless.ports.resources import Record, Refused
from rackless.provisioning.baremetalhost import KIND, secret


def host(name: str) -> Record:
    metadata = {"name": name, "finalizers": ["keep"], "annotations": {"note": "mine"}}
    return {"apiVersion": "metal3.io/v1alpha1", "kind": KIND, "metadata": metadata, "spec": {"online": True}}


def write(folder: Path, record: Record, **more: Any) -> None:
    """As a lab of before kept it."""
    place = folder / record["kind"]
    place.mkdir(parents=True, exist_ok=True)
    own = {"uid": "1", "generation": 1, "resourceVersion": "1", "creationTimestamp": "2025-01-01T00:00:00Z"}
    whole = {**record, "metadata": {**record["metadata"], **own, **more.pop("metadata", {})}, **more}
    (place / f"{record['metadata']['name']}.json").write_text(json.dumps(whole))


async def test_records_come_over_with_status_finalizers_and_deletion_and_the_files_go(tmp_path: Path) -> None:
    before, after = tmp_path / "records", MemoryResources()
    write(before, host("one"), status={"poweredOn": True})
    write(before, host("leaving"), metadata={"deletionTimestamp": "2025-01-01T00:00:00Z"})
    write(before, secret("bmc", {"password": "secret"}))
    (before / KIND / ".one.json.new").write_text('{"half":')
    (before / "version").write_text("7")

    assert await migrate_records(tmp_path / "records", after, Bus()) == 3
    one, leaving = await after.get(KIND, "one"), await after.get(KIND, "leaving")
    assert one and one["status"] == {"poweredOn": True} and one["spec"] == {"online": True}
    assert one["metadata"]["finalizers"] == ["keep"] and one["metadata"]["annotations"] == {"note": "mine"}
    assert leaving and leaving["metadata"]["deletionTimestamp"]
    assert await after.get("Secret", "bmc")
    assert not (tmp_path / "records").exists()
    assert await migrate_records(tmp_path / "records", after, Bus()) == 0


async def test_a_migration_that_was_cut_short_is_finished_by_the_next(tmp_path: Path) -> None:
    after = MemoryResources()
    write(tmp_path / "records", host("one"), status={"poweredOn": True})
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

    after = Strict()
    write(tmp_path / "records", host("one"), status={"poweredOn": True, "hardware": {"nics": [{"mac": ""}]}})
    seen: list[Event] = []
    bus = Bus()
    bus.subscribe(seen.append)
    await migrate_records(tmp_path / "records", after, bus)
    one = await after.get(KIND, "one")
    assert one and one["status"] == {"poweredOn": True}
    assert any(isinstance(event, Note) and event.code == "hardware-not-taken-over" for event in seen)


async def test_a_broken_file_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    write(tmp_path / "records", host("one"))
    (tmp_path / "records" / KIND / "one.json").write_text("{")
    with pytest.raises(LabError, match=r"one\.json is not a record"):
        await migrate_records(tmp_path / "records", MemoryResources(), Bus())
    assert (tmp_path / "records" / KIND / "one.json").exists()


def test_the_apis_keys_leave_the_folder_of_the_labs_ca_and_tokens_stay_good(tmp_path: Path) -> None:
    lab, api = tmp_path / "tls", tmp_path / "api"
    lab.mkdir()
    for name in ("ca.crt", "ca.key", "bmc.crt", "sa.key", "admin.crt", "admin.key", "serving.crt", "serving.hosts"):
        (lab / name).write_text(name)
    for _ in range(2):
        part_api_keys(lab, api)
        assert {file.name for file in lab.iterdir()} == {"ca.crt", "ca.key", "bmc.crt"}
        assert {file.name: file.read_text() for file in api.iterdir()} == {"sa.key": "sa.key"}
    assert (api / "sa.key").stat().st_mode & 0o777 == 0o600
    (lab / "sa.key").write_text("older")  # cut short between the two steps: what was taken over counts
    part_api_keys(lab, api)
    assert (api / "sa.key").read_text() == "sa.key"
