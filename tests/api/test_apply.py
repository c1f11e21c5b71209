"""Server-side apply: owners, conflicts, removal, and lists by their keys."""

from __future__ import annotations

from typing import Any

from .conftest import WIDGETS, Client, Json, widget

MEDIA = "application/apply-patch+yaml"


async def _apply(client: Client, manager: str, body: Json, path: str = f"{WIDGETS}/a", **query: Any) -> tuple[int, Any]:
    return await client.call("PATCH", path, body, media=MEDIA, fieldManager=manager, **query)


def _owned(answer: Json) -> dict[str, Json]:
    return {entry["manager"]: entry["fieldsV1"] for entry in answer["metadata"]["managedFields"]}


async def test_apply_creates_and_owns_what_it_says(client: Client) -> None:
    code, answer = await _apply(client, "one", widget("a", size=3))
    assert code == 201 and answer["spec"] == {"size": 3, "color": "red"}
    assert _owned(answer) == {"one": {"f:spec": {"f:size": {}}}}
    code, same = await _apply(client, "one", widget("a", size=3))
    assert code == 200 and same["metadata"]["resourceVersion"] == answer["metadata"]["resourceVersion"]


async def test_a_conflict_names_the_owner_and_force_takes_over(client: Client) -> None:
    await _apply(client, "one", widget("a", size=3))
    code, refused = await _apply(client, "two", widget("a", size=4))
    assert (code, refused["reason"]) == (409, "Conflict")
    assert refused["message"] == 'Apply failed with 1 conflict: conflict with "one" using example.com/v1: .spec.size'
    assert refused["details"]["causes"][0]["field"] == ".spec.size"
    code, answer = await _apply(client, "two", widget("a", size=4), force="true")
    assert code == 200 and answer["spec"]["size"] == 4
    assert _owned(answer) == {"two": {"f:spec": {"f:size": {}}}}


async def test_equal_values_are_owned_together_and_stay_while_one_wants_them(client: Client) -> None:
    await _apply(client, "one", widget("a", size=3, color="blue"))
    await _apply(client, "two", widget("a", size=3, color="blue"))
    _, answer = await _apply(client, "one", widget("a", size=3))
    assert answer["spec"]["color"] == "blue"
    _, answer = await _apply(client, "two", widget("a", size=3))
    assert answer["spec"]["color"] == "red"  # nobody's any more: the default again


async def test_lists_with_keys_merge_by_item(client: Client) -> None:
    await _apply(client, "one", widget("a", parts=[{"name": "x", "weight": 1}], tags=["t1"]))
    _, answer = await _apply(client, "two", widget("a", parts=[{"name": "y", "weight": 2}], tags=["t2"]))
    assert answer["spec"]["parts"] == [{"name": "x", "weight": 1}, {"name": "y", "weight": 2}]
    assert answer["spec"]["tags"] == ["t1", "t2"]
    code, refused = await _apply(client, "two", widget("a", parts=[{"name": "x", "weight": 9}]))
    assert code == 409 and '.spec.parts[name="x"].weight' in refused["message"]
    code, answer = await _apply(client, "one", widget("a"))
    assert code == 200, answer
    assert answer["spec"]["parts"] == [{"name": "y", "weight": 2}] and answer["spec"]["tags"] == ["t2"]


async def test_who_updates_a_field_takes_it(client: Client) -> None:
    await _apply(client, "one", widget("a", size=3))
    code, answer = await client.merge(f"{WIDGETS}/a", {"spec": {"size": 5}}, fieldManager="editor")
    assert code == 200 and _owned(answer)["editor"] == {"f:spec": {"f:size": {}}}
    code, refused = await _apply(client, "one", widget("a", size=3))
    assert code == 409 and 'conflict with "editor"' in refused["message"]


async def test_an_object_made_without_apply_can_be_applied_to(client: Client) -> None:
    await client.create(WIDGETS, widget("a"))
    code, answer = await _apply(client, "one", widget("a", size=1, color="red", replicas=2))
    assert code == 200 and set(_owned(answer)) == {"before-first-apply", "one"}
    code, refused = await _apply(client, "one", widget("a", size=2))
    assert code == 409 and "before-first-apply" in refused["message"]


async def test_status_is_applied_apart(client: Client) -> None:
    await _apply(client, "one", widget("a"))
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "status": {"phase": "Up"}}
    code, answer = await _apply(client, "controller", body, path=f"{WIDGETS}/a/status")
    assert code == 200 and answer["status"] == {"phase": "Up"} and answer["spec"]["size"] == 1
    _, answer = await _apply(client, "one", {**widget("a"), "status": {"phase": "No"}})
    assert answer["status"] == {"phase": "Up"}


async def test_apply_needs_a_manager(client: Client) -> None:
    code, refused = await client.call("PATCH", f"{WIDGETS}/a", widget("a"), media=MEDIA)
    assert code == 422 and "fieldManager: Required value: is required for apply patch" in refused["message"]


async def test_of_many_conflicts_a_hundred_are_told(client: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps/many"
    for manager, letter, code in (("one", "a", 201), ("two", "b", 409)):
        config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {f"k{n}": letter for n in range(300)}}
        found, answer = await client.call(
            "PATCH", path, config, media="application/apply-patch+yaml", fieldManager=manager
        )
        assert found == code, answer
    assert "300 conflicts" in answer["message"] and len(answer["details"]["causes"]) == 100
    assert len(answer["message"].splitlines()) == 101
