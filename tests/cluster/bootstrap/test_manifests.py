"""Manifests: in order, again when they are refused, told one by one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rackless.cluster.bootstrap.manifests import Manifest, NotTaken, apply, load_manifests
from rackless.drivers.fake.clock import VirtualClock
from rackless.errors import GaveUp, InputError


class Store:
    """Takes an object of a kind that is defined, after so many refusals."""

    def __init__(self, refusals: Mapping[str, int] | None = None) -> None:
        self.made: list[str] = []
        self.refusals = dict(refusals or {})

    async def create(self, thing: Mapping[str, Any]) -> bool:
        name = thing["metadata"]["name"]
        if self.refusals.get(name, 0) > 0:
            self.refusals[name] -= 1
            raise NotTaken("not yet")
        if name in self.made:
            return False
        self.made.append(name)
        return True


def thing(name: str, kind: str = "ConfigMap") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "kube-system"}}


def manifests(*names: str) -> list[Manifest]:
    return [Manifest(f"manifests/{name}.yaml", thing(name)) for name in names]


async def test_they_are_made_in_order_and_each_is_told() -> None:
    store, told = Store(), list[Mapping[str, Any]]()
    clock = VirtualClock()
    await clock.run(apply(manifests("a", "b"), store, clock, told.append))
    assert store.made == ["a", "b"]
    assert told == [
        {"manifest": "ConfigMap kube-system/a", "file": "manifests/a.yaml", "made": True, "done": 1, "of": 2},
        {"manifest": "ConfigMap kube-system/b", "file": "manifests/b.yaml", "made": True, "done": 2, "of": 2},
    ]


async def test_what_is_refused_is_tried_again_after_the_others_and_its_reason_is_told_once() -> None:
    store, told = Store({"a": 3}), list[Mapping[str, Any]]()
    clock = VirtualClock()
    await clock.run(apply(manifests("a", "b"), store, clock, told.append))
    assert store.made == ["b", "a"] and clock.now() == 6
    assert [each for each in told if "refused" in each] == [
        {"manifest": "ConfigMap kube-system/a", "file": "manifests/a.yaml", "refused": "not yet"}
    ]


async def test_what_is_there_is_left_as_it_is() -> None:
    store, told = Store(), list[Mapping[str, Any]]()
    store.made = ["a"]
    clock = VirtualClock()
    await clock.run(apply(manifests("a"), store, clock, told.append))
    assert told[0]["made"] is False and store.made == ["a"]


async def test_one_that_is_never_taken_is_named_in_the_end() -> None:
    clock = VirtualClock()
    with pytest.raises(GaveUp, match=r"1 of 2 manifests.*") as raised:
        await clock.run(apply(manifests("a", "b"), Store({"a": 10_000}), clock, lambda _: None, within=60))
    assert "ConfigMap kube-system/a: not yet" in raised.value.why


def test_files_are_read_in_the_order_of_their_names_manifests_before_openshift(tmp_path: Path) -> None:
    for name, text in {
        "openshift/00.yaml": "{kind: Secret, apiVersion: v1, metadata: {name: last}}",
        "manifests/02.json": '{"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "third"}}',
        "manifests/01.yml": "# first\n---\n{kind: A, metadata: {name: first}}\n---\n{kind: B, metadata: {name: second}}\n",
        "manifests/notes.txt": "not one",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [each.thing["metadata"]["name"] for each in load_manifests(tmp_path)] == ["first", "second", "third", "last"]


@pytest.mark.parametrize("text", ["[", "- a", "kind: A\n", "- " * 50_000])
def test_a_file_that_is_no_manifest_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/mine.yaml").write_text(text)
    with pytest.raises(InputError, match=r"manifests/mine\.yaml"):
        load_manifests(tmp_path)
