"""What a watch over an address calls wrong."""

from __future__ import annotations

import json

from tests.real.vip_watch import NOT_ASKED, find_wrong, holders


def look(before: str, after: str, ready: str = "ok") -> str:
    return json.dumps({"before": before.split(), "after": after.split(), "ready": ready})


def test_one_holder_after_the_other_is_right() -> None:
    lines = [look("", "", NOT_ASKED), look("a", "a"), look("a", "", "reset"), look("", "b", NOT_ASKED), look("b", "b")]
    assert find_wrong(lines) == [] and holders(lines) == ["a", "b"]


def test_two_at_once_and_one_that_is_not_ready_are_wrong() -> None:
    assert [each.partition(":")[0] for each in find_wrong([look("a b", "a"), look("a", "a b"), look("b", "b", "503")])] == [
        "two hold it", "two hold it", "held by one that is not ready",
    ]  # fmt: skip
