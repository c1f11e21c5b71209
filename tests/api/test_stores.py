"""One suite for both stores, and for the one of the simulator."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from rackless.api.process import open_store
from rackless.api.stores import sqlite
from rackless.api.stores.port import Compacted, Full, Raced, Store, StoredChange
from rackless.simulation.api import Durable, SimulatedStore

from .conftest import Client

Open = Callable[[], Store]
DATA = b'{"apiVersion":"v1","kind":"X","metadata":{"name":"%s","uid":"u"}}'


@pytest.fixture(params=["sqlite", "simulated", pytest.param("etcd", marks=pytest.mark.real)])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param == "simulated":
        file = Durable()
        return lambda: SimulatedStore(file)
    description = f"sqlite:{tmp_path}/s.db" if request.param == "sqlite" else "etcd:" + request.getfixturevalue("etcd")
    return lambda: open_store(description)


@pytest.fixture
async def store(reopen: Open) -> AsyncIterator[Store]:
    opened = reopen()
    await opened.open()
    yield opened
    await opened.close()


def _data(name: str) -> bytes:
    return DATA % name.encode()


async def test_what_is_written_is_read_with_its_revision(store: Store) -> None:
    revision = await store.write("g/things/ns/a", 0, _data("a"))
    entry = store.get("g/things/ns/a")
    assert entry and entry.revision == revision <= store.revision
    assert b'"resourceVersion":"%d"' % revision in entry.data
    assert [e.key for e in store.entries("g/things")] == ["g/things/ns/a"]
    assert store.entries("g/things", "other") == []


async def test_a_write_must_know_what_it_replaces(store: Store) -> None:
    first = await store.write("g/things/ns/a", 0, _data("a"))
    with pytest.raises(Raced):
        await store.write("g/things/ns/a", 0, _data("b"))
    second = await store.write("g/things/ns/a", first, _data("b"))
    with pytest.raises(Raced):
        await store.write("g/things/ns/a", first, None)
    await store.write("g/things/ns/a", second, None)
    assert store.get("g/things/ns/a") is None


async def test_of_many_writers_of_one_key_exactly_one_wins_each_round(store: Store) -> None:
    revision = await store.write("g/things/ns/a", 0, _data("a"))
    for _ in range(5):
        results = await asyncio.gather(
            *(store.write("g/things/ns/a", revision, _data(f"w{n}")) for n in range(10)), return_exceptions=True
        )
        won = [result for result in results if isinstance(result, int)]
        assert len(won) == 1 and all(isinstance(r, Raced) for r in results if not isinstance(r, int))
        revision = won[0]


async def test_changes_come_in_order_and_history_repeats_them(store: Store) -> None:
    seen: list[StoredChange] = []
    store.subscribe(seen.extend)
    start = store.revision
    await asyncio.gather(*(store.write(f"g/things/ns/{n:03}", 0, _data(str(n))) for n in range(40)))
    entry = store.get("g/things/ns/007")
    assert entry
    await store.write("g/things/ns/007", entry.revision, None)
    await store.write("g/other/ns/x", 0, _data("x"))
    assert [c.revision for c in seen] == sorted(c.revision for c in seen)
    told = await store.history("g/things", start, store.revision)
    assert told == [change for change in seen if change.key.startswith("g/things/")]
    assert told[-1].deleted and told[-1].previous == entry.data


async def test_everything_survives_being_opened_again(store: Store, reopen: Open) -> None:
    for n in range(20):
        await store.write(f"g/things/ns/{n:03}", 0, _data(str(n)))
    before, revision = store.entries("g/things"), store.revision
    await store.write("/namespaces//ns", 0, _data("ns"))
    await store.write("/nodes//n", 0, _data("n"))
    core, revision = (store.get("/namespaces//ns"), store.entries("/nodes")), store.revision
    await store.close()
    again = reopen()
    await again.open()
    try:
        assert (again.entries("g/things"), again.revision) == (before, revision)
        assert (again.get("/namespaces//ns"), again.entries("/nodes")) == core and core[0] and core[1]
        assert len(await again.history("g/things", before[9].revision, revision)) == 10
    finally:
        await again.close()


async def test_the_past_can_be_listed_until_it_is_compacted(store: Store) -> None:
    first = await store.write("g/things/ns/a", 0, _data("a"))
    second = await store.write("g/things/ns/b", 0, _data("b"))
    third = await store.write("g/things/ns/a", first, None)
    assert [e.key for e in await store.entries_at("g/things", "", second)] == ["g/things/ns/a", "g/things/ns/b"]
    await store.compact(third)
    with pytest.raises(Compacted):
        await store.entries_at("g/things", "", second)
    with pytest.raises(Compacted):
        await store.history("g/things", first, store.revision)
    assert [e.key for e in store.entries("g/things")] == ["g/things/ns/b"]


async def test_revisions_never_go_back_after_compaction_and_reopening(store: Store, reopen: Open) -> None:
    first = await store.write("g/things/ns/a", 0, _data("a"))
    last = await store.write("g/things/ns/a", first, None)
    await store.compact(last)
    await store.close()
    again = reopen()
    await again.open()
    try:
        assert again.revision >= last
        assert await again.write("g/things/ns/a", 0, _data("a")) > last
    finally:
        await again.close()


@pytest.mark.real
@pytest.mark.parametrize(("bound", "most"), [("MOST_CHANGES", 5), ("MOST_CHANGED_BYTES", 1000)])
async def test_of_a_history_no_more_is_read_than_anybody_gets(
    store: Store, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    """All of it was read into memory, for each watch that begins far back, to find that it is too much."""
    monkeypatch.setattr(inspect.getmodule(type(store)), bound, most)
    start = revision = await store.write("g/things/ns/a", 0, _data("a"))
    for _ in range(3):
        revision = await store.write("g/things/ns/a", revision, _data("a"))
    assert len(await store.history("g/things", start, store.revision)) == 3
    for _ in range(12):
        revision = await store.write("g/things/ns/a", revision, _data("a"))
    with pytest.raises(Compacted):
        await store.history("g/things", start, store.revision)
    assert await store.history("g/others", start, store.revision) == []


async def test_sqlite_takes_so_many_bytes_of_objects_and_deletions_always(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in memory: whoever may create objects could take all of it."""
    monkeypatch.setattr(sqlite, "MOST_BYTES", 10_000)
    store = sqlite.SqliteStore(tmp_path / "s.db")
    await store.open()
    large = _data("a")[:-1] + b',"x":"%s"}' % (b"x" * 6000)
    first = await store.write("g/things/ns/a", 0, large)
    with pytest.raises(Full, match="must be deleted first"):
        await store.write("g/things/ns/b", 0, large)
    second = await store.write("g/things/ns/b", 0, _data("b"))
    with pytest.raises(Full):
        await store.write("g/things/ns/b", second, large)
    assert store.problem == "", "others go on"
    marked = await store.write("g/things/ns/a", first, large[:-1] + b',"deletionTimestamp":"now"}')
    await store.write("g/things/ns/a", marked, None)
    await store.write("g/things/ns/b", second, large)
    size = sum(len(entry.data) for entry in store.entries("g/things"))
    assert store._memory.size == size
    await store.close()
    store = sqlite.SqliteStore(tmp_path / "s.db")
    await store.open()
    assert store._memory.size == size
    with pytest.raises(Full):
        await store.write("g/things/ns/c", 0, large)
    await store.close()


async def test_who_creates_is_told_when_there_is_no_room(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "MOST_BYTES", 0)
    code, answer = await client.call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})
    assert code == 503 and "no room" in answer["message"] and "must be deleted" in answer["message"]
    assert (await client.get("/readyz"))[0] == 200
    code, _ = await client.call("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com")
    assert code == 200


async def test_large_changes_count_as_several_of_the_history(tmp_path: Path) -> None:
    store = sqlite.SqliteStore(tmp_path / "s.db")
    await store.open()
    revision = 0
    for _ in range(4):
        revision = await store.write("g/things/ns/a", revision, _data("a")[:-1] + b',"x":"%s"}' % (b"x" * 1_000_000))
    assert 950 < store.backlog < 1000
    await store.compact(revision)
    assert store.backlog == 0
    await store.close()


async def test_two_servers_on_one_etcd_see_each_other(etcd: str) -> None:
    one, two = open_store(f"etcd:{etcd}"), open_store(f"etcd:{etcd}")
    await one.open()
    await two.open()
    try:
        revision = await one.write("g/things/ns/a", 0, _data("a"))
        assert await two.fresh() >= revision
        assert two.get("g/things/ns/a") == one.get("g/things/ns/a")
        results = await asyncio.gather(
            *(store.write("g/things/ns/a", revision, _data("b")) for store in (one, two)), return_exceptions=True
        )
        assert sorted(type(result).__name__ for result in results) == ["Raced", "int"]
    finally:
        await one.close()
        await two.close()
