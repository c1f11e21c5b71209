"""Who acts as somebody else: each part of that somebody is asked for, and only what was allowed is taken on."""

from __future__ import annotations

from typing import Any, cast

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from rackless.api.access.attributes import Attributes
from rackless.api.access.impersonation import impersonated
from rackless.api.kinds.kind import Caller
from rackless.api.status import RequestRefused

BOSS = Caller("boss", ("bosses", "system:authenticated"), "u-boss")


class Answers:
    """An authorizer that allows everything but what it is told, and remembers what it was asked."""

    def __init__(self, *refused: Attributes) -> None:
        self._refused = refused
        self.asked: list[Attributes] = []

    def allows(self, caller: Caller, asked: Attributes) -> bool:
        assert caller is BOSS, "the one who sent the request is asked for"
        self.asked.append(asked)
        return asked not in self._refused


def act(*headers: tuple[str, str], answers: Answers | None = None) -> Caller:
    return impersonated(BOSS, CIMultiDictProxy(CIMultiDict(headers)), cast(Any, answers or Answers()))


def user(name: str) -> Attributes:
    return Attributes("impersonate", "", "users", name=name)


WHOLE = (
    ("impersonate-user", "bob"),
    ("Impersonate-Group", "a"),
    ("Impersonate-Group", "b"),
    ("Impersonate-Uid", "u-1"),
    ("Impersonate-Extra-Scopes", "x"),
    ("impersonate-extra-scopes", "y"),
    ("Impersonate-Extra-a%2fB", "z"),
)
PARTS = [
    user("bob"),
    Attributes("impersonate", "", "groups", name="a"),
    Attributes("impersonate", "", "groups", name="b"),
    Attributes("impersonate", "authentication.k8s.io", "uids", name="u-1"),
    Attributes("impersonate", "authentication.k8s.io", "userextras", "scopes", name="x"),
    Attributes("impersonate", "authentication.k8s.io", "userextras", "scopes", name="y"),
    Attributes("impersonate", "authentication.k8s.io", "userextras", "a/b", name="z"),
]


def test_who_names_nobody_is_who_they_are() -> None:
    answers = Answers()
    assert act(("User", "x"), ("X-Impersonate-User", "bob"), answers=answers) is BOSS
    assert answers.asked == []


def test_every_part_is_asked_for_and_taken_on() -> None:
    answers = Answers()
    found = act(*WHOLE, answers=answers)
    assert found == Caller("bob", ("a", "b", "system:authenticated"), "u-1", {"scopes": ("x", "y"), "a/b": ("z",)})
    assert answers.asked == PARTS


@pytest.mark.parametrize("name", ["Impersonate-User", "impersonate-group", "Impersonate-Uid", "Impersonate-Extra-x"])
def test_bytes_that_are_no_text_name_nobody(name: str) -> None:
    for letter in ("\ud800", "\udcff", "\udfff"):
        with pytest.raises(RequestRefused) as refused:
            act(("Impersonate-User", "bob"), (name, f"a{letter}"))
        assert refused.value.code == 400 and "UTF-8" in refused.value.message
    assert act(("Impersonate-User", "bärbel")).name == "bärbel"
    assert act(("Impersonate-User", "bob"), ("X-Else", "\ud800")).name == "bob"


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.resource} {part.name}")
def test_one_part_that_is_refused_refuses_all_of_it_and_is_named(part: Attributes) -> None:
    with pytest.raises(RequestRefused) as refused:
        act(*WHOLE, answers=Answers(part))
    assert refused.value.code == 403
    message = str(refused.value)
    assert f"{part.resource}" in message and f'"{part.name}" is forbidden: User "boss" cannot impersonate' in message


@pytest.mark.parametrize(
    "header", ["Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-x", "Impersonate-Nonsense"]
)
def test_parts_of_nobody_are_refused(header: str) -> None:
    for headers in ([(header, "a")], [(header, "a"), ("Impersonate-User", "")]):
        with pytest.raises(RequestRefused) as refused:
            act(*headers)
        assert refused.value.code == 400


@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [
        ("bob", [], ("system:authenticated",)),
        ("bob", ["system:authenticated", "a"], ("system:authenticated", "a")),
        ("system:anonymous", [], ("system:unauthenticated",)),
        ("system:anonymous", ["a", "system:unauthenticated"], ("a", "system:unauthenticated")),
        ("system:serviceaccount:ns:robot", [],
         ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")),
        ("system:serviceaccount:ns:robot", ["a"], ("a", "system:authenticated")),
    ],
)  # fmt: skip
def test_a_name_brings_its_usual_groups(name: str, groups: list[str], expected: tuple[str, ...]) -> None:
    assert act(("Impersonate-User", name), *(("Impersonate-Group", group) for group in groups)).groups == expected


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("system:serviceaccount:ns:robot",
         Attributes("impersonate", "", "serviceaccounts", namespace="ns", name="robot")),
        ("system:serviceaccount:ns:robot:x", user("system:serviceaccount:ns:robot:x")),
        ("system:serviceaccount:ns", user("system:serviceaccount:ns")),
        ("ns:robot", user("ns:robot")),
    ],
)  # fmt: skip
def test_a_service_account_is_asked_for_as_one_and_what_only_looks_like_one_as_a_user(
    name: str, asked: Attributes
) -> None:
    answers = Answers()
    act(("Impersonate-User", name), answers=answers)
    assert answers.asked == [asked]
