"""Labs that run on although somebody deleted what tells of them: found by what runs, refused a second time, ended."""

from __future__ import annotations

import shutil

import pytest

from rackless.errors import LabError, RacklessError
from rackless.operations import lab as operations
from rackless.run.paths import Roots
from rackless.spec.load import parse
from tests.simulation.person import Person

SMALL = "name: lab\nnetworks: {uplink: {mode: nat}}\nservers: {worker: {count: 1}}"


@pytest.fixture
def owner(person: Person) -> Person:
    person.spec = parse(SMALL, "lab.yaml")
    return person


async def orphans(owner: Person) -> list[dict[str, object]]:
    return await owner.run("destroy", operations.find_orphans(owner.roots, owner.world.drivers()))


async def end_orphans(owner: Person) -> list[str]:
    return await owner.run("destroy", operations.destroy_orphans(owner.roots, owner.bus, owner.world.drivers()))


def test_a_lab_whose_ledger_was_deleted_is_found_and_ended_and_its_folder_stays(owner: Person) -> None:
    async def story() -> None:
        await owner.up("lab")
        await owner.lab.hypervisor.power_on("worker-0")
        assert await orphans(owner) == []
        owner.paths.ledger.unlink()
        (found,) = await orphans(owner)
        assert found["lab"] == "lab" and "ledger" in str(found["why"]) and found["left"] == [str(owner.paths.state)]
        labs = await owner.run("list", operations.list_labs(owner.roots, owner.world.drivers()))
        assert [(lab["lab"], lab["daemon"]) for lab in labs] == [("lab", "orphan")]
        assert await end_orphans(owner) == ["lab"]
        assert owner.world.pinned == set() and owner.lab.running() == []
        assert not any(process.alive for process in owner.world.processes.all.values())
        assert owner.world.network.cables == {} and owner.world.firewall.tables == {}
        assert not owner.world.network.forwarding["eth0"]
        assert owner.paths.state.exists() and not owner.paths.run.exists()
        assert await orphans(owner) == []

    owner.live(story)


def test_a_lab_whose_pin_is_gone_is_not_made_a_second_time_and_is_ended_by_its_name(owner: Person) -> None:
    async def story() -> None:
        await owner.up("lab")
        owner.world.pinned.clear()  # umount
        shutil.rmtree(owner.paths.run)
        with pytest.raises(RacklessError, match="still runs"):
            await owner.up("lab")
        await owner.destroy()
        assert not any(process.alive for process in owner.world.processes.all.values())
        assert not owner.roots.state.exists()
        await owner.up("lab")

    owner.live(story)


def test_only_the_lost_one_of_two_labs_of_one_name_is_ended(owner: Person) -> None:
    async def story() -> None:
        await owner.up("lab")
        well = owner.lab
        folder = owner.folder
        owner.folder = folder / "elsewhere"
        shutil.copytree(folder / "cache", owner.folder / "cache")
        await owner.up("lab")
        owner.paths.ledger.unlink()
        owner.folder = folder
        assert await end_orphans(owner) == ["lab"]
        assert well.links.links != {} and (await owner.status())["reached"] == "lab"
        assert len(owner.world.network.cables) == 1

    owner.live(story)


def test_rules_of_an_uplink_that_is_gone_are_swept(owner: Person) -> None:
    async def story() -> None:
        await owner.up("lab")
        for process in list(owner.world.processes.all.values()):  # ended by hand, and so was the namespace
            if process.network is not None:
                owner.world.processes.kill(process)
        owner.world.drivers().namespaces.unpin(owner.paths.netns)
        shutil.rmtree(owner.roots.state)
        shutil.rmtree(owner.roots.run)
        assert owner.world.firewall.tables != {} and owner.world.network.forwarding["eth0"]
        await end_orphans(owner)
        assert owner.world.firewall.tables == {} and not owner.world.network.forwarding["eth0"]

    owner.live(story)


def test_a_lab_of_another_computer_is_not_looked_at(owner: Person) -> None:
    async def story() -> None:
        await owner.up("lab")
        owner.paths.ledger.unlink()
        marks = owner.world.namespaces.marks
        for space, mark in list(marks.items()):
            marks[space] = mark.replace(",1,1000,", ",7,8,")  # made in a container
        assert await orphans(owner) == [] == await end_orphans(owner)
        assert owner.world.processes.named("rackless.labd.main")

    owner.live(story)


def test_who_is_not_root_sees_no_orphan_and_ends_none(owner: Person) -> None:
    async def story() -> None:
        await owner.up("lab")
        owner.paths.ledger.unlink()
        owner.world.computer.is_root = False
        assert await orphans(owner) == []
        with pytest.raises(RacklessError, match="only root"):
            await end_orphans(owner)

    owner.live(story)


def test_folders_of_a_lab_are_found_under_whatever_roots(owner: Person) -> None:
    async def story() -> None:
        await owner.up("lab")
        owner.paths.ledger.unlink()
        elsewhere = Roots(owner.folder / "a", owner.folder / "b", owner.roots.cache)
        found = await owner.run("destroy", operations.find_orphans(elsewhere, owner.world.drivers()))
        assert [one["folder"] for one in found] == [str(owner.paths.state)]
        with pytest.raises(LabError, match="there is no lab"):
            await owner.down()

    owner.live(story)
