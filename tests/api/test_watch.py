"""Watches: no event lost, none twice, order kept; across resumes, restarts and compaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import orjson
import pytest

from rackless.api.objects import watching
from rackless.api.objects.watching import Filter, Hub
from rackless.api.process import ApiServer
from rackless.api.selectors import parse_labels
from rackless.api.stores.memory import ObjectsInMemory

from .conftest import WIDGETS, Client, Etcd, Json, settings, widget, widget_definition


class Watching:
    """One watch as a client holds it."""

    def __init__(self, client: Client, path: str = WIDGETS, **query: Any) -> None:
        self._client, self._path, self._query = client, path, {"watch": 1, **query}

    async def events(self) -> AsyncGenerator[Json, None]:
        assert self._client.session
        parameters = {key: str(value) for key, value in self._query.items()}
        async with self._client.session.get(self._client.url + self._path, params=parameters) as response:
            assert response.status == 200, await response.text()
            async for line in response.content:
                yield orjson.loads(line)

    async def take(self, count: int) -> list[Json]:
        found: list[Json] = []
        async with asyncio.timeout(60):
            async for event in self.events():
                found.append(event)
                if len(found) == count:
                    break
        return found


def _brief(events: list[Json]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


async def _revision(client: Client) -> str:
    return str((await client.get(WIDGETS))[1]["metadata"]["resourceVersion"])


async def test_a_watch_tells_what_happens_after_the_revision_it_names(client: Client) -> None:
    await client.create(WIDGETS, widget("before"))
    start = await _revision(client)
    await client.create(WIDGETS, widget("a"))
    await client.merge(f"{WIDGETS}/a", {"spec": {"size": 2}})
    await client.call("DELETE", f"{WIDGETS}/a")
    events = await Watching(client, resourceVersion=start).take(3)
    assert _brief(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert revisions == sorted(set(revisions)) and revisions[0] > int(start)


async def test_a_watch_without_a_revision_begins_with_what_is_there(client: Client) -> None:
    await client.create(WIDGETS, widget("a"))
    task = asyncio.create_task(Watching(client).take(2))
    await asyncio.sleep(0.1)
    await client.create(WIDGETS, widget("b"))
    assert _brief(await task) == [("ADDED", "a"), ("ADDED", "b")]


async def test_initial_events_end_with_a_marked_bookmark(client: Client) -> None:
    await client.create(WIDGETS, widget("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    first, mark = await Watching(client, **query).take(2)
    assert _brief([first]) == [("ADDED", "a")]
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    code, refused = await client.get(WIDGETS, watch=1, sendInitialEvents="true")
    assert code == 422 and "resourceVersionMatch" in refused["message"]


async def test_objects_enter_and_leave_a_selection(client: Client) -> None:
    await client.create(WIDGETS, widget("a"))
    start = await _revision(client)
    for label in ("yes", "no", "yes"):
        await client.merge(f"{WIDGETS}/a", {"metadata": {"labels": {"in": label}}})
    await client.call("DELETE", f"{WIDGETS}/a")
    events = await Watching(client, resourceVersion=start, labelSelector="in=yes").take(4)
    assert [event["type"] for event in events] == ["ADDED", "DELETED", "ADDED", "DELETED"]


async def test_what_is_kept_for_watches_that_begin_a_little_back_is_bounded_in_bytes(
    client: Client, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two thousand changes of an object of a megabyte, by whoever may patch one, were gigabytes of memory."""
    assert api.objects
    hub, path = api.objects.hub, "/api/v1/namespaces/default/configmaps"
    monkeypatch.setattr(watching, "_WINDOW_BYTES", 500_000)
    first = (await client.create(path, {"metadata": {"name": "a"}}))["metadata"]["resourceVersion"]
    for number in range(20):
        code, _ = await client.merge(f"{path}/a", {"data": {"a": str(number % 10) * 100_000}})
        assert code == 200
    kept = [len(event.change.data) for event in hub._window]
    assert 0 < len(kept) <= 5 and hub._window_size == sum(kept) <= 500_000
    events = await Watching(client, path, resourceVersion=first).take(20)
    assert [event["object"]["data"]["a"][0] for event in events] == [str(number % 10) for number in range(20)]
    last = [event["object"]["metadata"]["resourceVersion"] for event in events][-3]
    assert len(await Watching(client, path, resourceVersion=last).take(2)) == 2


async def test_a_large_selector_looks_into_few_events_at_a_time() -> None:
    """Each of 256 requirements is asked of an object twice: in one turn with hundreds of events that took all others' time."""
    memory = ObjectsInMemory()
    hub = Hub(memory)  # type: ignore[arg-type]
    picky = Filter("default", parse_labels(",".join(f"!k{number}" for number in range(256))))
    watchers = [(await hub.watch("example.com/widgets", wanted, 0))[0] for wanted in (Filter("default"), picky)]
    data = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"}}'
    memory.apply([(f"example.com/widgets/default/w{number}", number + 1, data) for number in range(400)])
    assert len(await watchers[0].batch(1)) == 400
    seen: list[int] = []
    while len(seen) < 400:
        batch = await watchers[1].batch(1)
        assert 1 <= len(batch) <= 10
        seen += [event.change.revision for _, event in batch]
    assert seen == list(range(1, 401)) and watchers[1].size == 0


async def test_a_watch_ends_when_its_time_is_up_with_a_bookmark_to_resume_from(client: Client) -> None:
    events = [e async for e in Watching(client, timeoutSeconds=1, allowWatchBookmarks="true").events()]
    assert events[-1]["type"] == "BOOKMARK"


async def test_history_that_was_compacted_is_gone(client: Client, api: ApiServer) -> None:
    start = await _revision(client)
    await client.create(WIDGETS, widget("a"))
    assert api.objects
    for number in range(3):
        await client.merge(f"{WIDGETS}/a", {"spec": {"size": number + 2}})
    await api.objects.store.compact(api.objects.store.revision)
    api.objects.hub._since = api.objects.store.revision  # as after a restart: nothing in memory
    (event,) = await Watching(client, resourceVersion=start).take(1)
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


@pytest.mark.parametrize("store", ["sqlite", pytest.param("etcd", marks=pytest.mark.real)])
async def test_many_writers_and_watchers_agree_across_restarts_and_compaction(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    """Watchers that resume after every restart see exactly one gapless story, the same for all."""
    description = "" if store == "sqlite" else "etcd:" + request.getfixturevalue("etcd")
    stories: list[list[tuple[str, str, int]]] = [[] for _ in range(5)]
    seen = ["0"] * len(stories)
    for round_number in range(3):
        async with ApiServer(settings(tmp_path, description)) as api, Client(api.url, tmp_path / "pki") as client:
            if not round_number:
                await client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widget_definition())
                seen = [await _revision(client)] * len(stories)
            await _round(client, api, round_number, stories, seen)
    first = stories[0]
    assert len(first) == 3 * 4 * 12
    assert [revision for _, _, revision in first] == sorted({revision for _, _, revision in first})
    assert all(story == first for story in stories)


async def _eventually(client: Client, method: str, path: str, wanted: int, body: Json | None = None) -> None:
    for _ in range(600):
        code, answer = await client.call(method, path, body)
        if code == wanted:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(answer)


@pytest.mark.real
async def test_an_etcd_that_comes_back_is_followed_again_without_a_gap(tmp_path: Path, etcd_process: Etcd) -> None:
    async with (
        ApiServer(settings(tmp_path, f"etcd:{etcd_process.url}")) as api,
        Client(api.url, tmp_path / "pki") as client,
    ):
        await client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widget_definition())
        await client.create(WIDGETS, widget("before"))
        events = Watching(client).events()
        assert _brief([await anext(events)]) == [("ADDED", "before")]
        etcd_process.stop()
        code, answer = await client.call("POST", WIDGETS, widget("during"))
        assert (code, answer["reason"]) == (503, "ServiceUnavailable")
        await _eventually(client, "GET", "/readyz", 500)
        await asyncio.to_thread(etcd_process.start)
        await _eventually(client, "POST", WIDGETS, 201, widget("after"))
        assert _brief([await anext(events)]) == [("ADDED", "after")]
        await events.aclose()
        await _eventually(client, "GET", "/readyz", 200)
        for _ in range(20):  # connections from before are not used again
            assert (await client.get(WIDGETS))[0] == 200


async def _round(
    client: Client,
    api: ApiServer,
    number: int,
    stories: list[list[tuple[str, str, int]]],
    seen: list[str],
) -> None:
    async def follow(index: int) -> None:
        async for event in Watching(client, resourceVersion=seen[index]).events():
            metadata = event["object"]["metadata"]
            stories[index].append((event["type"], metadata["name"], int(metadata["resourceVersion"])))
            seen[index] = metadata["resourceVersion"]

    async def write(writer: int) -> None:
        for step in range(4):
            name = f"w{number}-{writer}-{step}"
            await client.create(WIDGETS, widget(name))
            await client.merge(f"{WIDGETS}/{name}", {"spec": {"size": 2}})
            await client.call("DELETE", f"{WIDGETS}/{name}")

    watchers = [asyncio.create_task(follow(index)) for index in range(len(stories))]
    await asyncio.gather(*(write(writer) for writer in range(4)))
    assert api.objects
    # nothing that one of them has not seen: who is behind that line is told to begin anew
    await api.objects.store.compact(min(map(int, seen)))
    async with asyncio.timeout(60):
        while len({len(story) for story in stories}) > 1 or len(stories[0]) < (number + 1) * 48:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    for watcher in watchers:
        watcher.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)
