"""What only etcd has: writes that share a transaction, and several servers at once."""

from __future__ import annotations

import asyncio
import io
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from rackless.api.access.keys import ensure_token_key
from rackless.api.process import ApiServer, ApiSettings, open_store
from rackless.api.stores.groups import MOST_BYTES, SPAN, Write, next_group, packed, unpacked
from rackless.api.stores.port import Raced, Store, StoredChange
from rackless.errors import HypervisorError, InputError
from rackless.trust.authority import Authority, Use

from .conftest import WIDGETS, Client, Etcd, settings, widget, widget_definition
from .test_watch import Watching

DATA = b'{"apiVersion":"v1","kind":"X","metadata":{"name":"%s","uid":"u"}}'


def _data(name: str) -> bytes:
    return DATA % name.encode()


def _write(key: str, data: bytes | None = b"{}") -> Write:
    return Write(key, 0, data, asyncio.get_running_loop().create_future())


async def test_a_group_takes_what_fits_and_a_deletion_only_first() -> None:
    writes = [_write("a"), _write("b", None), _write("c"), _write("big", b"x" * MOST_BYTES), _write("d")]
    group, rest = next_group(writes, 100)
    assert [w.key for w in group.writes] == ["a", "c", "d"]
    group, rest = next_group(rest, 100)
    assert [w.key for w in group.writes] == ["b"]
    group, rest = next_group(rest, 100)
    assert [w.key for w in group.writes] == ["big"] and rest == []
    group, rest = next_group([_write(str(n)) for n in range(5)], 2)
    assert len(group.writes) == 2 and len(rest) == 3


@pytest.mark.parametrize("place", [0, 1, 99])
def test_the_place_in_a_transaction_is_kept_with_the_value(place: int) -> None:
    assert unpacked(7, packed(place, _data("a"))) == (7 * SPAN + place, _data("a"))


@pytest.fixture
async def pair(etcd: str) -> AsyncIterator[tuple[Store, Store]]:
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(2):
            store = open_store(f"etcd:{etcd}")
            await store.open()
            stack.push_async_callback(store.close)
            found.append(store)
        yield found[0], found[1]


@pytest.mark.real
async def test_writes_of_one_transaction_can_be_told_apart(pair: tuple[Store, Store]) -> None:
    one, two = pair
    start = one.revision
    first = await asyncio.gather(*(one.write(f"g/things/ns/{n:02}", 0, _data("old")) for n in range(30)))
    second = await asyncio.gather(*(one.write(f"g/things/ns/{n:02}", at, _data("new")) for n, at in enumerate(first)))
    versions = sorted([*first, *second])
    assert len(set(versions)) == 60
    assert len({version // SPAN for version in versions}) < 30, "they did not share transactions"
    await two.fresh()
    assert two.entries("g/things") == one.entries("g/things") and two.revision == one.revision
    story = await two.history("g/things", start, two.revision)
    assert [change.revision for change in story] == versions
    for at, version in enumerate(versions):
        assert await two.history("g/things", version, two.revision) == story[at + 1 :]
        state = {change.key: change.data for change in story[: at + 1]}
        assert {e.key: e.data for e in await two.entries_at("g/things", "", version)} == state


@pytest.mark.real
async def test_who_loses_in_a_group_loses_alone(pair: tuple[Any, Any]) -> None:
    one, two = pair
    at = await one.write("g/things/ns/a", 0, _data("a"))
    await two.fresh()
    # `one` does not hear of it before its own group was answered.
    heard: list[Any] = []
    apply, one._apply = one._apply, heard.append
    await two.write("g/things/ns/a", at, _data("b"))
    writes = [("x", 0), ("a", at), *((str(n), 0) for n in range(10))]
    tasks = [asyncio.create_task(one.write(f"g/things/ns/{name}", seen, _data("c"))) for name, seen in writes]
    async with asyncio.timeout(10):
        while not one._waiters:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    one._apply = apply
    for events in heard:
        apply(events)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[1], Raced)
    assert all(isinstance(result, int) for n, result in enumerate(results) if n != 1)
    entry = one.get("g/things/ns/a")
    assert entry == two.get("g/things/ns/a") and b'"name":"b"' in entry.data


@pytest.mark.real
async def test_two_servers_under_load_tell_the_same_story(pair: tuple[Store, Store]) -> None:
    stories: list[list[StoredChange]] = [[], []]
    for store, story in zip(pair, stories, strict=True):
        store.subscribe(story.extend)

    async def work(number: int) -> None:
        store = pair[number % 2]
        for step in range(10):
            # Some keys are everybody's: there, most writers are too late.
            key = f"g/things/ns/{'shared' if number % 3 == 0 else number}"
            entry = store.get(key)
            data = None if entry and step % 4 == 3 else _data(f"{number}-{step}")
            try:
                await store.write(key, entry.revision if entry else 0, data)
            except Raced:
                await store.fresh()

    await asyncio.gather(*map(work, range(24)))
    await asyncio.gather(*(store.fresh() for store in pair))
    assert stories[0] == stories[1] and len(stories[0]) > 160
    versions = [change.revision for change in stories[0]]
    assert versions == sorted(set(versions))
    assert pair[0].entries("g/things") == pair[1].entries("g/things")


@pytest.mark.real
async def test_a_write_too_large_for_etcd_is_refused_as_such(tmp_path: Path, etcd: str) -> None:
    async with ApiServer(settings(tmp_path, f"etcd:{etcd}")) as api, Client(api.url, tmp_path / "pki") as client:
        await client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widget_definition())
        body = io.BytesIO(orjson.dumps(widget("big", free={"text": "x" * 2_000_000})))
        code, answer = await client.call("POST", WIDGETS, body)
        assert (code, answer["reason"]) == (413, "RequestEntityTooLarge")
        assert (await client.get(f"{WIDGETS}/big"))[0] == 404
        await client.create(WIDGETS, widget("small"))


@pytest.mark.real
async def test_an_etcd_that_allows_few_operations_gets_smaller_groups(tmp_path: Path, etcd_process: Etcd) -> None:
    etcd_process.stop()
    etcd_process.more = ("--max-txn-ops", "8")
    etcd_process.start()
    store = open_store(f"etcd:{etcd_process.url}")
    await store.open()
    try:
        versions = await asyncio.gather(*(store.write(f"g/things/ns/{n}", 0, _data("a")) for n in range(60)))
        assert len(set(versions)) == 60 and len(store.entries("g/things")) == 60
    finally:
        await store.close()


@pytest.mark.real
async def test_what_one_server_acknowledged_every_server_knows(tmp_path: Path, etcd: str) -> None:
    """Behind a load balancer: each request to another server, at once, without asking whether it has heard."""
    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(3):
            api = await stack.enter_async_context(ApiServer(settings(tmp_path, f"etcd:{etcd}")))
            clients.append(await stack.enter_async_context(Client(api.url, tmp_path / "pki")))
        one, two, three = clients
        await one.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widget_definition())
        async with asyncio.timeout(60):
            for client in clients:  # definitions arrive when they arrive, as on the real servers
                while (await client.get(WIDGETS))[0] != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        for number in range(20):
            name = f"w{number}"
            made = await one.create(WIDGETS, widget(name))
            made["spec"]["size"] = 2
            code, made = await two.call("PUT", f"{WIDGETS}/{name}", made)
            assert code == 200, made
            assert (await three.merge(f"{WIDGETS}/{name}", {"spec": {"size": 2}}))[0] == 200
            assert (await one.merge(f"{WIDGETS}/{name}", {"spec": {"size": 3}}))[0] == 200
            code, answer = await two.merge(f"{WIDGETS}/{name}", {"spec": {"size": 2}})
            assert (code, answer["spec"]["size"]) == (200, 2)
            code, answer = await three.get(f"{WIDGETS}/{name}")
            assert (code, answer["spec"]["size"]) == (200, 2)
            assert (await one.call("DELETE", f"{WIDGETS}/{name}"))[0] == 200
            await two.create(WIDGETS, widget(name))
            assert (await three.call("DELETE", f"{WIDGETS}/{name}"))[0] == 200
            assert (await one.get(f"{WIDGETS}/{name}"))[0] == 404
            await one.create("/api/v1/namespaces", {"metadata": {"name": f"n{number}"}})
            await two.create(f"/api/v1/namespaces/n{number}/configmaps", {"metadata": {"name": "c"}})


@pytest.mark.real
async def test_etcd_may_ask_for_a_certificate_and_we_for_its_own(tmp_path: Path, etcd_process: Etcd) -> None:
    pki = tmp_path / "etcd-pki"
    etcd_process.stop()
    etcd_process.secure(pki)
    etcd_process.start()
    Authority.ensure(pki, "etcd").ensure_leaf("client", uses=(Use.CLIENT,))
    store = f"etcd:{etcd_process.url}"
    files = {"store_ca": pki / "ca.crt", "store_cert": pki / "client.crt", "store_key": pki / "client.key"}
    async with ApiServer(settings(tmp_path, store, **files)) as api, Client(api.url, tmp_path / "pki") as client:
        await client.create("/api/v1/namespaces", {"metadata": {"name": "a"}})
        assert (await client.get("/api/v1/namespaces/a"))[0] == 200
    other = Authority.ensure(tmp_path / "other", "other").certificate
    for wrong in ({"store_ca": other}, {"store_cert": None, "store_key": None}):
        with pytest.raises(HypervisorError, match="cannot be opened"):
            async with ApiServer(settings(tmp_path, store, **{**files, **wrong})):
                pass
    with pytest.raises(InputError, match="whom to believe"):
        open_store(store)
    with pytest.raises(InputError, match="cannot be used"):
        open_store(store, pki / "absent.crt")


@pytest.mark.real
async def test_servers_with_one_ca_honour_each_others_certificates_tokens_and_watches(
    tmp_path: Path, etcd: str
) -> None:
    """As on the control planes of a cluster: each has a folder of its own with the same CA and the same token key."""
    Authority.ensure(tmp_path / "a", "cluster")
    ensure_token_key(tmp_path / "a")
    (tmp_path / "b").mkdir()
    for name in ("ca.crt", "ca.key", "sa.key"):
        shutil.copy(tmp_path / "a" / name, tmp_path / "b" / name)
    async with AsyncExitStack() as stack:
        clients = []
        for name in "ab":
            own = ApiSettings(
                f"etcd:{etcd}", tmp_path / name, port=0, kubeconfig=tmp_path / f"kubeconfig-{name}",
                advertise="https://api.example:6443",
            )  # fmt: skip
            api = await stack.enter_async_context(ApiServer(own))
            clients.append(await stack.enter_async_context(Client(api.url, tmp_path / "a")))
        one, two = clients
        assert "https://api.example:6443" in (tmp_path / "kubeconfig-b").read_text()
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await one.create(accounts, {"metadata": {"name": "robot"}})
        token = (await one.create(f"{accounts}/robot/token", {}))["status"]["token"]
        assert (await two.get(f"{accounts}/robot"))[0] == 200  # it has heard of the account
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await two.create("/apis/authentication.k8s.io/v1/tokenreviews", review)
        assert answer["status"]["user"]["username"] == "system:serviceaccount:default:robot"
        maps = "/api/v1/namespaces/default/configmaps"
        seen = (await one.get(maps))[1]["metadata"]["resourceVersion"]
        made = await asyncio.gather(*(one.create(maps, {"metadata": {"name": f"m{n:02}"}}) for n in range(20)))
        versions = sorted(int(each["metadata"]["resourceVersion"]) for each in made)
        for at, start in [(-1, seen), *((n, str(version)) for n, version in enumerate(versions[:-1]))]:
            events = await Watching(two, maps, resourceVersion=start).take(len(versions) - at - 1)
            assert [int(event["object"]["metadata"]["resourceVersion"]) for event in events] == versions[at + 1 :]


@pytest.mark.real
async def test_when_a_member_of_etcd_dies_servers_go_on_with_the_others(
    tmp_path: Path, etcd_quorum: list[Etcd]
) -> None:
    urls = [member.url for member in etcd_quorum]
    async with AsyncExitStack() as stack:
        clients = []
        for turn in range(2):  # each server asks another member first
            store = "etcd:" + ",".join(urls[turn:] + urls[:turn])
            api = await stack.enter_async_context(ApiServer(settings(tmp_path, store)))
            clients.append(await stack.enter_async_context(Client(api.url, tmp_path / "pki")))
        maps = "/api/v1/namespaces/default/configmaps"
        start = (await clients[0].get(maps))[1]["metadata"]["resourceVersion"]
        acknowledged: set[str] = set()

        async def write(number: int, count: int) -> None:
            for step in range(count):
                name, client = f"c-{number}-{step}", clients[number % 2]
                for _ in range(300):
                    code, answer = await client.call("POST", maps, {"metadata": {"name": name}})
                    if code in (201, 409):  # the outcome of an earlier try may have been unknown
                        acknowledged.add(name)
                        break
                    assert code == 503, answer
                    await asyncio.sleep(0.1)

        writing = asyncio.gather(*(write(number, 30) for number in range(8)))
        while len(acknowledged) < 40:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        etcd_quorum[0].kill()
        await writing
        assert len(acknowledged) == 240
        stories = [await Watching(client, maps, resourceVersion=start).take(240) for client in clients]
        assert stories[0] == stories[1]
        assert {event["object"]["metadata"]["name"] for event in stories[0]} == acknowledged
        versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in stories[0]]
        assert versions == sorted(set(versions))


@pytest.mark.real
async def test_a_server_that_missed_what_was_compacted_ends_its_watches(tmp_path: Path, etcd: str) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    async with AsyncExitStack() as stack:
        apis, clients = [], []
        for _ in range(2):
            apis.append(await stack.enter_async_context(ApiServer(settings(tmp_path, f"etcd:{etcd}"))))
            clients.append(await stack.enter_async_context(Client(apis[-1].url, tmp_path / "pki")))
        away, there = clients
        for name in ("a", "b"):
            await away.create(maps, {"metadata": {"name": name}})
        seen = (await away.get(maps))[1]["metadata"]["resourceVersion"]
        events = Watching(away, maps, resourceVersion=seen).events()
        await away.merge(f"{maps}/a", {"data": {"x": "0"}})
        assert (await anext(events))["type"] == "MODIFIED"
        store: Any = apis[0].objects and apis[0].objects.store
        store._following.cancel()  # as if the network were gone
        await asyncio.wait([store._following])
        for value in ("1", "2"):
            await there.merge(f"{maps}/a", {"data": {"x": value}})
        await there.call("DELETE", f"{maps}/b")
        assert apis[1].objects
        await apis[1].objects.store.compact(apis[1].objects.store.revision)
        store._following = asyncio.create_task(store._follow())
        with pytest.raises(StopAsyncIteration):  # no half of a story
            async with asyncio.timeout(20):
                await anext(events)
        (gone,) = await Watching(away, maps, resourceVersion=seen).take(1)
        assert (gone["type"], gone["object"]["code"]) == ("ERROR", 410)
        _, listed = await away.get(maps)
        assert [(item["metadata"]["name"], item["data"]) for item in listed["items"]] == [("a", {"x": "2"})]
        events = Watching(away, maps, resourceVersion=listed["metadata"]["resourceVersion"]).events()
        await there.create(maps, {"metadata": {"name": "c"}})
        assert (await anext(events))["object"]["metadata"]["name"] == "c"
        await events.aclose()
