import asyncio
import json
import stat
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from rackless.errors import InputError, LabError
from rackless.ports.resources import Conflict, RecordEvent
from rackless.run.resources import LocalResources


def thing(name: str = "one", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "test/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


async def test_a_record_keeps_its_uid_and_counts_generations_by_changes_of_its_spec(tmp_path: Path) -> None:
    resources = LocalResources(tmp_path)
    first = await resources.apply(thing(size=1))
    same = await resources.apply(thing(size=1))
    bigger = await resources.apply(thing(size=2))
    status = await resources.patch_status("Thing", "one", {"state": "well"})

    assert first["metadata"]["generation"] == 1 and first["metadata"]["uid"]
    assert same == first
    assert bigger["metadata"]["uid"] == first["metadata"]["uid"]
    assert bigger["metadata"]["generation"] == status["metadata"]["generation"] == 2
    assert int(status["metadata"]["resourceVersion"]) > int(bigger["metadata"]["resourceVersion"])


async def test_applying_a_record_keeps_its_status(tmp_path: Path) -> None:
    resources = LocalResources(tmp_path)
    await resources.apply(thing(size=1))
    await resources.patch_status("Thing", "one", {"state": "well"})
    again = await resources.apply({**thing(size=2), "status": {"state": "invented"}})
    assert again["status"] == {"state": "well"}


async def test_another_store_on_the_same_directory_finds_everything_again(tmp_path: Path) -> None:
    before = LocalResources(tmp_path)
    await before.apply(thing("one", size=1))
    await before.apply(thing("two"))
    await before.delete("Thing", "two")
    last = await before.patch_status("Thing", "one", {"state": "well"})

    after = LocalResources(tmp_path)
    assert await after.list("Thing") == [last]
    fresh = await after.apply(thing("three"))
    assert int(fresh["metadata"]["resourceVersion"]) > int(last["metadata"]["resourceVersion"])


async def test_the_version_of_a_removed_record_is_not_given_out_again(tmp_path: Path) -> None:
    before = LocalResources(tmp_path)
    await before.apply(thing("one"))
    gone = await before.apply(thing("two"))
    await before.delete("Thing", "two")
    fresh = await LocalResources(tmp_path).apply(thing("three"))
    assert int(fresh["metadata"]["resourceVersion"]) > int(gone["metadata"]["resourceVersion"]) + 1


async def test_writing_on_an_old_version_is_a_conflict(tmp_path: Path) -> None:
    resources = LocalResources(tmp_path)
    old = await resources.apply(thing(size=1))
    await resources.patch_status("Thing", "one", {"state": "well"})
    version = old["metadata"]["resourceVersion"]
    with pytest.raises(Conflict):
        await resources.patch_status("Thing", "one", {"state": "ill"}, resource_version=version)
    with pytest.raises(Conflict):
        await resources.apply({**old, "spec": {"size": 2}})


async def test_a_record_with_finalizers_is_marked_and_goes_when_the_last_one_is_taken_off(tmp_path: Path) -> None:
    resources = LocalResources(tmp_path)
    record = thing()
    record["metadata"]["finalizers"] = ["keep"]
    await resources.apply(record)
    await resources.delete("Thing", "one")
    marked = await resources.get("Thing", "one")
    assert marked and marked["metadata"]["deletionTimestamp"]

    marked["metadata"]["finalizers"] = []
    await resources.apply(marked)
    assert await resources.get("Thing", "one") is None
    assert not list(tmp_path.glob("Thing/*"))


async def test_applying_a_record_leaves_the_finalizers_and_annotations_it_does_not_mention(tmp_path: Path) -> None:
    resources = LocalResources(tmp_path)
    record = await resources.apply(thing(size=1))
    record["metadata"].update(finalizers=["keep"], annotations={"note": "mine"}, labels={"role": "a"})
    await resources.apply(record)
    again = thing(size=2)
    again["metadata"]["labels"] = {}
    fresh = (await resources.apply(again))["metadata"]
    assert (fresh["finalizers"], fresh["annotations"], fresh["labels"]) == (["keep"], {"note": "mine"}, {})


async def test_a_watch_shows_what_is_there_and_then_what_changes(tmp_path: Path) -> None:
    resources = LocalResources(tmp_path)
    await resources.apply(thing("one"))
    seen: list[tuple[str, str]] = []

    async def look() -> None:
        async with aclosing(resources.watch("Thing")) as events:
            event: RecordEvent
            async for event in events:
                seen.append((event.type, event.record["metadata"]["name"]))
                if event.type == "DELETED":
                    return

    watching = asyncio.create_task(look())
    await asyncio.sleep(0)
    await resources.apply({**thing("elsewhere"), "kind": "Other"})
    await resources.apply(thing("two"))
    await resources.patch_status("Thing", "two", {"state": "well"})
    await resources.delete("Thing", "one")
    await watching
    assert seen == [("ADDED", "one"), ("ADDED", "two"), ("MODIFIED", "two"), ("DELETED", "one")]


async def test_what_a_reader_does_with_a_record_does_not_change_the_stored_one(tmp_path: Path) -> None:
    resources = LocalResources(tmp_path)
    (await resources.apply(thing(sizes=[1])))["spec"]["sizes"].append(2)
    record = await resources.get("Thing", "one")
    assert record and record["spec"] == {"sizes": [1]}


async def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    resources = LocalResources(tmp_path)
    await resources.apply({"kind": "Secret", "metadata": {"name": "bmc"}, "data": {"password": "cGFzcw=="}})
    file = tmp_path / "Secret" / "bmc.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["../escape", "UPPER", "a/b", "", ".hidden", "x" * 300])
async def test_a_name_that_could_leave_the_directory_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        await LocalResources(tmp_path).apply(thing(name))


async def test_a_broken_file_is_named(tmp_path: Path) -> None:
    await LocalResources(tmp_path).apply(thing())
    (tmp_path / "Thing" / "one.json").write_text("{")
    with pytest.raises(LabError, match=r"one\.json is not a record"):
        LocalResources(tmp_path)


async def test_a_write_that_was_cut_off_leaves_the_record_before_it(tmp_path: Path) -> None:
    await LocalResources(tmp_path).apply(thing(size=1))
    (tmp_path / "Thing" / ".one.json.new").write_text('{"half":')
    record = await LocalResources(tmp_path).get("Thing", "one")
    assert record and record["spec"] == {"size": 1}
    assert [path.name for path in (tmp_path / "Thing").iterdir()] == ["one.json"]


async def test_a_cancelled_writer_leaves_memory_and_disk_the_same(tmp_path: Path) -> None:
    resources = LocalResources(tmp_path)
    writing = asyncio.create_task(resources.apply(thing(size=1)))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    settled = await resources.apply(thing("after"))
    stored = await resources.get("Thing", "one")
    assert stored == json.loads((tmp_path / "Thing" / "one.json").read_text())
    assert int(settled["metadata"]["resourceVersion"]) == 2
