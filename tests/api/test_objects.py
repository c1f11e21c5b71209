"""The verbs over HTTP, as any client sees them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rackless.api.process import ApiServer

from .conftest import WIDGETS, Client, Json, widget

SECONDS = 20.0


async def looks() -> AsyncIterator[None]:
    """For what background work does: again and again, until it is done or takes too long even for a busy computer."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        yield
        await asyncio.sleep(0.01)


TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"


async def test_a_body_without_metadata_is_that_of_the_object_in_the_path(client: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    await client.create(path, {"metadata": {"name": "a"}})
    code, answer = await client.call("PUT", f"{path}/a", {"data": {"b": "c"}})
    assert (code, answer["metadata"]["name"], answer["data"]) == (200, "a", {"b": "c"})
    code, answer = await client.call(
        "PATCH", f"{path}/a", [{"op": "remove", "path": "/metadata"}], media="application/json-patch+json"
    )
    assert (code, answer["metadata"]["name"]) == (200, "a")


async def test_a_created_object_gets_what_the_server_owns(client: Client) -> None:
    body = widget("a")
    body["status"] = {"phase": "claimed"}
    made = await client.create(WIDGETS, body)
    metadata = made["metadata"]
    assert metadata["generation"] == 1 and metadata["uid"] and metadata["resourceVersion"] and metadata["namespace"]
    assert made["spec"] == {"size": 1, "color": "red"}
    assert "status" not in made
    code, again = await client.call("POST", WIDGETS, widget("a"))
    assert (code, again["reason"], again["message"]) == (
        409,
        "AlreadyExists",
        'widgets.example.com "a" already exists',
    )


async def test_generate_name_makes_names(client: Client) -> None:
    body = widget("")
    body["metadata"] = {"generateName": "w-"}
    made = await client.create(WIDGETS, body)
    assert made["metadata"]["name"].startswith("w-") and len(made["metadata"]["name"]) == 7


async def test_every_problem_is_told_at_once_in_the_servers_words(client: Client) -> None:
    code, answer = await client.call("POST", WIDGETS, widget("Bad_Name", size=0, color="green", tags=["a", "a"]))
    assert (code, answer["reason"]) == (422, "Invalid")
    assert {(c["field"], c["message"]) for c in answer["details"]["causes"]} >= {
        ("spec.size", "Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        ("spec.color", 'Unsupported value: "green": supported values: "red", "blue"'),
        ("spec.tags[1]", 'Duplicate value: "a"'),
    }
    code, answer = await client.call("POST", WIDGETS, {"apiVersion": "example.com/v1", "kind": "Widget",
                                                       "metadata": {"name": "x"}, "spec": {}})  # fmt: skip
    assert answer["message"] == 'Widget.example.com "x" is invalid: spec.size: Required value'


async def test_unknown_fields_are_pruned_and_told_as_asked(client: Client) -> None:
    code, answer = await client.call("POST", WIDGETS, widget("s", typo=1), fieldValidation="Strict")
    assert code == 400
    assert answer["message"].endswith('strict decoding error: unknown field "spec.typo"')
    made = await client.create(WIDGETS, widget("w", typo=1, free={"any": {"thing": 1}}))
    assert "typo" not in made["spec"] and made["spec"]["free"] == {"any": {"thing": 1}}
    assert client.headers["Warning"] == '299 - "unknown field \\"spec.typo\\""'
    await client.create(WIDGETS, widget("i", typo=1), fieldValidation="Ignore")
    assert "Warning" not in client.headers
    raw = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"d"},"spec":{"size":1,"size":2}}'
    code, answer = await client.call("POST", WIDGETS, raw, fieldValidation="Strict")
    assert code == 400 and 'duplicate field "spec.size"' in answer["message"]


async def test_an_update_must_have_seen_what_it_replaces(client: Client) -> None:
    made = await client.create(WIDGETS, widget("a"))
    newer = {**made, "spec": {"size": 2}}
    code, answer = await client.call("PUT", f"{WIDGETS}/a", newer)
    assert (code, answer["metadata"]["generation"]) == (200, 2)
    code, refused = await client.call("PUT", f"{WIDGETS}/a", newer)
    assert (code, refused["reason"]) == (409, "Conflict")
    assert refused["message"].startswith(
        'Operation cannot be fulfilled on widgets.example.com "a": the object has been'
    )
    blind = {**newer, "metadata": {"name": "a"}}
    code, refused = await client.call("PUT", f"{WIDGETS}/a", blind)
    assert code == 422 and "metadata.resourceVersion: Invalid value: 0x0: must be specified" in refused["message"]


async def test_a_write_that_changes_nothing_is_no_write(client: Client) -> None:
    made = await client.create(WIDGETS, widget("a"))
    _, same = await client.merge(f"{WIDGETS}/a", {"spec": {"size": 1}})
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_status_and_spec_are_written_apart(client: Client) -> None:
    await client.create(WIDGETS, widget("a"))
    _, answer = await client.merge(f"{WIDGETS}/a/status", {"spec": {"size": 9}, "status": {"phase": "Up"}})
    assert (answer["spec"]["size"], answer["status"], answer["metadata"]["generation"]) == (1, {"phase": "Up"}, 1)
    _, answer = await client.merge(f"{WIDGETS}/a", {"spec": {"size": 9}, "status": {"phase": "Down"}})
    assert (answer["spec"]["size"], answer["status"], answer["metadata"]["generation"]) == (9, {"phase": "Up"}, 2)


async def test_scale_reads_and_writes_the_paths_of_the_definition(client: Client) -> None:
    await client.create(WIDGETS, widget("a", replicas=2))
    _, scale = await client.get(f"{WIDGETS}/a/scale")
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 2)
    scale["spec"]["replicas"] = 5
    code, _ = await client.call("PUT", f"{WIDGETS}/a/scale", scale)
    assert code == 200
    _, whole = await client.get(f"{WIDGETS}/a")
    assert whole["spec"]["replicas"] == 5


async def test_finalizers_hold_an_object_that_is_being_deleted(client: Client) -> None:
    body = widget("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await client.create(WIDGETS, body)
    code, marked = await client.call("DELETE", f"{WIDGETS}/a")
    assert code == 200 and marked["metadata"]["deletionTimestamp"] and marked["metadata"]["generation"] == 2
    code, refused = await client.merge(f"{WIDGETS}/a", {"metadata": {"finalizers": ["example.com/hold", "b.c/d"]}})
    assert code == 422 and "no new finalizers can be added" in refused["message"]
    await client.merge(f"{WIDGETS}/a", {"metadata": {"finalizers": None}})
    code, gone = await client.get(f"{WIDGETS}/a")
    assert (code, gone["message"]) == (404, 'widgets.example.com "a" not found')


async def test_deletion_keeps_its_preconditions(client: Client) -> None:
    await client.create(WIDGETS, widget("a"))
    code, answer = await client.call("DELETE", f"{WIDGETS}/a", {"preconditions": {"uid": "other"}})
    assert (code, answer["reason"]) == (409, "Conflict")
    code, answer = await client.call("DELETE", f"{WIDGETS}/a")
    assert (code, answer["status"], answer["details"]["kind"]) == (200, "Success", "widgets")


async def test_selectors_choose_and_pages_are_of_one_revision(client: Client) -> None:
    for number in range(7):
        body = widget(f"w{number}")
        body["metadata"]["labels"] = {"n": str(number % 2)}
        await client.create(WIDGETS, body)
    _, some = await client.get(WIDGETS, labelSelector="n in (1)")
    assert [item["metadata"]["name"] for item in some["items"]] == ["w1", "w3", "w5"]
    _, one = await client.get(WIDGETS, fieldSelector="metadata.name=w4")
    assert [item["metadata"]["name"] for item in one["items"]] == ["w4"]
    code, refused = await client.get(WIDGETS, fieldSelector="spec.size=1")
    assert (code, refused["message"]) == (400, "field label not supported: spec.size")

    _, first = await client.get(WIDGETS, limit=3)
    assert len(first["items"]) == 3 and first["metadata"]["remainingItemCount"] == 4
    await client.call("DELETE", f"{WIDGETS}/w5")
    await client.create(WIDGETS, widget("w9"))
    _, rest = await client.get(WIDGETS, limit=10, **{"continue": first["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["w3", "w4", "w5", "w6"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_tables_have_the_columns_of_the_definition(client: Client) -> None:
    await client.create(WIDGETS, widget("a"))
    _, table = await client.call("GET", WIDGETS, accept=TABLE)
    assert table["kind"] == "Table"
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Phase", "Age"]
    assert table["rows"][0]["cells"][:3] == ["a", 1, None]


async def test_dry_run_answers_and_writes_nothing(client: Client, api: ApiServer) -> None:
    assert api.objects
    before = api.objects.store.revision
    await client.create(WIDGETS, widget("a"), dryRun="All")
    assert api.objects.store.revision == before
    assert (await client.get(f"{WIDGETS}/a"))[0] == 404


async def test_versions_show_the_same_object_under_their_name(client: Client) -> None:
    await client.create(WIDGETS, widget("a"))
    code, older = await client.get(WIDGETS.replace("/v1/", "/v1beta1/") + "/a")
    assert (code, older["apiVersion"]) == (200, "example.com/v1beta1")
    assert "deprecated" in client.headers["Warning"]


async def test_a_namespace_ends_with_its_content(client: Client) -> None:
    await client.create("/api/v1/namespaces", {"metadata": {"name": "n"}})
    await client.create(WIDGETS.replace("default", "n"), widget("a"))
    code, answer = await client.call("DELETE", "/api/v1/namespaces/n")
    assert (code, answer["status"]["phase"]) == (200, "Terminating")
    async for _ in looks():
        if (await client.get("/api/v1/namespaces/n"))[0] == 404:
            break
    assert (await client.get(WIDGETS.replace("default", "n") + "/a"))[0] == 404
    code, answer = await client.call("POST", WIDGETS.replace("default", "n"), widget("b"))
    assert (code, answer["message"]) == (404, 'namespaces "n" not found')


async def test_a_definition_takes_its_objects_with_it(client: Client) -> None:
    await client.create(WIDGETS, widget("a"))
    await client.call("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com")
    async for _ in looks():
        code, _ = await client.get(WIDGETS)
        if code == 404:
            break
    assert code == 404


@pytest.mark.parametrize("kind", ["Background", "Foreground", "Orphan"])
async def test_dependents_follow_their_owner_as_the_policy_says(client: Client, kind: str) -> None:
    owner = await client.create(WIDGETS, widget("owner"))
    child = widget("child")
    child["metadata"]["ownerReferences"] = [
        {"apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": owner["metadata"]["uid"],
         "blockOwnerDeletion": True}
    ]  # fmt: skip
    await client.create(WIDGETS, child)
    await client.call("DELETE", f"{WIDGETS}/owner", {"propagationPolicy": kind})
    async for _ in looks():
        owner_code, _ = await client.get(f"{WIDGETS}/owner")
        child_code, left = await client.get(f"{WIDGETS}/child")
        if owner_code == 404 and (
            child_code == 404 or (kind == "Orphan" and "ownerReferences" not in left["metadata"])
        ):
            break
    assert owner_code == 404
    assert child_code == (200 if kind == "Orphan" else 404)


def _owned(name: str, *owners: Json, **metadata: Any) -> Json:
    child = widget(name)
    child["metadata"] |= metadata
    child["metadata"]["ownerReferences"] = [
        {"apiVersion": "example.com/v1", "kind": "Widget", "name": owner["metadata"]["name"],
         "uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}
        for owner in owners
    ]  # fmt: skip
    return child


async def test_in_the_foreground_an_owner_goes_after_its_last_dependent(client: Client) -> None:
    owner = await client.create(WIDGETS, widget("owner"))
    other = await client.create(WIDGETS, widget("other"))
    await client.create(WIDGETS, _owned("held", owner, finalizers=["example.com/hold"]))
    await client.create(WIDGETS, _owned("shared", owner, other))
    code, answer = await client.call("DELETE", f"{WIDGETS}/owner", {"propagationPolicy": "Foreground"})
    assert code == 202 and answer["metadata"]["finalizers"] == ["foregroundDeletion"]
    async for _ in looks():
        _, held = await client.get(f"{WIDGETS}/held")
        _, shared = await client.get(f"{WIDGETS}/shared")
        if "deletionTimestamp" in held["metadata"] and len(shared["metadata"]["ownerReferences"]) == 1:
            break
    assert "deletionTimestamp" in held["metadata"]
    assert [o["name"] for o in shared["metadata"]["ownerReferences"]] == ["other"]
    assert "deletionTimestamp" not in shared["metadata"]
    code, left = await client.get(f"{WIDGETS}/owner")
    assert code == 200 and "deletionTimestamp" in left["metadata"]
    await client.merge(f"{WIDGETS}/held", {"metadata": {"finalizers": None}})
    async for _ in looks():
        code, _ = await client.get(f"{WIDGETS}/owner")
        if code == 404:
            break
    assert code == 404
    assert (await client.get(f"{WIDGETS}/shared"))[0] == 200


async def test_discovery_tells_of_the_new_kind_in_both_forms(client: Client) -> None:
    _, groups = await client.get("/apis")
    assert "example.com" in {group["name"] for group in groups["groups"]}
    _, whole = await client.call(
        "GET", "/apis", accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    )
    mine = next(item for item in whole["items"] if item["metadata"]["name"] == "example.com")
    assert [version["version"] for version in mine["versions"]] == ["v1", "v1beta1"]
    assert [s["subresource"] for s in mine["versions"][0]["resources"][0]["subresources"]] == ["status", "scale"]
    _, document = await client.get("/openapi/v3/apis/example.com/v1")
    assert "com.example.v1.Widget" in document["components"]["schemas"]
