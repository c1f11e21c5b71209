"""The steps of an install by a bootstrap, read from the lab's events."""

from __future__ import annotations

from typing import Any

from rackless.cli import timeline_view
from rackless.diagnosis.estimates import Estimates
from rackless.diagnosis.install_steps import STEPS, SeenStep, install_timeline
from rackless.diagnosis.runs import find_runs
from rackless.diagnosis.timeline import to_json
from rackless.events import Event, from_json

MASTERS, WORKERS = {"ctrl-0", "ctrl-1"}, {"worker-0"}


class Story:
    """Events as `up` and labd write them; `process` numbers the runs of `up`."""

    def __init__(self) -> None:
        self.told: list[Event] = []
        self._number, self.process = 0, 1

    def begin(self, at: float, phase: str, subject: str = "") -> str:
        self._number += 1
        step = f"u{self.process}.{self._number}"
        self._add(event="step-started", step=step, parent=None, subject=subject, phase=phase, at=at)
        return step

    def end(self, at: float, step: str, outcome: str = "done", detail: str = "") -> None:
        self._add(event="step-finished", step=step, outcome=outcome, seconds=0.0, detail=detail, at=at)

    def step(
        self, begins: float, ends: float, phase: str, subject: str = "", outcome: str = "done", **more: str
    ) -> None:
        self.end(ends, self.begin(begins, phase, subject), outcome, **more)

    def note(self, at: float, code: str, **values: str) -> None:
        self._add(event="note", step=None, message="", at=at, code=code, values=values)

    def seen(self) -> dict[str, SeenStep]:
        return {each.step.name: each for each in install_timeline(find_runs(self.told), MASTERS, WORKERS)}

    def _add(self, **event: Any) -> None:
        self.told.append(from_json(event))


def test_every_step_of_the_design_and_of_the_installers_lab_has_its_place() -> None:
    assert _numbers([each.design for each in STEPS]) == set(range(1, 15))
    assert _numbers([each.lab for each in STEPS if each.lab]) == set(range(1, 11))


def test_a_step_lasts_until_the_last_of_its_hosts_is_done_and_counts_what_was_tried_again() -> None:
    story = Story()
    story.step(0, 5, "assets", detail="lab-abcde")
    story.step(10, 40, "provisioning", "host/ctrl-0", "failed")
    story.step(12, 50, "provisioning", "host/ctrl-1")
    story.step(45, 90, "provisioning", "host/ctrl-0")
    story.step(200, 300, "provisioning", "host/worker-0")  # by the cluster
    written = story.seen()["image and Ignition config written to disk"]
    assert (written.began, written.seconds, written.outcome, written.tries) == (10, 80, "done", 2)


def test_hosts_boot_from_their_disks_until_each_has_fetched_its_config() -> None:
    story, name = Story(), "hosts boot from disk, Ignition runs"
    story.step(0, 5, "assets", detail="lab-abcde")
    for host in MASTERS:
        story.step(10, 50, "provisioning", f"host/{host}")
    assert story.seen()[name].seconds is None
    story.note(60, "machine-config-fetched", role="master", client="192.0.2.20")
    story.note(61, "machine-config-fetched", role="master", client="192.0.2.20")
    assert story.seen()[name].seconds is None
    story.note(70, "machine-config-fetched", role="master", client="192.0.2.21")
    story.note(99, "machine-config-fetched", role="worker", client="192.0.2.30")
    assert (story.seen()[name].began, story.seen()[name].seconds) == (50, 20)


def test_a_lab_that_is_started_later_is_not_installed_again_and_another_install_begins_anew() -> None:
    story = Story()
    story.step(0, 4, "networks")
    story.step(5, 6, "assets", detail="lab-abcde")
    story.step(10, 20, "VM")
    story.step(100, 130, "workers")
    story.process = 2
    story.step(1000, 1004, "networks")
    story.step(1005, 1006, "assets", detail="lab-abcde")
    story.step(1010, 1011, "VM", outcome="unchanged")
    story.step(1020, 1030, "workers")
    first = story.seen()
    assert [each.began for each in first.values()] == [0, 5, 10, 100]
    assert first["metal3 monitors hosts, and installs the workers"].seconds == 30
    story.process = 3
    story.step(2000, 2001, "assets", detail="lab-fghij")
    story.begin(2010, "VM")
    assert {name: each.outcome for name, each in story.seen().items()} == {
        "hosts and their networks": "done",
        "the installer and its assets": "done",
        "bootstrap machine started, on its networks": "running",
    }


def test_the_table_names_the_numbers_of_both_and_programs_get_them_too() -> None:
    story = Story()
    story.step(0, 5, "assets", detail="lab-abcde")
    story.step(5, 65, "VM")
    story.note(66, "bootstrap-address", address="172.22.0.2", dhcp="answers DHCP there")
    steps = list(story.seen().values())
    table = timeline_view.render_install(steps)
    rows = list(zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True))
    assert rows == [
        ("2", "-", "the installer and its assets", "0.0 s", "5.0 s"),
        ("3–4", "1", "bootstrap machine started, on its networks", "5.0 s", "60.0 s"),
        ("5", "-", "bootstrap at its well-known address", "1 min 06 s", "0.0 s"),
    ]
    told = to_json({"ctrl-0": []}, Estimates(), steps)
    assert [(each["design"], each["lab"]) for each in told["install"]] == [("2", ""), ("3–4", "1"), ("5", "")]
    assert to_json({"ctrl-0": []}, Estimates()) == {"ctrl-0": []}


def _numbers(told: list[str]) -> set[int]:
    ranges = [[int(end) for end in each.split("–")] for each in told]
    return {number for each in ranges for number in range(each[0], each[-1] + 1)}
