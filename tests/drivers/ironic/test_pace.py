"""A slow Ironic is asked less often."""

from __future__ import annotations

from rackless.drivers.ironic.provisioner import SLOWEST, at_its_pace
from rackless.ports.provisioner import Again, Done, ErrorKind, Failed


def test_a_quick_one_is_asked_as_often_as_its_work_needs() -> None:
    assert at_its_pace(Again(2.0, "inspecting", agent=True), 0.02) == Again(2.0, "inspecting", agent=True)


def test_a_slow_one_has_most_of_its_time_for_itself_and_is_not_forgotten() -> None:
    assert at_its_pace(Again(2.0, "inspecting"), 1.0) == Again(8.0, "inspecting")
    assert at_its_pace(Again(2.0), 60.0) == Again(SLOWEST)
    assert at_its_pace(Again(60.0), 60.0) == Again(60.0)


def test_what_is_over_is_told_at_once() -> None:
    for result in (Done(), Failed(ErrorKind.INSPECTION, "no")):
        assert at_its_pace(result, 60.0) is result
