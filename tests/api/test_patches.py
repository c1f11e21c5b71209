"""Patches by their laws."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rackless.api.objects.patches import json_patch, merge, strategic
from rackless.api.schema.metadata import OBJECT_META
from rackless.api.status import RequestRefused

# Machines differ: how long an example takes says nothing about it.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)

NAMES = st.text("abc/~", min_size=1, max_size=3)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


def _difference(old: Any, new: Any) -> Any:
    """The merge patch from one object to another without nulls."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old or old[key] != value or type(old[key]) is not type(value):
            both = isinstance(value, dict) and isinstance(old.get(key), dict)
            patch[key] = _difference(old[key], value) if both else value
    return patch


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return value


@unhurried
@given(OBJECTS, OBJECTS)
def test_a_merge_patch_leads_from_any_object_to_any_other(old: Any, new: Any) -> None:
    old, new = _without_nulls(old), _without_nulls(new)
    before = copy.deepcopy(old)
    assert merge.merge(old, _difference(old, new)) == new
    assert old == before


@unhurried
@given(OBJECTS, OBJECTS)
def test_a_merge_patch_applied_twice_is_applied_once(old: Any, patch: Any) -> None:
    once = merge.merge(old, patch)
    assert merge.merge(once, patch) == once


@unhurried
@given(OBJECTS, st.lists(st.fixed_dictionaries({
    "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "other"]),
    "path": st.lists(NAMES.map(lambda n: n.replace("~", "~0").replace("/", "~1")) | st.sampled_from(["0", "1", "-"]),
                     max_size=3).map(lambda parts: "".join(f"/{part}" for part in parts)),
    "from": st.just("/a"), "value": VALUES,
}), max_size=4))  # fmt: skip
def test_a_json_patch_applies_whole_or_is_refused_and_never_touches_its_input(document: Any, operations: Any) -> None:
    before = copy.deepcopy(document)
    try:
        json_patch.apply(document, operations)
    except RequestRefused as refused:
        assert 400 <= refused.code < 500
    assert document == before


def test_json_patch_knows_its_edges() -> None:
    assert json_patch.apply({"a": [1, 2]}, [{"op": "add", "path": "/a/-", "value": 3}]) == {"a": [1, 2, 3]}
    assert json_patch.apply({"a/b": 1}, [{"op": "remove", "path": "/a~1b"}]) == {}
    with pytest.raises(RequestRefused, match="test failed"):
        json_patch.apply({"a": 1}, [{"op": "test", "path": "/a", "value": True}])
    with pytest.raises(RequestRefused, match="missing path"):
        json_patch.apply({}, [{"op": "replace", "path": "/a", "value": 1}])


def test_strategic_merge_merges_lists_by_their_key() -> None:
    old = {"ownerReferences": [{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}], "finalizers": ["x", "y"]}
    patch = {
        "ownerReferences": [{"uid": "2", "name": "B"}, {"$patch": "delete", "uid": "1"}, {"uid": "3", "name": "c"}],
        "$setElementOrder/ownerReferences": [{"uid": "3"}, {"uid": "2"}],
        "$deleteFromPrimitiveList/finalizers": ["x"],
        "finalizers": ["z"],
    }
    assert strategic.merge(old, patch, OBJECT_META) == {
        "ownerReferences": [{"uid": "3", "name": "c"}, {"uid": "2", "name": "B"}],
        "finalizers": ["y", "z"],
    }


@unhurried
@given(OBJECTS, OBJECTS)
def test_strategic_merge_refuses_or_answers(old: Any, patch: Any) -> None:
    before = copy.deepcopy(old)
    try:
        strategic.merge(old, patch, OBJECT_META)
    except RequestRefused as refused:
        assert refused.code == 400
    assert old == before


def test_names_to_keep_are_looked_up_and_not_compared_one_by_one() -> None:
    compared = 0

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    names = [Name(f"k{n}") for n in range(1000)]
    old: dict[str, Any] = {Name(f"k{n}"): "x" for n in range(500, 1500)}
    merged = strategic.merge(old, {"$retainKeys": names}, {})
    assert list(merged) == [f"k{n}" for n in range(500, 1000)]
    assert compared < 10_000
