"""Rules of definitions, in CEL."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rackless.api.schema import cel
from rackless.api.schema.rules import check_rules, compile_rules

from .conftest import Client, Json, widget_definition

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GADGETS = "/apis/example.com/v1/namespaces/default/gadgets"

pytestmark = pytest.mark.skipif(not cel.available(), reason="common-expression-language is not installed")


def _schema(rule: str, **more: Any) -> Json:
    """An object with one rule at its spec."""
    spec = {
        "type": "object",
        "x-kubernetes-validations": [{"rule": rule, **more}],
        "properties": {
            "size": {"type": "integer"},
            "most": {"type": "integer"},
            "share": {"type": "number"},
            "name": {"type": "string"},
            "names": {"type": "array", "items": {"type": "string"}},
            "since": {"type": "string", "format": "date-time"},
            "x-y.z": {"type": "string"},
            "namespace": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
    return {"type": "object", "properties": {"spec": spec}}


def _found(rule: str, new: Json, old: Json | None = None, **more: Any) -> list[str]:
    check = compile_rules(_schema(rule, **more))
    assert check
    return [str(cause) for cause in check_rules(check, {"spec": new}, None if old is None else {"spec": old})]


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ("self.size <= self.most", {"size": 1, "most": 2}, {"size": 3, "most": 2}),
        ("!has(self.name) || self.name.matches('^[a-z]+$')", {}, {"name": "A"}),
        ("self.names.all(n, n.startsWith('a'))", {"names": ["a", "ab"]}, {"names": ["b"]}),
        ("self.names.exists_one(n, n == 'a')", {"names": ["a"]}, {"names": ["a", "a"]}),
        ("self.share / 2.0 == 0.5", {"share": 1}, {"share": 2}),
        ("self.since > timestamp('2020-01-01T00:00:00Z')", {"since": "2024-01-01T00:00:00Z"},
         {"since": "2019-01-01T00:00:00Z"}),
        ("self.x__dash__y__dot__z == 'a'", {"x-y.z": "a"}, {"x-y.z": "b"}),
        ("self.__namespace__ == 'a'", {"namespace": "a"}, {"namespace": "b"}),
        ("self.labels.all(k, self.labels[k] != '')", {"labels": {"a-b": "c"}}, {"labels": {"a": ""}}),
        ("self.name.split('.').size() == 2 && self.name.indexOf('b') == 2", {"name": "a.b"}, {"name": "b"}),
        ("self.names.isSorted()", {"names": ["a", "b"]}, {"names": ["b", "a"]}),
    ],
)  # fmt: skip
def test_a_rule_holds_or_is_told(rule: str, good: Json, bad: Json) -> None:
    assert _found(rule, good) == []
    assert _found(rule, bad) == [f'spec: Invalid value: "object": failed rule: {rule}']


def test_a_rule_about_a_change_needs_a_change() -> None:
    assert _found("self.size >= oldSelf.size", {"size": 1}) == []
    assert _found("self.size >= oldSelf.size", {"size": 2}, {"size": 1}) == []
    assert _found("self.size >= oldSelf.size", {"size": 1}, {"size": 2}, message="never smaller") == [
        'spec: Invalid value: "object": never smaller'
    ]


def test_what_was_wrong_before_a_rule_came_may_stay() -> None:
    assert _found("self.size > 5", {"size": 1}, {"size": 1}) == []
    assert len(_found("self.size > 5", {"size": 2}, {"size": 1})) == 1


def test_messages_reasons_and_paths_are_the_rules_own() -> None:
    more: Any = {"messageExpression": "'size ' + string(self.size) + ' is odd'", "reason": "FieldValueForbidden"}
    assert _found("self.size % 2 == 0", {"size": 3}, **more, fieldPath=".size") == [
        "spec.size: Forbidden: size 3 is odd"
    ]
    assert _found("self.size > 3", {"size": 3}, message="more", messageExpression="self.nothing") == [
        'spec: Invalid value: "object": more'
    ]


def test_an_evaluation_that_fails_refuses() -> None:
    (found,) = _found("self.names[5] == 'a'", {"names": []})
    assert "evaluating rule: failed rule" in found
    (found,) = _found("self.size / self.most == 1", {"size": 1, "most": 0})
    assert "zero" in found


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("self.names.all(a, self.names.all(b, self.names.all(c, a + b != c)))", {"names": ["a"] * 1000}),
        ("size(" + "+".join(["self.name"] * 900) + ") > 1", {"name": "x" * 1_000_000}),
        ("self.name.replace('', self.name) != ''", {"name": "x" * 100_000}),
    ],
)
def test_what_would_cost_too_much_is_not_begun(rule: str, value: Json) -> None:
    (found,) = _found(rule, value)
    assert "cost budget" in found or "too long" in found


def test_items_of_lists_with_keys_know_what_they_replace() -> None:
    item = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size"}],
    }
    parts = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    keyed, plain = compile_rules(parts), compile_rules({"type": "array", "items": item})
    old = [{"name": "a", "size": 2}, {"name": "b", "size": 2}]
    new = [{"name": "b", "size": 1}, {"name": "c", "size": 0}, {"name": "a", "size": 3}]
    assert keyed and plain
    check: Any = check_rules
    assert [cause.field for cause in check(keyed, new, old)] == ["[0]"]
    assert check(plain, new, old) == []


def _gadgets(rule: Json) -> Json:
    definition = copy.deepcopy(widget_definition())
    definition["metadata"]["name"] = "gadgets.example.com"
    definition["spec"]["names"] = {"plural": "gadgets", "kind": "Gadget"}
    for version in definition["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] = [rule]
    return definition


def _gadget(size: int) -> Json:
    return {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": size}}


async def test_objects_are_held_to_the_rules_of_their_definition(client: Client) -> None:
    await client.create(CRDS, _gadgets({"rule": "self.size > 1 && (self.size < 5 || self.size == 9)"}))
    assert "Warning" not in client.headers
    code, answer = await client.call("POST", GADGETS, _gadget(1))
    assert (code, answer["details"]["causes"][0]["field"]) == (422, "spec")
    await client.create(GADGETS, _gadget(2))
    code, answer = await client.merge(f"{GADGETS}/g", {"spec": {"size": 6}})
    assert code == 422 and "failed rule: self.size > 1" in answer["message"]


@pytest.mark.parametrize("rule", ["self.size >", "1 +", "", 5, None])
async def test_a_rule_that_is_none_is_refused_with_its_definition(client: Client, rule: Any) -> None:
    code, answer = await client.call("POST", CRDS, _gadgets({"rule": rule}))
    assert 400 <= code < 500 and "x-kubernetes-validations" in answer["message"]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"rule": "quantity(self.size) > quantity('1Gi')"}, "quantity() is not known here"),
        ({"rule": "self.?size.orValue(1) > 0"}, "not known here"),
        ({"rule": "true", "optionalOldSelf": True}, "optionalOldSelf is not known here"),
    ],
)
async def test_rules_that_are_not_evaluated_are_said_so(client: Client, rule: Json, why: str) -> None:
    await client.create(CRDS, _gadgets(rule))
    assert "kept but not evaluated" in client.headers["Warning"] and why in client.headers["Warning"]
    await client.create(GADGETS, _gadget(1))


async def test_without_the_library_rules_are_kept_with_a_warning(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cel, "_library", lambda: None)
    await client.create(CRDS, _gadgets({"rule": "self.size > 1"}))
    assert "kept but not evaluated" in client.headers["Warning"] and "rackless[cel]" in client.headers["Warning"]
    await client.create(GADGETS, _gadget(1))
