"""The lab helps itself: what is safe, when it may, once, and written down."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from rackless.diagnosis.lab_evidence import LabEvidence
from rackless.diagnosis.remedy import Cure, read_tried
from rackless.errors import InputError, LabError
from rackless.events import Bus, Event, Note, StepFinished, StepStarted
from rackless.labd.remedies import LOOK_SECONDS, LabRemedies
from rackless.spec.remediation import Remediation
from tests.diagnosis.test_lab_rules import PLANTED, WELL, asked_by, boot, host_error


@dataclass
class NotedRepairs:
    """A lab that notes what is done to it."""

    seen: LabEvidence = WELL
    done: list[str] = field(default_factory=list)
    fails: bool = False

    async def evidence(self) -> LabEvidence:
        return self.seen

    async def start_parts(self) -> None:
        self._do("start parts")

    async def restart_server(self, name: str) -> None:
        self._do(f"restart {name}")

    async def retry_host(self, name: str) -> None:
        self._do(f"retry {name}")

    async def approve_request(self, name: str) -> None:
        self._do(f"approve {name}")

    def _do(self, what: str) -> None:
        self.done.append(what)
        if self.fails:
            raise LabError("it did not work")


class Rounds:
    """A clock that lets a watch look so many times, and then ends it."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds
        self.slept: list[float] = []

    def now(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self.left == 0:
            raise asyncio.CancelledError
        self.left -= 1


@dataclass
class Bench:
    repairs: NotedRepairs
    remedies: LabRemedies
    told: list[Event]

    def codes(self) -> list[str]:
        return [event.code for event in self.told if isinstance(event, Note)]


def bench(
    folder: Path, seen: LabEvidence, allowed: Remediation = Remediation.ASK, rounds: int = 3, fails: bool = False
) -> Bench:
    told: list[Event] = []
    bus = Bus()
    bus.subscribe(told.append)
    repairs = NotedRepairs(seen, fails=fails)
    return Bench(repairs, LabRemedies(repairs, allowed, folder / "remedies.jsonl", Rounds(rounds), bus), told)


async def watch(it: Bench) -> None:
    with pytest.raises(asyncio.CancelledError):
        await it.remedies.watch()


@pytest.mark.parametrize(
    ("seen", "rule", "subject", "done"),
    [
        (PLANTED["lab/part-down"], "lab/part-down", "part/ironic", "start parts"),
        (PLANTED["host/agent-silent"], "host/agent-silent", "host/worker-0", "restart worker-0"),
        (PLANTED["host/dhcp-not-asked"], "host/dhcp-not-asked", "host/worker-0", "restart worker-0"),
        (PLANTED["host/bmc-silent"], "host/bmc-silent", "host/worker-0", "retry worker-0"),
        (replace(WELL, requests=[asked_by("ctrl-0")]), "cluster/csr-ours", "csr/csr-ctrl-0", "approve csr-ctrl-0"),
    ],
)
async def test_what_a_person_asks_for_is_done_once_and_written_down(
    seen: LabEvidence, rule: str, subject: str, done: str, tmp_path: Path
) -> None:
    it = bench(tmp_path, seen)
    outcome = await it.remedies.apply(rule, subject)
    assert outcome.applied and it.repairs.done == [done]
    (tried,) = read_tried((tmp_path / "remedies.jsonl").read_text())
    assert (tried.remedy.rule, tried.remedy.subject, tried.by) == (rule, subject, "person")
    began, ended, note = it.told
    assert isinstance(began, StepStarted) and (began.subject, began.phase) == (subject, tried.remedy.cure.value)
    assert isinstance(ended, StepFinished) and ended.outcome == "done"
    assert isinstance(note, Note) and note.code == "remedy-applied" and note.values["rule"] == rule

    again = await it.remedies.apply(rule, subject)
    assert not again.applied and "nothing has changed since" in again.why and it.repairs.done == [done]


async def test_a_lab_helps_itself_only_with_auto(tmp_path: Path) -> None:
    for allowed, done in ((Remediation.OFF, []), (Remediation.ASK, []), (Remediation.AUTO, ["restart worker-0"])):
        it = bench(tmp_path / allowed.value, PLANTED["host/agent-silent"], allowed)
        if allowed is Remediation.AUTO:
            await watch(it)
            assert it.remedies.clock.slept == [LOOK_SECONDS] * 4  # type: ignore[attr-defined]
            assert it.codes() == ["remedy-applied", "remedy-in-vain"], (
                "done once, and said once that it is not done again"
            )
            (tried,) = read_tried((tmp_path / "auto/remedies.jsonl").read_text())
            assert tried.by == "lab"
        else:
            await it.remedies.watch()
        assert it.repairs.done == done


async def test_after_a_change_it_is_tried_again(tmp_path: Path) -> None:
    def seen(generation: int) -> LabEvidence:
        host: dict[str, Any] = dict(host_error(boot(kernel=True)).hosts[-1])
        host["metadata"] = host["metadata"] | {"generation": generation}
        return replace(WELL, hosts=[host])

    it = bench(tmp_path, seen(1))
    assert (await it.remedies.apply("host/agent-silent", "host/worker-0")).applied
    it.repairs.seen = seen(2)
    assert (await it.remedies.apply("host/agent-silent", "host/worker-0")).applied
    assert it.repairs.done == ["restart worker-0"] * 2
    # a labd that came later reads what was tried
    later = bench(tmp_path, seen(2))
    assert not (await later.remedies.apply("host/agent-silent", "host/worker-0")).applied and later.repairs.done == []


async def test_one_that_failed_is_told_and_not_tried_again_on_the_same(tmp_path: Path) -> None:
    it = bench(tmp_path, PLANTED["host/power"], Remediation.AUTO, fails=True)
    await watch(it)
    assert it.repairs.done == ["retry worker-0"]
    assert it.codes() == ["remedy-failed", "remedy-in-vain"]


async def test_what_cannot_be_written_down_is_not_done_and_the_lab_looks_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    it = bench(tmp_path / "file", PLANTED["host/power"], Remediation.AUTO)
    it.remedies._tried = list  # type: ignore[method-assign]
    await watch(it)
    assert it.repairs.done == [] and it.remedies.clock.left == 0  # type: ignore[attr-defined]
    with pytest.raises(LabError, match="cannot be written down"):
        await it.remedies.apply("host/power", "host/worker-0")


async def test_what_is_no_longer_so_what_has_no_cure_and_what_is_forbidden_is_not_done(tmp_path: Path) -> None:
    it = bench(tmp_path, WELL)
    assert not (await it.remedies.apply("host/power", "host/worker-0")).applied
    it.repairs.seen = PLANTED["host/checksum"]
    with pytest.raises(InputError, match="nothing can be done"):
        await it.remedies.apply("host/checksum", "host/worker-0")
    off = bench(tmp_path, PLANTED["host/power"], Remediation.OFF)
    with pytest.raises(LabError, match="does nothing about what is wrong"):
        await off.remedies.apply("host/power", "host/worker-0")
    assert it.repairs.done == off.repairs.done == []


async def test_nothing_is_done_to_a_lab_that_is_well(tmp_path: Path) -> None:
    it = bench(tmp_path, WELL, Remediation.AUTO)
    await watch(it)
    assert it.repairs.done == [] and it.told == [] and not (tmp_path / "remedies.jsonl").exists()


def test_lines_that_cannot_be_read_are_passed_over() -> None:
    assert read_tried('{"cut sho\n[]\n{"remedy": {"cure": "of tomorrow"}}\n') == []
    assert set(Cure) == {"start-daemon", "start-parts", "restart-server", "retry-host", "approve-request"}
