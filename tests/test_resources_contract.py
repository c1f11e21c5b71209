"""What every keeper of records does, be it memory or a Kubernetes API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from rackless.api.process import ApiServer, ApiSettings
from rackless.drivers.fake.resources import MemoryResources
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.errors import InputError
from rackless.ports.api import Access
from rackless.ports.resources import ALL, Conflict, Record, Resources

KIND = "BareMetalHost"
WELL: Record = {
    "operationalStatus": "OK",
    "errorMessage": "",
    "errorCount": 0,
    "provisioningFailCount": 0,
    "poweredOn": True,
    "provisioning": {"state": "available", "ID": "1"},
    "errorType": "inspection error",
}
ILL = {**WELL, "operationalStatus": "error"}


def host(name: str = "one", **spec: Any) -> Record:
    wanted = {"online": True, **spec}
    return {"apiVersion": "metal3.io/v1alpha1", "kind": KIND, "metadata": {"name": name}, "spec": wanted}


@pytest.fixture(params=["memory", "api"])
async def resources(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Resources]:
    match request.param:
        case "memory":
            yield MemoryResources()
        case "api":
            pki = tmp_path / "pki"
            settings = ApiSettings(f"sqlite:{tmp_path}/objects.db", pki, port=0, kubeconfig=tmp_path / "kubeconfig")
            async with ApiServer(settings) as api:
                found = KubernetesResources(
                    Access(api.url, pki / "ca.crt", pki / "admin.crt", pki / "admin.key"), patience=5
                )
                yield found
                await found.close()


async def test_what_is_not_there_is_none_and_the_list_is_empty(resources: Resources) -> None:
    assert await resources.get(KIND, "one") is None
    assert await resources.list(KIND) == []
    await resources.delete(KIND, "one")


async def test_a_record_keeps_its_uid_and_counts_generations_by_changes_of_its_spec(resources: Resources) -> None:
    first = await resources.apply(host(description="a"))
    same = await resources.apply(host(description="a"))
    other = await resources.apply(host(description="b"))
    status = await resources.patch_status(KIND, "one", WELL)
    assert first["metadata"]["generation"] == 1 and first["metadata"]["uid"]
    assert same == first
    assert other["metadata"]["uid"] == first["metadata"]["uid"]
    assert other["metadata"]["generation"] == status["metadata"]["generation"] == 2
    assert int(status["metadata"]["resourceVersion"]) > int(other["metadata"]["resourceVersion"])
    assert await resources.get(KIND, "one") == status


async def test_a_list_has_whole_records_in_the_order_of_their_names(resources: Resources) -> None:
    two, one = await resources.apply(host("two")), await resources.apply(host("one"))
    assert await resources.list(KIND) == [one, two]


async def test_applying_keeps_the_status_and_an_invented_one_is_not_taken(resources: Resources) -> None:
    new = await resources.apply({**host(), "status": ILL})
    assert "status" not in new
    await resources.patch_status(KIND, "one", WELL)
    again = await resources.apply({**host(description="b"), "status": ILL})
    assert again["status"] == WELL


async def test_a_status_is_replaced_and_not_merged(resources: Resources) -> None:
    await resources.apply(host())
    await resources.patch_status(KIND, "one", WELL)
    without = {name: value for name, value in WELL.items() if name != "errorType"}
    assert (await resources.patch_status(KIND, "one", without))["status"] == without


async def test_a_status_leaves_the_spec_and_the_metadata_alone(resources: Resources) -> None:
    record = host(description="a")
    record["metadata"].update(finalizers=["a.test/keep"], annotations={"note": "mine"})
    stored = await resources.apply(record)
    fresh = await resources.patch_status(
        KIND, "one", WELL, resource_version=stored["metadata"]["resourceVersion"]
    )  # fmt: skip
    assert fresh["spec"] == stored["spec"]
    assert {**fresh["metadata"], "resourceVersion": ""} == {**stored["metadata"], "resourceVersion": ""}


async def test_writing_on_an_old_version_is_a_conflict(resources: Resources) -> None:
    old = await resources.apply(host())
    await resources.patch_status(KIND, "one", WELL)
    with pytest.raises(Conflict):
        await resources.patch_status(KIND, "one", ILL, resource_version=old["metadata"]["resourceVersion"])
    with pytest.raises(Conflict):
        await resources.apply({**old, "spec": {"online": False}})


async def test_writing_on_a_record_that_is_gone_is_a_conflict(resources: Resources) -> None:
    old = await resources.apply(host())
    await resources.delete(KIND, "one")
    with pytest.raises(Conflict):
        await resources.apply(old)
    with pytest.raises(Conflict):
        await resources.patch_status(KIND, "one", WELL)
    with pytest.raises(Conflict):
        await resources.patch_status(KIND, "one", WELL, resource_version=old["metadata"]["resourceVersion"])


async def test_two_who_apply_at_once_without_a_version_both_succeed(resources: Resources) -> None:
    await asyncio.gather(*(resources.apply(host(description=str(number))) for number in range(8)))
    await asyncio.gather(*(resources.apply(host(description=str(number))) for number in range(8)))
    record = await resources.get(KIND, "one")
    assert record and record["metadata"]["generation"] > 8


async def test_a_record_with_finalizers_is_marked_and_goes_when_the_last_one_is_taken_off(resources: Resources) -> None:
    record = host()
    record["metadata"]["finalizers"] = ["a.test/keep"]
    await resources.apply(record)
    await resources.delete(KIND, "one")
    await resources.delete(KIND, "one")
    marked = await resources.get(KIND, "one")
    assert marked and marked["metadata"]["deletionTimestamp"]
    marked["metadata"]["finalizers"] = []
    await resources.apply(marked)
    assert await resources.get(KIND, "one") is None


async def test_applying_leaves_the_finalizers_and_annotations_it_does_not_mention(resources: Resources) -> None:
    record = await resources.apply(host())
    record["metadata"].update(finalizers=["a.test/keep"], annotations={"note": "mine"}, labels={"role": "a"})
    await resources.apply(record)
    again = host(description="b")
    again["metadata"]["labels"] = {}
    fresh = (await resources.apply(again))["metadata"]
    assert (fresh["finalizers"], fresh["annotations"]) == (["a.test/keep"], {"note": "mine"})
    assert not fresh.get("labels")


async def test_a_watch_shows_what_is_there_and_then_what_changes(resources: Resources) -> None:
    await resources.apply(host("one"))
    seen: list[tuple[str, str]] = []
    begun = asyncio.Event()

    async def look() -> None:
        async with aclosing(resources.watch(KIND)) as events:
            async for event in events:
                begun.set()
                assert event.record["kind"] == KIND and event.record["apiVersion"]
                seen.append((event.type, event.record["metadata"]["name"]))
                if event.type == "DELETED":
                    return

    async with asyncio.timeout(10):
        watching = asyncio.create_task(look())
        await begun.wait()
        await resources.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other"}, "data": {}})
        await resources.apply(host("two"))
        await resources.patch_status(KIND, "two", WELL)
        await resources.delete(KIND, "one")
        await watching
    assert seen == [("ADDED", "one"), ("ADDED", "two"), ("MODIFIED", "two"), ("DELETED", "one")]


async def test_a_secret_is_kept_as_it_was_given(resources: Resources) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"}, "type": "Opaque"}
    first = await resources.apply({**secret, "data": {"password": "cGFzcw=="}})
    assert await resources.apply({**secret, "data": {"password": "cGFzcw=="}}) == first
    await resources.apply({**secret, "data": {"username": "YQ=="}})
    record = await resources.get("Secret", "bmc")
    assert record and record["data"] == {"username": "YQ=="}


@pytest.mark.parametrize("name", ["../escape", "UPPER", "a/b", "", "x" * 300])
async def test_a_name_that_leads_elsewhere_is_refused(resources: Resources, name: str) -> None:
    with pytest.raises(InputError):
        await resources.apply(host(name))


async def test_a_patch_is_merged_in_one_go_and_none_takes_a_field_out(resources: Resources) -> None:
    record = host(description="a")
    record["metadata"]["annotations"] = {"one": "1", "two": "2"}
    await resources.apply(record)
    change = {"metadata": {"annotations": {"one": None, "three": "3"}}, "spec": {"description": None}}
    fresh = await resources.patch(KIND, "one", change)
    assert fresh["metadata"]["annotations"] == {"two": "2", "three": "3"}
    assert "description" not in fresh["spec"] and fresh["spec"]["online"] is True
    assert fresh["metadata"]["generation"] == 2


async def test_a_patch_of_the_status_touches_nothing_else(resources: Resources) -> None:
    stored = await resources.apply(host())
    await resources.patch_status(KIND, "one", ILL)
    change = {"status": {"operationalStatus": "OK", "errorType": None}, "spec": {"online": False}}
    fresh = await resources.patch(KIND, "one", change, status=True)
    assert fresh["status"] == {name: value for name, value in WELL.items() if name != "errorType"}
    assert fresh["spec"] == stored["spec"]


async def test_a_patch_on_an_old_version_or_of_what_is_gone_is_a_conflict(resources: Resources) -> None:
    old = (await resources.apply(host()))["metadata"]["resourceVersion"]
    await resources.patch(KIND, "one", {"spec": {"description": "b"}}, resource_version=old)
    with pytest.raises(Conflict):
        await resources.patch(KIND, "one", {"spec": {"description": "c"}}, resource_version=old)
    with pytest.raises(Conflict):
        await resources.patch(KIND, "one", {"status": WELL}, status=True, resource_version=old)
    with pytest.raises(Conflict):
        await resources.patch(KIND, "two", {"spec": {"description": "c"}})


async def test_what_is_created_must_not_be_there(resources: Resources) -> None:
    made = await resources.create(host())
    assert made["metadata"]["uid"]
    with pytest.raises(Conflict):
        await resources.create(host())


async def test_namespaces_are_apart_and_all_of_them_can_be_asked_at_once(resources: Resources) -> None:
    here = await resources.apply(host())
    other = host(description="elsewhere")
    other["metadata"]["namespace"] = "elsewhere"
    there = await resources.apply(other)
    assert here["metadata"]["namespace"] == resources.namespace and there["metadata"]["namespace"] == "elsewhere"
    assert await resources.list(KIND) == [here]
    assert await resources.list(KIND, namespace=ALL) == [there, here]
    await resources.patch(KIND, "one", {"spec": {"description": "x"}}, namespace="elsewhere")
    assert await resources.get(KIND, "one") == here
    await resources.delete(KIND, "one", namespace="elsewhere")
    assert await resources.get(KIND, "one", namespace="elsewhere") is None
    assert await resources.get(KIND, "one") == here


async def test_kinds_of_the_whole_cluster_have_no_namespace(resources: Resources) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}}
    made = await resources.apply(node)
    assert "namespace" not in made["metadata"]
    assert [found["metadata"]["name"] for found in await resources.list("Node")] == ["node-0"]
    assert await resources.get("Node", "node-0") == made


async def test_labels_choose_what_is_listed_and_watched(resources: Resources) -> None:
    for name, rack in (("one", "a"), ("two", "b"), ("three", "a")):
        record = host(name)
        record["metadata"]["labels"] = {"rack": rack}
        await resources.apply(record)
    found = await resources.list(KIND, labels={"rack": "a"})
    assert [record["metadata"]["name"] for record in found] == ["one", "three"]

    seen: list[tuple[str, str]] = []
    begun = asyncio.Event()

    async def look() -> None:
        async with aclosing(resources.watch(KIND, labels={"rack": "a"}, bookmarks=True)) as events:
            async for event in events:
                if event.type == "BOOKMARK":
                    begun.set()
                    continue
                seen.append((event.type, event.record["metadata"]["name"]))
                if event.record["metadata"]["name"] == "two":
                    return

    async with asyncio.timeout(10):
        watching = asyncio.create_task(look())
        await begun.wait()
        await resources.patch(KIND, "one", {"metadata": {"labels": {"rack": "c"}}})
        await resources.patch(KIND, "two", {"metadata": {"labels": {"rack": "a"}}})
        await watching
    assert seen == [("ADDED", "one"), ("ADDED", "three"), ("DELETED", "one"), ("ADDED", "two")]


async def test_a_watch_says_when_all_that_was_there_has_been_told_also_when_there_was_nothing(
    resources: Resources,
) -> None:
    async with asyncio.timeout(10), aclosing(resources.watch(KIND, bookmarks=True)) as events:
        assert (await anext(events)).type == "BOOKMARK"


async def test_deleting_by_uid_spares_one_made_anew_under_the_name(resources: Resources) -> None:
    first = await resources.apply(host())
    await resources.delete(KIND, "one")
    second = await resources.apply(host())
    await resources.delete(KIND, "one", uid=first["metadata"]["uid"])
    assert await resources.get(KIND, "one") == second
    await resources.delete(KIND, "one", uid=second["metadata"]["uid"])
    assert await resources.get(KIND, "one") is None
