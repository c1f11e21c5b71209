from typing import Any

from rackless.cli import timeline_view
from rackless.diagnosis.timeline import Phase, timeline
from rackless.events import Event, from_json


class Story:
    """Events as labd writes them."""

    def __init__(self) -> None:
        self.told: list[Event] = []
        self._number = 0

    def begin(self, at: float, title: str) -> str:
        self._number += 1
        self._add(event="step-started", step=f"d{self._number}", parent=None, title=title, at=at)
        return f"d{self._number}"

    def end(self, at: float, step: str, outcome: str = "done") -> None:
        self._add(event="step-finished", step=step, outcome=outcome, seconds=0.0, detail="", at=at)

    def phase(self, begins: float, ends: float, title: str, outcome: str = "done") -> None:
        self.end(ends, self.begin(begins, title), outcome)

    def _add(self, **event: Any) -> None:
        self.told.append(from_json(event))


def test_phases_follow_each_other_and_steps_of_the_lab_are_no_phases() -> None:
    story = Story()
    lab = story.begin(0, "hosts")
    story.phase(0, 2, "ctrl-0: registering")
    story.phase(2, 30, "ctrl-0: inspecting")
    story.phase(1, 3, "other: registering")
    story.end(30, lab)
    assert timeline(story.told, ["ctrl-0"]) == {
        "ctrl-0": [Phase("registering", 0, 2, "done"), Phase("inspecting", 2, 28, "done")]
    }


def test_a_phase_that_failed_or_lost_its_daemon_counts_from_its_first_beginning() -> None:
    story = Story()
    story.phase(0, 10, "ctrl-0: provisioning", "failed")
    story.begin(20, "ctrl-0: provisioning")  # then labd was killed
    story.phase(30, 50, "ctrl-0: provisioning")
    assert timeline(story.told, ["ctrl-0"])["ctrl-0"] == [Phase("provisioning", 0, 50, "done", tries=3)]


def test_a_phase_under_way_has_no_length_yet_and_a_new_registration_begins_a_new_story() -> None:
    story = Story()
    story.phase(0, 2, "ctrl-0: registering")
    story.phase(2, 3, "ctrl-0: inspecting")
    story.begin(100, "ctrl-0: registering")
    assert timeline(story.told, ["ctrl-0", "ctrl-1"]) == {"ctrl-0": [Phase("registering", 100)], "ctrl-1": []}


def test_the_table_has_a_column_for_each_phase_and_the_way_as_a_whole() -> None:
    story = Story()
    story.phase(0, 2, "ctrl-0: registering")
    story.phase(2, 130, "ctrl-0: booting its system")
    table = timeline_view.render(timeline(story.told, ["ctrl-0", "ctrl-1"]))
    assert [str(column.header) for column in table.columns] == ["HOST", "REGISTERING", "BOOTING", "IN ALL"]
    assert [[str(cell) for cell in column.cells] for column in table.columns] == [
        ["ctrl-0", "ctrl-1"],
        ["2.0 s", "-"],
        ["128 s", "-"],
        ["130 s", "-"],
    ]
