"""Definitions made to stop the API: each is refused with its field, or left out and told; the others are served on."""

# ruff: noqa: E501 (tables)

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rackless.api.duties.defaults import SYSTEM
from rackless.api.edge import discovery
from rackless.api.edge import openapi_documents as openapi
from rackless.api.edge.scale import read_scale
from rackless.api.encoding import rendered, stored
from rackless.api.kinds.builtin import BUILTIN
from rackless.api.kinds.custom import CRD
from rackless.api.objects.registry import Registry
from rackless.api.objects.writes import Context, create
from rackless.api.process import ApiServer
from rackless.api.schema import declared, openapi_proto, structural
from rackless.api.status import RequestRefused
from rackless.api.stores.memory import ObjectsInMemory
from rackless.api.stores.port import StoredChange

from ..api.conftest import WIDGETS, Client, Json, api, client, widget, widget_definition  # noqa: F401
from ..api.conftest import settings as api_settings

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEMA = "spec.versions[0].schema.openAPIV3Schema"
PROTO = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def gadget() -> Json:
    """The definition of the other tests, under another name."""
    found = copy.deepcopy(widget_definition())
    found["metadata"]["name"] = "gadgets.example.com"
    found["spec"]["names"] = {"plural": "gadgets", "kind": "Gadget"}
    del found["spec"]["versions"][1]
    return found


async def eventually(holds: Callable[[], bool]) -> None:
    for _ in range(3000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come true")


def put(value: Any, *path: str | int) -> Callable[[Json], None]:
    def change(definition: Json) -> None:
        place: Any = definition
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


def drop(*path: str | int) -> Callable[[Json], None]:
    def change(definition: Json) -> None:
        place: Any = definition
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]

    return change


def version(value: Any, *path: str | int) -> Callable[[Json], None]:
    return put(value, "spec", "versions", 0, *path)


def field(**keywords: Any) -> Callable[[Json], None]:
    """The definition with one more property, `x`."""
    return version(keywords, "schema", "openAPIV3Schema", "properties", "spec", "properties", "x")


X = f"{SCHEMA}.properties[spec].properties[x]"
V = "spec.versions[0]"

HOSTILE: list[tuple[Callable[[Json], None], str]] = [
    (version({"specReplicasPath": ".spec.replicas"}, "subresources", "scale"), f"{V}.subresources.scale.statusReplicasPath"),
    (version({}, "subresources", "scale"), f"{V}.subresources.scale.specReplicasPath"),
    (version({"specReplicasPath": "spec.n", "statusReplicasPath": ".status.n"}, "subresources", "scale"), f"{V}.subresources.scale.specReplicasPath"),
    (version({"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}, "subresources", "scale"), f"{V}.subresources.scale.specReplicasPath"),
    (version({"specReplicasPath": ".spec..n", "statusReplicasPath": ".status.n"}, "subresources", "scale"), f"{V}.subresources.scale.specReplicasPath"),
    (version({"specReplicasPath": ".spec.n", "statusReplicasPath": ".spec.n"}, "subresources", "scale"), f"{V}.subresources.scale.statusReplicasPath"),
    (version({"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".metadata.x"}, "subresources", "scale"),
     f"{V}.subresources.scale.labelSelectorPath"),
    (version([{}], "selectableFields"), f"{V}.selectableFields[0].jsonPath"),
    (version([{"jsonPath": "spec.size"}], "selectableFields"), f"{V}.selectableFields[0].jsonPath"),
    (version([{"jsonPath": ".spec.tags[0]"}], "selectableFields"), f"{V}.selectableFields[0].jsonPath"),
    (version([{"jsonPath": ".spec.free"}], "selectableFields"), f"{V}.selectableFields[0].jsonPath"),
    (version([{"jsonPath": ".metadata.uid"}], "selectableFields"), f"{V}.selectableFields[0].jsonPath"),
    (version([{"jsonPath": ".spec.size"}] * 2, "selectableFields"), f"{V}.selectableFields[1].jsonPath"),
    (version([{"jsonPath": f".spec.a{n}"} for n in range(9)], "selectableFields"), f"{V}.selectableFields"),
    (version([{"name": "A", "type": "string"}], "additionalPrinterColumns"), f"{V}.additionalPrinterColumns[0].jsonPath"),
    (version([{"name": "A", "type": "int", "jsonPath": ".a"}], "additionalPrinterColumns"), f"{V}.additionalPrinterColumns[0].type"),
    (version([{"name": "A", "type": "string", "jsonPath": ".a[?(]"}], "additionalPrinterColumns"), f"{V}.additionalPrinterColumns[0].jsonPath"),
    (version([{"name": "A", "type": "string", "jsonPath": "a"}], "additionalPrinterColumns"), f"{V}.additionalPrinterColumns[0].jsonPath"),
    (version([{"name": "A", "type": "string", "jsonPath": ".a", "format": "x"}], "additionalPrinterColumns"), f"{V}.additionalPrinterColumns[0].format"),
    (version([{"type": "string", "jsonPath": ".a"}], "additionalPrinterColumns"), f"{V}.additionalPrinterColumns[0].name"),
    (version("V1", "name"), f"{V}.name"),
    (version("1", "name"), f"{V}.name"),
    (version("", "name"), f"{V}.name"),
    (version({}, "name"), f"{V}.name"),
    (version(False, "storage"), "spec.versions"),
    (version("yes", "storage"), f"{V}.storage"),
    (version("a\r\nSet-Cookie: x", "deprecationWarning"), f"{V}.deprecationWarning"),
    (drop("spec", "versions", 0, "schema"), f"{V}.schema.openAPIV3Schema"),
    (put([], "spec", "versions"), "spec.versions"),
    (put([1], "spec", "versions"), "spec.versions[0]"),
    (lambda d: d["spec"]["versions"].append(d["spec"]["versions"][0]), "spec.versions"),
    (put("Both", "spec", "scope"), "spec.scope"),
    (put("example", "spec", "group"), "spec.group"),
    (put("Example.com", "spec", "group"), "spec.group"),
    (put("a/b.com", "spec", "group"), "spec.group"),
    (put("", "spec", "group"), "spec.group"),
    (put("ga/dgets", "spec", "names", "plural"), "spec.names.plural"),
    (put("Gad get", "spec", "names", "kind"), "spec.names.kind"),
    (put("Gadget", "spec", "names", "listKind"), "spec.names.listKind"),
    (put("GADGET", "spec", "names", "singular"), "spec.names.singular"),
    (put(["G"], "spec", "names", "shortNames"), "spec.names.shortNames[0]"),
    (put(["a b"], "spec", "names", "categories"), "spec.names.categories[0]"),
    (drop("spec", "names", "kind"), "spec.names.kind"),
    (put({"strategy": "Webhook"}, "spec", "conversion"), "spec.conversion.strategy"),
    (put({"strategy": "None", "webhook": {"a": 1}}, "spec", "conversion"), "spec.conversion.webhook"),
    (put(True, "spec", "preserveUnknownFields"), "spec.preserveUnknownFields"),
    (put("other.example.com", "metadata", "name"), "metadata.name"),
    # keywords that are no keywords
    (field(type="string", minLength="x"), f"{X}.minLength"),
    (field(type="string", minLength=1.5), f"{X}.minLength"),
    (field(type="string", maxLength=True), f"{X}.maxLength"),
    (field(type="string", pattern=5), f"{X}.pattern"),
    (field(type="string", pattern="("), f"{X}.pattern"),
    (field(type="string", enum="a"), f"{X}.enum"),
    (field(type="integer", maximum=[]), f"{X}.maximum"),
    (field(type="integer", exclusiveMinimum=5), f"{X}.exclusiveMinimum"),
    (field(type="integer", multipleOf=0), f"{X}.multipleOf"),
    (field(type="integer", default="x"), f"{X}.default"),
    (field(type="object", properties={"a": {"type": "string"}}, default={"b": 1}), f"{X}.default"),
    (field(type="object", required="a"), f"{X}.required"),
    (field(type="object", required=[1]), f"{X}.required"),
    (field(type="object", properties=[]), f"{X}.properties"),
    (field(type="object", properties={"a": 5}), f"{X}.properties[a]"),
    (field(type="object", additionalProperties=5), f"{X}.additionalProperties"),
    (field(type="object", additionalProperties=False), f"{X}.additionalProperties"),
    (field(type="object", additionalProperties={"type": "string"}, properties={"a": {"type": "string"}}), f"{X}.additionalProperties"),
    (field(type="array", items=[{"type": "string"}]), f"{X}.items"),
    (field(type="array"), f"{X}.items"),
    (field(type=["string", "null"]), f"{X}.type"),
    (field(type="text"), f"{X}.type"),
    (field(type="null"), f"{X}.type"),
    (field(description="no type"), f"{X}.type"),
    (field(type="string", anyOf={}), f"{X}.anyOf"),
    (field(type="string", anyOf=[5]), f"{X}.anyOf[0]"),
    (field(type="string", anyOf=[{"type": "string"}]), f"{X}.anyOf[0].type"),
    (field(type="string", **{"not": {"default": 1}}), f"{X}.not.default"),
    (field(type="string", nullable="yes"), f"{X}.nullable"),
    (field(type="string", uniqueItems=True), f"{X}.uniqueItems"),
    (field(**{"$ref": "#/definitions/x"}), f"{X}.$ref"),
    (field(type="array", items={"type": "string"}, **{"x-kubernetes-list-type": "bag"}), f"{X}.x-kubernetes-list-type"),
    (field(type="array", items={"type": "object"}, **{"x-kubernetes-list-type": "map"}), f"{X}.x-kubernetes-list-map-keys"),
    (field(type="array", items={"type": "object"}, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [{}]}), f"{X}.x-kubernetes-list-map-keys"),
    (field(type="array", items={"type": "object"}, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}), f"{X}.x-kubernetes-list-map-keys"),
    (field(type="string", **{"x-kubernetes-map-type": "atomic"}), f"{X}.type"),
    (field(type="string", **{"x-kubernetes-int-or-string": True}), f"{X}.type"),
    (field(type="object", **{"x-kubernetes-preserve-unknown-fields": False}), f"{X}.x-kubernetes-preserve-unknown-fields"),
    (field(type="string", **{"x-kubernetes-embedded-resource": True}), f"{X}.type"),
    (field(type="string", **{"x-kubernetes-validations": "true"}), f"{X}.x-kubernetes-validations"),
    (field(type="string", **{"x-kubernetes-validations": [{}]}), f"{X}.x-kubernetes-validations[0].rule"),
    (version({"type": "object", "properties": {"metadata": {"type": "object", "required": ["labels"]}}}, "schema", "openAPIV3Schema"),
     f"{SCHEMA}.properties[metadata]"),
    (version({"type": "string"}, "schema", "openAPIV3Schema"), f"{SCHEMA}.type"),
    (version({"x-kubernetes-preserve-unknown-fields": True}, "schema", "openAPIV3Schema"), f"{SCHEMA}.type"),
    (version([], "schema", "openAPIV3Schema"), f"{SCHEMA}"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "where"), HOSTILE, ids=[f"{n}-{where}" for n, (_, where) in enumerate(HOSTILE)])
async def test_a_definition_that_cannot_be_served_is_refused_with_its_field(spoil: Any, where: str) -> None:
    definition = gadget()
    spoil(definition)
    registry = Registry(BUILTIN)
    found = registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    assert found
    with pytest.raises(RequestRefused) as caught:
        create(*found, definition, "", Context(SYSTEM, "2024-01-01T00:00:00Z"))
    assert caught.value.code == 422 and caught.value.details
    assert where in {cause["field"] for cause in caught.value.details["causes"]}, caught.value


def _nested(levels: int) -> Json:
    found: Json = {"type": "object"}
    for _ in range(levels):
        found = {"type": "object", "properties": {"a": found}}
    return found


async def test_schemas_as_deep_as_they_may_be_are_served_and_deeper_ones_refused(client: Client) -> None:  # noqa: F811
    deep = gadget()
    version(_nested(100), "schema", "openAPIV3Schema")(deep)
    await client.create(DEFINITIONS, deep)
    assert (await client.call("GET", "/openapi/v2"))[0] == 200
    body: Any = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}}
    await client.create(WIDGETS.replace("widgets", "gadgets"), body)
    version(_nested(101), "schema", "openAPIV3Schema")(deep)
    code, answer = await client.merge(f"{DEFINITIONS}/gadgets.example.com", {"spec": deep["spec"]})
    assert code == 422 and "nested" in answer["message"], answer


@pytest.mark.slow
def test_defaults_around_each_other_do_not_multiply_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = 0
    compile_schema = structural.compile_schema

    def counted(schema: Json) -> Any:
        nonlocal compiled
        compiled += 1
        return compile_schema(schema)

    monkeypatch.setattr(declared, "compile_schema", counted)
    found: Json = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(20_000)}}
    for _ in range(50):
        found = {"type": "object", "default": {}, "properties": {"a": found}}
    causes = list(declared.declared_problems({"type": "object", "properties": {"a": found}}, "x"))
    assert compiled < 10 and any("too many defaults" in cause.message for cause in causes)


async def test_nobody_notices_a_hostile_definition_and_the_next_start_succeeds(tmp_path: Path) -> None:
    for spoil in (version({"specReplicasPath": ".spec.n"}, "subresources", "scale"), version([{}], "selectableFields")):
        async with ApiServer(api_settings(tmp_path)) as running, Client(running.url, tmp_path / "pki") as admin:
            bad = gadget()
            spoil(bad)
            async with asyncio.timeout(30):  # before, the writer never heard back
                code, answer = await admin.call("POST", DEFINITIONS, bad)
            assert (code, answer["reason"]) == (422, "Invalid")
    async with ApiServer(api_settings(tmp_path)) as running, Client(running.url, tmp_path / "pki") as admin:
        assert (await admin.get("/api/v1/namespaces"))[0] == 200


# -- What is in the store already -------------------------------------------------------------------------------------


def _broken() -> Iterator[Json]:
    """As an earlier program may have stored them."""
    for number, spoil in enumerate((
        version({"specReplicasPath": ".spec.n"}, "subresources", "scale"), version([{}], "selectableFields"),
        drop("spec", "names", "kind"), put([], "spec", "versions"), put(5, "spec", "names"),
        version(5, "additionalPrinterColumns"), drop("spec", "versions", 0, "schema"), field(type="string", minLength="x"),
        field(type="string", pattern=5), field(type="object", properties=[]), put(None, "spec"),
    )):  # fmt: skip
        found = gadget()
        for each in found["spec"]["versions"]:
            each.pop("additionalPrinterColumns")
        found["spec"]["names"] |= {"plural": f"g{number}", "singular": f"g{number}", "listKind": "GList"}
        found["metadata"] = {"name": f"g{number}.example.com", "uid": str(number), "creationTimestamp": "2024-01-01T00:00:00Z",
                             "finalizers": ["customresourcecleanup.apiextensions.k8s.io"]}  # fmt: skip
        spoil(found)
        yield found


async def _write(running: ApiServer, obj: Json, key: str) -> None:
    assert running.objects
    async with asyncio.timeout(30):
        await running.objects.store.write(key, 0, stored(obj))


async def test_what_cannot_be_read_is_left_out_and_told_while_running_and_at_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = {each["metadata"]["name"] for each in _broken()}
    async with ApiServer(api_settings(tmp_path)) as running:
        for each in _broken():
            await _write(running, each, CRD.key("", each["metadata"]["name"]))
        assert running.objects and set(running.objects.registry.unreadable) == names
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        async with ApiServer(api_settings(tmp_path)) as running, Client(running.url, tmp_path / "pki") as admin:
            assert running.objects and set(running.objects.registry.unreadable) == names
            assert f"\nrackless_unreadable_definitions {len(names)}\n" in (await admin.get("/metrics"))[1]
            await admin.create(DEFINITIONS, widget_definition())
            await admin.create(WIDGETS, widget("a"))
            for path in (
                "/apis",
                "/apis/example.com/v1",
                "/openapi/v2",
                "/openapi/v3",
                "/openapi/v3/apis/example.com/v1",
                DEFINITIONS,
            ):
                assert (await admin.get(path))[0] == 200, path
            assert admin.session
            async with admin.session.get(admin.url + "/openapi/v2", headers={"Accept": PROTO}) as response:
                assert response.status == 200 and b"com.example.v1.Widget" in await response.read()
            for name in names:
                code, answer = await admin.call("DELETE", f"{DEFINITIONS}/{name}")
                assert code == 200, answer
            registry = running.objects.registry
            await eventually(lambda: not registry.unreadable)
    told = [record.getMessage() for record in caplog.records if "is not served" in record.getMessage()]
    assert {name for name in names if any(name in line for line in told)} == names


async def test_a_definition_over_a_built_in_kind_is_refused_and_a_stored_one_neither_served_nor_able_to_delete(
    tmp_path: Path,
) -> None:
    """Such a definition shared the real objects, under no guard, and took them with it when it was deleted."""
    over = gadget()
    over["metadata"] = {"name": "clusterrolebindings.rbac.authorization.k8s.io", "uid": "1", "creationTimestamp": "2024-01-01T00:00:00Z",
                        "annotations": {"api-approved.kubernetes.io": "unapproved"},
                        "finalizers": ["customresourcecleanup.apiextensions.k8s.io"]}  # fmt: skip
    over["spec"] |= {"group": "rbac.authorization.k8s.io", "scope": "Cluster"}
    over["spec"]["names"] = {"plural": "clusterrolebindings", "singular": "x", "kind": "X", "listKind": "XList"}
    over["spec"]["versions"][0]["name"] = "v9"
    async with ApiServer(api_settings(tmp_path)) as running, Client(running.url, tmp_path / "pki") as admin:
        code, answer = await admin.call("POST", DEFINITIONS, over)
        assert code == 422 and [c["field"] for c in answer["details"]["causes"]] == ["spec.group"]
        await _write(running, over, CRD.key("", over["metadata"]["name"]))
    async with ApiServer(api_settings(tmp_path)) as running, Client(running.url, tmp_path / "pki") as admin:
        _, before = await admin.get("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings")
        code, _ = await admin.get("/apis/rbac.authorization.k8s.io/v9/clusterrolebindings")
        assert code == 404
        code, _ = await admin.call("DELETE", f"{DEFINITIONS}/{over['metadata']['name']}")
        assert code == 200
        assert running.objects
        store = running.objects.store
        await eventually(lambda: store.get(CRD.key("", over["metadata"]["name"])) is None)
        _, after = await admin.get("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings")
        assert before["items"] and after["items"] == before["items"]


@pytest.mark.parametrize("group", ["certificates.k8s.io", "events.k8s.io", "apiextensions.k8s.io", "networking.k8s.io"])
async def test_no_built_in_group_takes_definitions(client: Client, group: str) -> None:  # noqa: F811
    definition = gadget()
    definition["spec"]["group"] = group
    definition["metadata"] = {
        "name": f"gadgets.{group}",
        "annotations": {"api-approved.kubernetes.io": "https://example.com/1"},
    }
    code, answer = await client.call("POST", DEFINITIONS, definition)
    assert code == 422 and answer["details"]["causes"][0]["reason"] == "FieldValueForbidden"


@pytest.mark.parametrize(
    ("approval", "accepted"),
    [(None, False), ("", False), ("yes", False), ("https://[", False), ("unapproved, a test", True), ("https://example.com/1", True)],
)  # fmt: skip
@pytest.mark.parametrize("group", ["k8s.io", "x.k8s.io", "x.kubernetes.io"])
async def test_groups_of_the_project_need_its_approval(
    client: Client, group: str, approval: str | None, accepted: bool  # noqa: F811
) -> None:  # fmt: skip
    definition = gadget()
    definition["spec"]["group"] = group
    definition["metadata"] = {"name": f"gadgets.{group}"}
    if approval is not None:
        definition["metadata"]["annotations"] = {"api-approved.kubernetes.io": approval}
    code, answer = await client.call("POST", DEFINITIONS, definition)
    assert (code == 201) is accepted, answer
    if not accepted:
        assert answer["details"]["causes"][0]["field"] == "metadata.annotations[api-approved.kubernetes.io]"


@pytest.mark.parametrize(
    ("names", "where"),
    [
        ({"kind": "Widget"}, "spec.names.kind"),
        ({"kind": "WidgetList"}, "spec.names.kind"),
        ({"listKind": "Widget"}, "spec.names.listKind"),
        ({"singular": "widget"}, "spec.names.singular"),
        ({"singular": "wi"}, "spec.names.singular"),
        ({"shortNames": ["a", "widgets"]}, "spec.names.shortNames[1]"),
        ({"shortNames": ["wi"]}, "spec.names.shortNames[0]"),
    ],
)
async def test_names_of_another_definition_of_the_group_are_taken(client: Client, names: Json, where: str) -> None:  # noqa: F811
    definition = gadget()
    definition["spec"]["names"] |= names
    code, answer = await client.call("POST", DEFINITIONS, definition)
    assert code == 422 and where in {cause["field"] for cause in answer["details"]["causes"]}
    assert "is already in use" in answer["message"]


async def test_a_definition_keeps_its_own_names_and_changes_what_it_may(client: Client) -> None:  # noqa: F811
    path = f"{DEFINITIONS}/widgets.example.com"
    code, _ = await client.merge(path, {"spec": {"names": {"shortNames": ["wi", "wd"]}}})
    assert code == 200
    for spec, where in (
        ({"scope": "Cluster"}, "spec.scope"),
        ({"names": {"kind": "Other"}}, "spec.names.kind"),
    ):
        code, answer = await client.merge(path, {"spec": spec})
        assert code == 422 and where in {cause["field"] for cause in answer["details"]["causes"]}
    _, stored_one = await client.get(path)
    stored_one["spec"]["versions"] = [{**stored_one["spec"]["versions"][0], "name": "v2"}]
    code, answer = await client.call("PUT", path, stored_one)
    assert code == 422 and answer["details"]["causes"][0]["field"] == "status.storedVersions[0]"


async def test_unknown_keywords_are_dropped_with_a_warning(client: Client) -> None:  # noqa: F811
    definition = gadget()
    field(type="string", minlength=5, readOnly=[], description=None)(definition)
    made = await client.create(DEFINITIONS, definition)
    kept = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["x"]
    assert kept == {"type": "string"}
    assert any(f'unknown field \\"{X}.minlength\\"' in each for each in client.headers.getall("Warning"))


# -- The store's subscribers ------------------------------------------------------------------------------------------


def test_a_subscriber_that_fails_stops_neither_the_write_nor_the_others(caplog: pytest.LogCaptureFixture) -> None:
    memory, heard = ObjectsInMemory(), list[str]()

    def fail(changes: Any) -> None:
        raise KeyError("jsonPath")

    def hear(changes: list[StoredChange]) -> None:
        heard.extend(change.key for change in changes)

    memory.subscribe(fail)
    memory.subscribe(hear)  # type: ignore[arg-type]
    memory.apply([("g/p//a", 1, b'{"metadata":{"name":"a"}}')])
    memory.apply([("g/p//b", 2, b'{"metadata":{"name":"b"}}')])
    assert heard == ["g/p//a", "g/p//b"] and memory.revision == 2
    assert memory.faults == 2 and "a subscriber failed on g/p//a" in caplog.text


# -- Any definition at all --------------------------------------------------------------------------------------------

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 2**64 - 1), st.floats(), st.text(max_size=3),
                    st.sampled_from(["(", "a\n", ".spec.a", ".status.a", "object", "string", "v1", "set", "map"]))  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)
KEYWORDS = (
    "type format title description pattern minLength maxLength minItems maxItems minProperties maxProperties minimum maximum "
    "exclusiveMinimum exclusiveMaximum multipleOf enum default required nullable uniqueItems x-kubernetes-list-type "
    "x-kubernetes-list-map-keys x-kubernetes-map-type x-kubernetes-int-or-string x-kubernetes-preserve-unknown-fields "
    "x-kubernetes-embedded-resource x-kubernetes-validations example readOnly discriminator x-y $ref"
).split()  # fmt: skip
PLAIN = {
    "pattern": st.sampled_from(["^a+$", "[", "a{1,3}"]), "minLength": st.integers(-1, 5), "minimum": st.integers(-5, 5),
    "enum": st.lists(SCALARS, max_size=3), "required": st.lists(st.sampled_from("abc"), max_size=2), "default": VALUES,
    "nullable": st.booleans(), "x-kubernetes-preserve-unknown-fields": st.just(True),
    "x-kubernetes-validations": st.lists(st.fixed_dictionaries({"rule": st.sampled_from(["true", "self.a", "("])}), max_size=1),
}  # fmt: skip


@st.composite
def schemas(draw: st.DrawFn, depth: int = 0) -> Any:
    """Mostly sound schemas: a schema that is refused for its first keyword teaches nothing about the others."""
    kind = draw(st.sampled_from(["object", "array", "string", "integer", "boolean", "number"])) if depth else "object"
    found: Json = {"type": kind}
    for name in draw(st.lists(st.sampled_from(KEYWORDS), max_size=2)):
        found[name] = draw(PLAIN.get(name, VALUES) if draw(st.booleans()) else VALUES)
    if kind == "object" and depth < 3:
        found["properties"] = draw(
            st.dictionaries(st.sampled_from(["a", "b", "c", "metadata", "status"]), schemas(depth + 1), max_size=2)
        )
    if kind == "array":
        found["items"] = draw(schemas(depth + 1)) if depth < 3 else {"type": "string"}
    if draw(st.integers(0, 5)) == 0:
        found[
            draw(st.sampled_from(["anyOf", "allOf", "oneOf", "not", "items", "additionalProperties", "properties"]))
        ] = draw(VALUES | schemas(depth + 1) if depth < 3 else VALUES)
    return found


@st.composite
def definitions(draw: st.DrawFn) -> Json:
    found = gadget()
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = draw(schemas())
    places: list[Any] = [
        ["metadata", "annotations"], ["spec"], ["spec", "group"], ["spec", "scope"], ["spec", "conversion"], ["spec", "names"],
        *(["spec", "names", each] for each in ("plural", "singular", "kind", "listKind", "shortNames", "categories")),
        ["spec", "versions"], ["spec", "versions", 0],
        *(["spec", "versions", 0, each] for each in (
            "name", "served", "storage", "deprecated", "deprecationWarning", "schema", "subresources",
            "additionalPrinterColumns", "selectableFields")),
        *(["spec", "versions", 0, "subresources", each] for each in ("status", "scale")),
        ["spec", "versions", 0, "subresources", "scale", "specReplicasPath"],
        ["spec", "versions", 0, "subresources", "scale", "labelSelectorPath"],
        ["spec", "versions", 0, "additionalPrinterColumns", 0, "jsonPath"],
        ["spec", "versions", 0, "additionalPrinterColumns", 0, "priority"],
    ]  # fmt: skip
    for path in draw(st.lists(st.sampled_from(places), max_size=1)):
        try:
            put(draw(VALUES), *path)(found)
        except (KeyError, IndexError, TypeError, AttributeError):
            continue
    return found


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(definitions(), VALUES)
def test_any_definition_is_refused_or_survives_a_restart_and_all_that_is_made_of_it(
    definition: Json, value: Any
) -> None:
    try:
        definition = orjson.loads(orjson.dumps(definition))
    except (TypeError, ValueError):
        return  # nobody can send it
    registry, context = Registry(BUILTIN), Context(SYSTEM, "2024-01-01T00:00:00Z")
    found = registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    assert found
    try:
        made = create(*found, definition, "", context)
    except RequestRefused as refused:
        assert refused.code in (400, 422)
        return
    memory = ObjectsInMemory()
    memory.load([(CRD.key("", made["metadata"]["name"]), 1, stored(made))])
    later = Registry(BUILTIN)
    later.follow(memory)  # type: ignore[arg-type]
    assert not later.unreadable
    openapi_proto.encoded(openapi.document_v2(later))
    for group, versions in later.groups().items():
        for each in versions:
            orjson.dumps([openapi.document_v3(later, group, each), discovery.resource_list(later, group, each)])
    discovery.aggregated(later, False, "v2")
    kind = next(kind for kind in later.kinds() if kind.custom)
    for one in kind.versions:
        body: Json = {
            "apiVersion": kind.api_version(one.name),
            "kind": kind.kind,
            "metadata": {"name": "a"},
            "a": value,
            "spec": value,
        }
        try:
            obj = create(kind, one, orjson.loads(orjson.dumps(body)), "default", context)
        except RequestRefused as refused:
            assert refused.code in (400, 422)
            continue
        assert [column.value(obj) for column in one.columns]
        assert rendered(stored(obj), 5)
        if one.scale:
            read_scale(obj, one.scale)
