"""`why` on whole labs of fakes: nothing where nothing is wrong, and the planted fault first where something is."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackless.drivers.fake.computer import FakeComputer
from rackless.drivers.fake.processes import FakeProcess
from rackless.operations.gather import QUESTIONS, gather
from rackless.operations.why import WhyAnswer, why_archive, why_lab
from rackless.spec.load import parse
from tests.simulation.person import Person

WHOLE = "name: lab\nservers: {ctrl: {role: control-plane, count: 3}, worker: {count: 1}}"


async def why(person: Person, subject: str = "") -> WhyAnswer:
    return await person.run("why", why_lab("lab", person.roots, person.world.drivers(), subject))


def rules(answer: WhyAnswer) -> list[str]:
    return [one.rule for one in answer.findings]


def test_nothing_is_wrong_with_a_lab_at_any_stage_of_its_making(person: Person) -> None:
    person.spec = parse(WHOLE, "lab.yaml")

    async def story() -> None:
        for goal in ("lab", "bmc", "engine", "hosts", "cluster"):
            await person.up(goal)
            assert rules(await why(person)) == [], goal

    person.live(story)


def test_a_lab_that_was_stopped_and_one_that_was_killed_are_told_apart(person: Person) -> None:
    person.spec = parse(WHOLE, "lab.yaml")

    async def story() -> None:
        await person.up("bmc")
        await person.down()
        assert rules(await why(person)) == ["lab/stopped"]
        await person.up("bmc")
        person.world.restart_computer(person.roots.run)
        (found,) = (await why(person)).findings
        assert found.rule == "lab/daemon-gone" and "rackless up" in found.cause.remedy
        await person.up("bmc")
        assert rules(await why(person)) == []

    person.live(story)


def test_a_control_plane_that_is_off_is_the_cause_and_its_node_the_consequence(person: Person) -> None:
    person.spec = parse(WHOLE, "lab.yaml")

    async def story() -> None:
        await person.up()
        await person.power("off", "ctrl-1")
        await person.world.drivers().clock.sleep(120)
        found = await why(person)
        assert "cluster/etcd-member" in rules(found)
        member = next(one for one in found.findings if one.rule == "cluster/etcd-member")
        assert member.cause.subject == "etcd/ctrl-1" and "its server is off" in member.cause.message
        assert member.cause.remedy == "`rackless power ctrl-1 on`"
        assert {one.cause.subject.partition("/")[2] for one in found.findings} == {"ctrl-1"}, (
            "and nobody else is accused"
        )
        assert rules(await why(person, "worker-0")) == []

    person.live(story)


def test_a_disk_that_is_full_comes_before_everything_that_follows_from_it(person: Person) -> None:
    person.spec = parse(WHOLE, "lab.yaml")

    async def story() -> None:
        await person.up("bmc")
        await person.down()
        person.world.computer.bytes_free = 1 << 20
        assert rules(await why(person)) == ["lab/no-room", "lab/stopped"]

    person.live(story)


def test_the_disk_that_counts_is_the_one_that_the_servers_disks_are_on(
    person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = tmp_path / "storage"
    person.spec = parse(f"{WHOLE}\nstorage: {storage}", "lab.yaml")
    full: list[Path] = []
    monkeypatch.setattr(
        FakeComputer, "free_bytes", lambda _, folder: (1 if any(map(folder.is_relative_to, full)) else 1 << 20) << 20
    )

    async def story() -> None:
        await person.up("bmc")
        assert rules(await why(person)) == []
        full.append(storage)
        assert rules(await why(person)) == ["lab/no-room"]
        full[:] = [person.paths.state]
        assert rules(await why(person)) == []

    person.live(story)


async def _answers(process: FakeProcess) -> int:
    process.say("nothing")
    return 0


def test_an_archive_is_judged_as_the_lab_was(person: Person, tmp_path: Path) -> None:
    person.spec = parse(WHOLE, "lab.yaml")
    person.world.processes.programs |= dict.fromkeys({question[0] for question in QUESTIONS.values()}, _answers)

    async def story() -> tuple[list[str], WhyAnswer]:
        await person.up()
        await person.power("off", "ctrl-2")
        await person.world.drivers().clock.sleep(120)
        before = rules(await why(person))
        await person.run("gather", gather("lab", tmp_path / "lab.tar.gz", person.roots, person.world.drivers()))
        return before, why_archive(tmp_path / "lab.tar.gz")

    before, after = person.live(story)
    assert rules(after) == before and after.about == "the archive lab.tar.gz"
