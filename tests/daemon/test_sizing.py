"""What is said about the machine before a lab is made on it."""

from pathlib import Path

import pytest

from rackless.daemon import sizing
from rackless.errors import MachineError
from rackless.events import Bus, Event, Note
from rackless.lab import machine
from rackless.plan.actions import Observed, plan_actions
from rackless.run.paths import Roots
from rackless.spec.lab import LabSpec
from rackless.spec.load import parse

CONTROL = parse("servers: {c: {role: control-plane}}", "x")


def said(spec: LabSpec, folder: Path, observed: Observed) -> list[str]:
    notes: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, Note):
            notes.append(event.message)

    bus = Bus()
    bus.subscribe(note)
    roots = Roots(state=folder / "state", run=folder / "run", cache=folder / "cache")
    sizing.refuse_poverty(spec, roots, plan_actions(spec, observed, ("lab",)), bus)
    return notes


def test_a_disk_too_slow_for_etcd_is_said_once_before_control_planes_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[Path] = []

    def slow(folder: Path) -> float:
        measured.append(folder)
        return 0.042

    monkeypatch.setattr(machine, "measure_fsync", slow)
    notes = said(CONTROL, tmp_path, Observed())
    assert any("a sync of the disk takes 42 ms; etcd wants 10 ms" in note and "storage:" in note for note in notes)
    assert measured == [tmp_path], "where the disks will be, or what there is of it"
    there = Observed(CONTROL, True, {"c-0": "off"}, frozenset({"cluster"}))
    said(CONTROL, tmp_path, there)
    said(parse("servers: {w: {role: worker}}", "x"), tmp_path, Observed())
    assert len(measured) == 1, "neither for what is there nor for workers"


def test_a_sync_is_measured_in_a_bounded_time_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(number * 0.2 for number in range(1000))
    monkeypatch.setattr("rackless.lab.machine.time.perf_counter", lambda: next(now))
    found = machine.measure_fsync(tmp_path)
    assert found is not None and abs(found - 0.2) < 1e-6
    assert next(now) < 1.0, "two syncs were enough"
    assert list(tmp_path.iterdir()) == []
    assert machine.measure_fsync(tmp_path / "nowhere") is None


def test_no_space_is_a_matter_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "free_bytes", lambda _: 1 << 30)
    with pytest.raises(MachineError, match="not enough"):
        said(CONTROL, tmp_path, Observed())
