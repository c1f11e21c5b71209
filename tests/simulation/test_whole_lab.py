"""A whole lab, from nothing to nothing, on fakes and in virtual time."""

from __future__ import annotations

from collections import Counter

import pytest

from rackless.drivers.fake.script import Rule
from rackless.errors import LabError
from rackless.simulation.person import Person
from rackless.spec.load import parse

SERVERS = {"ctrl-0", "ctrl-1", "ctrl-2", "worker-0"}


def test_a_lab_comes_up_whole_and_goes_down_and_up_and_away(person: Person) -> None:
    async def story() -> None:
        await person.up()
        found = await person.status()
        assert [server["host"] for server in found["servers"]] == ["provisioned"] * 4
        assert [server["power"] for server in found["servers"]] == ["on"] * 4
        assert found["etcd"]["complete"] and found["vip"]["ready"]
        assert found["reached"] == "cluster" and found["cut_off"] == []
        lab = person.lab
        assert lab.nodes.joined == SERVERS
        tls, api, etcd = person.paths.pki, person.paths.api_pki, person.paths.cluster_keys / "etcd"
        assert (tls / "bmc.crt").exists() and (api / "admin.crt").exists() and (etcd / "ctrl-0.crt").exists()
        assert len({(folder / "ca.crt").read_bytes() for folder in (tls, api, etcd)}) == 3  # roots stay apart
        assert not (tls / "admin.crt").exists()

        await person.down()
        assert lab.running() == [] and lab.links.links == {}
        assert not any(process.alive for process in person.world.processes.all.values())

        await person.up()
        assert set(lab.running()) == SERVERS
        assert (await person.status())["vip"]["ready"]

        assert await person.destroy()
        assert not any(process.alive for process in person.world.processes.all.values())
        assert lab.running() == [] and person.world.pinned == set()
        assert not person.roots.state.exists() and not person.roots.run.exists()

    person.live(story)


def test_a_lab_that_is_whole_is_asked_once_and_all_of_it_at_the_same_time(person: Person) -> None:
    async def story() -> None:
        await person.up()
        script, clock = person.world.script, person.world.drivers().clock
        rule = Rule("nodes.*", seconds=3.0, times=1000)
        script.rules.append(rule)
        before = clock.now()
        with script.recorded() as calls:
            await person.up()
        script.rules.remove(rule)
        asked = Counter(call.method for call in calls if call.port == "nodes")
        assert asked == {"ssh_banner": 4, "members": 1, "vip": 1, "objects": 1}
        assert clock.now() - before == pytest.approx(3.0), "as long as one of them takes"
        assert not [str(call) for call in calls if call.changed]

    person.live(story)


def test_a_lab_is_made_goal_by_goal_and_each_run_goes_on_from_the_last(person: Person) -> None:
    async def story() -> None:
        for goal in ("lab", "bmc", "engine", "hosts", "cluster"):
            await person.up(goal)
            assert (await person.status())["reached"] == goal
        assert set(person.lab.running()) == SERVERS

    person.live(story)


def test_servers_that_were_on_come_back_after_the_computer_was_restarted(person: Person) -> None:
    async def story() -> None:
        await person.up()
        await person.world.drivers().clock.sleep(10)  # until it is remembered who is on
        person.world.restart_computer(person.roots.run)
        assert person.lab.running() == []
        await person.up()
        assert set(person.lab.running()) == SERVERS

    person.live(story)


def test_a_lab_that_an_earlier_version_made_goes_on_from_its_goal(person: Person) -> None:
    async def story() -> None:
        await person.up("engine")
        await person.down()
        person.paths.journal.unlink()
        person.paths.goal.write_text("engine")  # which was how far it had come
        await person.up("engine")
        assert (await person.status())["reached"] == "engine"
        assert person.lab.provisioner.running
        await person.up()
        assert set(person.lab.running()) == SERVERS
        assert person.paths.goal.read_text() == (await person.status())["reached"] == "cluster"

    person.live(story)


def test_a_server_that_is_no_longer_described_goes_only_when_asked_to_and_takes_its_host_along(person: Person) -> None:
    async def story() -> None:
        await person.up()
        person.spec = parse("name: lab\nservers: {ctrl: {role: control-plane, count: 3}}", "lab.yaml")
        with pytest.raises(LabError, match="would lose something"):
            await person.up()
        assert set(person.lab.running()) == SERVERS
        await person.up(replace=True)
        assert set(person.lab.hypervisor._servers) == {"ctrl-0", "ctrl-1", "ctrl-2"}
        assert "worker-0" not in person.lab.provisioner.hosts
        assert [server["name"] for server in (await person.status())["servers"]] == ["ctrl-0", "ctrl-1", "ctrl-2"]

    person.live(story)


def test_two_labs_with_the_same_addresses_stand_side_by_side(person: Person) -> None:
    async def story() -> None:
        first, second = person.spec, person.spec.model_copy(update={"name": "other"})
        await person.up()
        one = person.lab
        person.spec = second
        await person.up()
        assert person.lab is not one
        assert set(one.running()) == set(person.lab.running()) == SERVERS
        await person.destroy()
        person.spec = first
        assert (await person.status())["vip"]["ready"]

    person.live(story)


def test_a_lab_is_a_guest_of_an_ironic_that_is_not_its_own_and_leaves_nothing_there(person: Person) -> None:
    password = person.folder / "password"
    password.write_text("a secret")
    person.spec = parse(
        "name: lab\nservers: {worker: {count: 2}}\n"
        f"provisioner: {{url: 'http://192.0.2.9:6385', credentials: {{username: me, password_file: {password}}}}}",
        "lab.yaml",
    )

    async def story() -> None:
        await person.up()
        provisioner = person.lab.provisioner
        assert set(provisioner.hosts) == set(person.lab.running()) == {"worker-0", "worker-1"}
        assert not person.world.processes.named("ironic")
        await person.destroy()
        assert provisioner.hosts == {} and not person.roots.state.exists()

    person.live(story)
