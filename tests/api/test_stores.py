"""One suite for both stores, and for the one of the simulator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from rackless.api.process import open_store
from rackless.api.stores.port import Compacted, Raced, Store, StoredChange
from rackless.simulation.api import Durable, SimulatedStore

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
