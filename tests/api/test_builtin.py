"""What is built in: kinds with habits of their own, forms of answers, and the documents that describe them."""

from __future__ import annotations

import orjson
import pytest

from .conftest import WIDGETS, Client, Json, widget

DEFAULT = "/api/v1/namespaces/default"
STRATEGIC = "application/strategic-merge-patch+json"


async def test_an_event_is_one_object_in_two_groups(client: Client) -> None:
    about = {"kind": "Widget", "namespace": "default", "name": "a"}
    core = {
        "metadata": {"name": "e1"},
        "involvedObject": about,
        "reason": "Made",
        "message": "as wanted",
        "type": "Normal",
        "source": {"component": "test"},
        "firstTimestamp": "2024-01-01T00:00:00Z",
        "lastTimestamp": "2024-01-01T00:00:00Z",
        "count": 2,
    }
    await client.create(f"{DEFAULT}/events", core)
    code, other = await client.get("/apis/events.k8s.io/v1/namespaces/default/events/e1")
    assert (code, other["apiVersion"]) == (200, "events.k8s.io/v1")
    assert (other["regarding"]["name"], other["note"], other["deprecatedCount"]) == ("a", "as wanted", 2)
    new = {
        "metadata": {"name": "e2"},
        "regarding": about,
        "reason": "Grown",
        "note": "by one",
        "type": "Normal",
        "action": "Grow",
        "eventTime": "2024-01-01T00:00:00.000000Z",
        "reportingController": "test/c",
        "reportingInstance": "c-1",
    }
    await client.create("/apis/events.k8s.io/v1/namespaces/default/events", new)
    _, listed = await client.get(f"{DEFAULT}/events", fieldSelector="involvedObject.name=a,reason=Grown")
    assert [(e["metadata"]["name"], e["message"]) for e in listed["items"]] == [("e2", "by one")]


async def test_built_in_kinds_merge_lists_by_their_keys_and_custom_ones_refuse_to(client: Client) -> None:
    await client.create("/api/v1/nodes", {"metadata": {"name": "n1"}})
    for kind, value in (("Ready", "False"), ("DiskPressure", "False"), ("Ready", "True")):
        condition = {"type": kind, "status": value, "reason": "x", "message": "y"}
        code, node = await client.call(
            "PATCH", "/api/v1/nodes/n1/status", {"status": {"conditions": [condition]}}, media=STRATEGIC
        )
        assert code == 200, node
    assert {c["type"]: c["status"] for c in node["status"]["conditions"]} == {"Ready": "True", "DiskPressure": "False"}
    await client.create(WIDGETS, widget("a"))
    code, answer = await client.call("PATCH", f"{WIDGETS}/a", {"spec": {"size": 2}}, media=STRATEGIC)
    assert (code, answer["reason"]) == (415, "UnsupportedMediaType")


async def test_a_collection_is_deleted_as_far_as_it_is_selected(client: Client) -> None:
    for name, color in (("a", "red"), ("b", "blue"), ("c", "blue")):
        body = widget(name)
        body["metadata"]["labels"] = {"color": color}
        await client.create(WIDGETS, body)
    code, removed = await client.call("DELETE", WIDGETS, labelSelector="color=blue")
    assert code == 200 and len(removed["items"]) == 2
    assert [w["metadata"]["name"] for w in (await client.get(WIDGETS))[1]["items"]] == ["a"]


async def test_secrets_take_plain_text_and_never_show_it_as_such(client: Client) -> None:
    made = await client.create(
        f"{DEFAULT}/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}, "type": "Opaque"}
    )
    assert made["data"] == {"a": "Yg=="} and "stringData" not in made
    code, refused = await client.merge(f"{DEFAULT}/secrets/s", {"type": "other"})
    assert code == 422 and "immutable" in refused["message"]


async def test_leases_may_be_made_by_an_update(client: Client) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    lease: Json = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 5}}
    code, made = await client.call("PUT", path, lease)
    assert code == 201
    made["spec"]["holderIdentity"] = "you"
    assert (await client.call("PUT", path, made))[0] == 200
    code, refused = await client.call("PUT", path, made)
    assert (code, refused["reason"]) == (409, "Conflict")


@pytest.mark.parametrize("form", ["PartialObjectMetadata", "PartialObjectMetadataList"])
async def test_metadata_alone_can_be_had(client: Client, form: str) -> None:
    await client.create(WIDGETS, widget("a"))
    accept = f"application/json;as={form};g=meta.k8s.io;v=v1"
    path = WIDGETS if form.endswith("List") else f"{WIDGETS}/a"
    code, answer = await client.call("GET", path, accept=accept)
    assert (code, answer["kind"]) == (200, form)
    one = answer["items"][0] if form.endswith("List") else answer
    assert one["metadata"]["name"] == "a" and "spec" not in one


async def test_yaml_is_read_and_written(client: Client) -> None:
    raw = b"apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: y\nspec:\n  size: 3\n"
    code, text = await client.call("POST", WIDGETS, raw, media="application/yaml", accept="application/yaml")
    assert code == 201 and "size: 3" in text


async def test_the_kinds_are_described_in_every_form(client: Client) -> None:
    code, v2 = await client.get("/openapi/v2")
    assert code == 200 and v2["swagger"] == "2.0"
    assert v2["definitions"]["com.example.v1.Widget"]["x-kubernetes-group-version-kind"][0]["kind"] == "Widget"
    assert client.session
    accept = {"Accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
    async with client.session.get(client.url + "/openapi/v2", headers=accept) as response:
        raw = await response.read()
        assert response.status == 200 and b"com.example.v1.Widget" in raw and not raw.startswith(b"{")
    _, index = await client.get("/openapi/v3")
    where = index["paths"]["apis/example.com/v1"]["serverRelativeURL"]
    async with client.session.get(client.url + where) as response:
        document = orjson.loads(await response.read())
    assert document["openapi"].startswith("3.")
    assert "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}" in document["paths"]


async def test_the_server_says_how_it_is(client: Client) -> None:
    for name in ("livez", "readyz", "healthz"):
        assert await client.get(f"/{name}") == (200, "ok")
        code, text = await client.get(f"/{name}", verbose="")
        assert code == 200 and text.startswith("[+]ping ok\n") and text.endswith(f"{name} check passed\n")
    code, version = await client.get("/version")
    assert code == 200 and version["major"] == "1"
