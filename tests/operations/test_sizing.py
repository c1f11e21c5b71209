"""What is said about the computer before a lab is made on it."""

import json
from pathlib import Path

import pytest

from rackless.cli import words
from rackless.drivers.computer import LinuxComputer
from rackless.drivers.fake.computer import FakeComputer
from rackless.errors import HypervisorError
from rackless.events import Bus, Event, Note
from rackless.operations import sizing
from rackless.plan.actions import Observed
from rackless.plan.stages import plan_actions
from rackless.run.paths import Roots
from rackless.spec.cluster import Method
from rackless.spec.disks import DiskCache, DiskSpec
from rackless.spec.lab import LabSpec
from rackless.spec.load import parse

CONTROL = parse("servers: {c: {role: control-plane}}", "x")


def said(spec: LabSpec, folder: Path, observed: Observed, computer: FakeComputer) -> list[str]:
    notes: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, Note):
            notes.append(words.message(event))

    bus = Bus()
    bus.subscribe(note)
    roots = Roots(state=folder / "state", run=folder / "run", cache=folder / "cache")
    sizing.refuse_poverty(spec, roots, plan_actions(spec, observed, ("lab",)), bus, computer)
    return notes


class SlowDisk(FakeComputer):
    def __init__(self) -> None:
        super().__init__(sync_seconds=0.042)
        self.measured: list[Path] = []

    def fsync_seconds(self, folder: Path) -> float | None:
        self.measured.append(folder)
        return super().fsync_seconds(folder)


def test_a_disk_too_slow_for_etcd_is_said_once_before_control_planes_are_made(tmp_path: Path) -> None:
    slow = SlowDisk()
    safe = CONTROL.model_copy(update={"disk": DiskSpec(cache=DiskCache.SAFE)})
    notes = said(safe, tmp_path, Observed(), slow)
    assert any("a sync of the disk takes 42 ms; etcd wants 10 ms" in note and "storage:" in note for note in notes)
    assert slow.measured == [tmp_path / "state"], "where the disks will be"
    there = Observed(CONTROL, True, {"c-0": "off"}, frozenset({"cluster"}))
    said(CONTROL, tmp_path, there, slow)
    said(parse("servers: {w: {role: worker}}", "x"), tmp_path, Observed(), slow)
    assert len(slow.measured) == 1, "neither for what is there nor for workers"


def test_a_sync_is_measured_in_a_bounded_time_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(number * 0.2 for number in range(1000))
    monkeypatch.setattr("rackless.drivers.computer.time.perf_counter", lambda: next(now))
    found = LinuxComputer().fsync_seconds(tmp_path / "not" / "there yet")
    assert found is not None and abs(found - 0.2) < 1e-6
    assert next(now) < 1.0, "two syncs were enough"
    assert list(tmp_path.iterdir()) == []
    assert LinuxComputer().fsync_seconds(Path("/proc")) is None


def test_no_space_is_a_matter_of_the_machine(tmp_path: Path) -> None:
    with pytest.raises(HypervisorError, match="not enough"):
        said(CONTROL, tmp_path, Observed(), FakeComputer(bytes_free=1 << 30))


@pytest.mark.parametrize(("kvm", "method"), [(True, Method.IPI), (False, Method.DIRECT)])
def test_a_bootstrap_installs_where_a_guest_was_seen_to_run_with_kvm(kvm: bool, method: Method, tmp_path: Path) -> None:
    roots, computer = Roots(state=tmp_path / "state", run=tmp_path / "run", cache=tmp_path), FakeComputer()
    assert sizing.choose_method(roots, computer)[0] is Method.DIRECT, "nobody has tried yet"
    found = {"key": "k", "boot": computer.boot_id().strip(), "kvm": kvm, "says": "seen"}
    (tmp_path / "acceleration.json").write_text(json.dumps(found))
    assert sizing.choose_method(roots, computer) == (method, "seen")
