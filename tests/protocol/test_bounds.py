"""What a request at labd's socket may have, each bound at its edge."""

from __future__ import annotations

import pytest

from rackless.codec import BadValue
from rackless.protocol import bounds


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_VALUES", 10)


def refused(raw: bytes) -> bool:
    try:
        bounds.check_weight(raw)
    except BadValue:
        return True
    return False


@pytest.mark.parametrize("mark", [b",", b"[", b"{"])
def test_commas_and_opening_brackets_are_counted(mark: bytes) -> None:
    assert not refused(mark * 10) and refused(mark * 11)


@pytest.mark.parametrize("text", [rb'"%s"', rb'"\"%s\""', rb'"\\\"%s"', rb'"","%s"'])
def test_those_in_strings_are_not(text: bytes) -> None:
    assert not refused(text % (b",[{" * 100))


def test_what_follows_a_string_is() -> None:
    assert refused(rb'"\\",' * 5 + b"," * 6) and not refused(rb'"\\",' * 5 + b"," * 5)


def test_strings_are_not_taken_out_without_end() -> None:
    assert not refused(b'""' * 10) and refused(b'""' * 11)
    assert not refused(b'"' + rb"\"" * 100 + b'"'), "a quote in a string begins none"
    assert not refused(b'",,,"' + b"," * 10) and refused(b'",,,"' + b"," * 11)


def test_names_are_few_and_short() -> None:
    bounds.check_names(["x" * bounds.LONGEST_NAME] * bounds.MOST_HEARD)
    for names in (["x" * (bounds.LONGEST_NAME + 1)], ["x"] * (bounds.MOST_HEARD + 1)):
        with pytest.raises(BadValue):
            bounds.check_names(names)
