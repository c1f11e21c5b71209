"""What a person asks of a lab that runs: its hosts by hand, its servers' power, ways into it, what it takes up."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rackless.errors import HypervisorError, InputError, LabError, RacklessError
from rackless.operations import access, hosts, servers
from rackless.operations import lab as operations
from rackless.protocol.messages import FaultWish, HostVerb, HostWish, PowerAction, Record
from rackless.run.paths import LabPaths
from rackless.spec.images import ImageSpec
from rackless.spec.load import parse
from tests.simulation.person import Person

SMALL = "name: lab\nservers: {node: {count: 1}, spare: {role: spare, count: 1}}"
CONTROL = "name: lab\nservers: {ctrl: {role: control-plane, count: 1}}"


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def test_hosts_are_asked_for_things_by_hand_and_up_leaves_them_alone(person: Person) -> None:
    person.spec = parse(SMALL, "lab.yaml")
    own = person.folder / "own.raw"
    own.write_bytes(bytes(510) + b"\x55\xaa" + bytes(512))

    async def wish(verb: HostVerb, host: str) -> tuple[bool, str]:
        done = await person.run(verb, hosts.wish("lab", HostWish(verb, host, wait=True), person.roots, person.bus))
        return done.changed, done.state

    async def story() -> None:
        await person.up("hosts")
        assert await wish("inspect", "spare-0") == (True, "available")
        assert await wish("clean", "spare-0") == (True, "available")
        with pytest.raises(LabError, match="host node-0 is provisioned, and only an available one can be inspected"):
            await wish("inspect", "node-0")
        with pytest.raises(LabError, match="has not failed"):
            await wish("retry", "node-0")
        with pytest.raises(InputError, match="without an image"):
            await wish("provision", "spare-0")
        image = ImageSpec(url=str(own))
        work = hosts.provision(
            "lab", ["spare-0"], image, person.roots, person.bus, user_data=None, replace=False, wait=True
        )
        (done,) = await person.run("provision", work)
        assert (done.changed, done.state) == (True, "provisioned")
        await person.up("hosts")
        put = [str(one["spec"]) for one in await known() if "'name': 'spare-0'" in str(one["metadata"])]
        assert len(put) == 1 and "image-" in put[0], "up leaves it as it was put"
        (again,) = await person.run(
            "adopt", hosts.adopt("lab", ["spare-0"], image, person.roots, person.bus, wait=True)
        )
        assert not again.changed
        assert await wish("deprovision", "spare-0") == (True, "available")

    async def known() -> tuple[Record, ...]:
        return await person.run("list", hosts.hosts("lab", person.roots))

    person.live(story)


def test_an_image_of_ones_own_at_a_url_needs_its_checksum_before_anything_is_asked(person: Person) -> None:
    person.spec = parse(SMALL, "lab.yaml")

    async def story() -> None:
        await person.up("lab")
        image = ImageSpec(url="http://192.0.2.1/a.raw")
        with pytest.raises(InputError, match="checksum"):
            await person.run("adopt", hosts.adopt("lab", ["spare-0"], image, person.roots, person.bus, wait=False))
        with pytest.raises(LabError, match="nobody looks after the hosts yet"):
            asked = HostWish("inspect", "spare-0", wait=False)
            await person.run("inspect", hosts.wish("lab", asked, person.roots, person.bus))

    person.live(story)


def test_the_power_button_of_a_server_and_what_the_lab_thinks_of_it(person: Person) -> None:
    person.spec = parse(SMALL, "lab.yaml")

    async def press(action: PowerAction, server: str = "node-0") -> str | None:
        return (await person.run(action, servers.power("lab", server, action, person.roots))).power

    async def story() -> None:
        await person.up("hosts")
        assert await press("status") == "on"
        assert await press("off") == "off"
        await person.world.drivers().clock.sleep(120)
        assert await press("status") == "off", "a provisioned host is kept as it was put by hand"
        assert [await press("on"), await press("cycle")] == ["on", "on"]
        await press("shutdown")
        await person.world.drivers().clock.sleep(120)
        assert await press("status") == "off", "a guest takes its time, and then it stays off"
        with pytest.raises(InputError, match="there is no server moon"):
            await press("on", "moon")

    person.live(story)


def test_several_servers_and_hosts_are_asked_at_once_and_one_that_refuses_keeps_nobody_from_the_others(
    person: Person,
) -> None:
    person.spec = parse("name: lab\nservers: {node: {count: 1}, spare: {role: spare, count: 2}}", "lab.yaml")

    async def press(action: PowerAction, *names: str) -> dict[str, str | None]:
        done = await person.run(action, servers.power_all("lab", names, action, person.roots))
        return {one.server: one.power for one in done}

    async def story() -> None:
        await person.up("hosts")
        everyone = servers.server_names("lab", person.roots)
        assert everyone == ["node-0", "spare-0", "spare-1"]
        assert await press("on", *everyone) == dict.fromkeys(everyone, "on")
        assert await press("reset", "node-0") == {"node-0": "on"}
        assert await press("nmi", "spare-0") == {"spare-0": "on"}
        assert await press("off", "spare-0", "spare-1") == {"spare-0": "off", "spare-1": "off"}
        with pytest.raises(LabError, match="spare-0 is off, and nmi is for one that is on"):
            await press("nmi", "spare-0")
        with pytest.raises(LabError, match="2 of 3 failed: spare-0, spare-1"):
            await press("reset", *everyone)
        with pytest.raises(InputError, match="has no server moon"):
            await press("off", "node-0", "moon")
        assert await press("status", "node-0") == {"node-0": "on"}, "nothing was pressed"
        wishes = [HostWish("inspect", name, wait=True) for name in everyone]
        with pytest.raises(LabError, match="1 of 3 failed: node-0"):
            await person.run("inspect", hosts.wish_all("lab", wishes, person.roots, person.bus))
        done = await person.run("inspect", hosts.wish_all("lab", wishes[1:], person.roots, person.bus))
        assert [(one.host, one.state) for one in done] == [("spare-0", "available"), ("spare-1", "available")]

    person.live(story)


def test_faults_are_asked_for_only_where_there_are_bmcs_and_of_servers_that_there_are(person: Person) -> None:
    person.spec = parse(SMALL, "lab.yaml")

    async def add(wish: FaultWish) -> int:
        return (await person.run("add", hosts.add_fault(person.paths.socket, wish))).id

    async def story() -> None:
        await person.up("lab")
        with pytest.raises(LabError, match="has no BMCs yet"):
            await add(FaultWish("drop"))
        assert await person.run("list", hosts.faults(person.paths.socket)) == ()
        await person.up("bmc")
        assert await add(FaultWish("drop", "node-0", "power")) == 1
        for wrong, words in (
            (FaultWish("drop", "moon"), "there is no server moon"),
            (FaultWish("melt"), "there is no trouble melt"),
            (FaultWish("drop", None, "sing"), "there is no operation sing"),
            (FaultWish("drop", probability=7.0), "a probability is above 0"),
        ):
            with pytest.raises(InputError, match=words):
                await add(wrong)
        with pytest.raises(InputError, match="no `rackless bmc serve` runs there"):
            await person.run("served", hosts.served_socket(person.folder))
        assert hosts.lab_socket("lab", person.roots) == person.paths.socket

    person.live(story)


def test_ways_into_a_lab_are_there_when_what_they_lead_to_is(person: Person) -> None:
    person.spec = parse(CONTROL, "lab.yaml")

    def refused(way: Callable[[], object]) -> str:
        with pytest.raises(RacklessError) as caught:
            way()
        return caught.value.what

    async def story() -> None:
        roots = person.roots
        assert refused(lambda: access.host_kubeconfig("lab", roots)) == "there is no lab named lab"
        await person.up("lab")
        kubeconfig = access.host_kubeconfig("lab", roots)
        assert "https://127.0.0.1:" in kubeconfig and "rackless-lab" in kubeconfig
        assert "has no cluster yet" in refused(lambda: access.cluster_kubeconfig("lab", roots))
        assert "has no system yet" in refused(lambda: access.ssh_command("lab", "ctrl-0", [], roots))
        assert access.inside_environment("lab", roots)["KUBECONFIG"] == str(person.paths.inner_kubeconfig)
        await person.up()
        assert "rackless-lab-cluster" in access.cluster_kubeconfig("lab", roots)
        assert (await access.kubeconfig("lab", roots, person.world.drivers())).cluster
        command = access.ssh_command("lab", "ctrl-0", ["uptime"], roots)
        assert command[:2] == ["nsenter", f"--net={person.paths.netns}"] and command[-2:] == ["--", "uptime"]
        assert "-oHostKeyAlias=ctrl-0" in command and "-oStrictHostKeyChecking=yes" in command
        assert "has no server moon" in refused(lambda: access.ssh_command("lab", "moon", [], roots))

    person.live(story)


def test_what_a_lab_takes_up_is_told_and_what_labs_share_stays_while_there_is_one(person: Person) -> None:
    person.spec = parse(SMALL, "lab.yaml")

    async def story() -> None:
        assert not await person.destroy(), "there is none"
        assert operations.describe_left("lab", person.roots) == "nothing was made"
        await person.up("bmc")
        left = operations.describe_left("lab", person.roots)
        assert left.startswith("the lab lab stays as it is: it has reached bmc;")
        kinds = [thing["kind"] for thing in operations.owned("lab", person.roots)]
        assert kinds[0] == "network-namespace" and "folder" in kinds
        assert operations.shared_bytes(person.roots) >= 0
        with pytest.raises(LabError, match="there are labs that use the shared images"):
            operations.uninstall(person.roots)
        await person.destroy()
        operations.uninstall(person.roots)
        assert not person.roots.cache.exists()

    person.live(story)


def test_a_lab_that_cannot_become_what_is_described_is_left_alone(person: Person) -> None:
    async def story() -> None:
        await person.up("lab")
        person.spec = parse("name: lab\ndomain: other.test", "lab.yaml")
        with pytest.raises(LabError, match=r"would lose something|cannot become"):
            await person.up("lab")
        await person.up("lab", replace=True)
        assert (await person.status())["domain"] == "lab.other.test"

    person.live(story)


def test_a_lab_that_was_stopped_is_started_as_it_was_described_and_no_further(person: Person) -> None:
    person.spec = parse(SMALL, "lab.yaml")

    async def start() -> None:
        work = operations.start("lab", person.roots, person.bus, person.world.drivers())
        await person.run("start", work)

    async def story() -> None:
        with pytest.raises(LabError, match="there is no lab named lab"):
            await start()
        await person.up("bmc")
        before = await person.status()
        await person.down()
        person.spec = parse(
            "name: lab\nservers: {other: {count: 3}}", "lab.yaml"
        )  # what lies in a folder does not count
        await start()
        now = await person.status()
        assert {**now, "parts": []} == {**before, "parts": []}, "but for the numbers of its processes"

    person.live(story)


def test_only_root_changes_what_a_lab_is(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.spec = parse(SMALL, "lab.yaml")

    async def story() -> None:
        await person.up("lab")
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(HypervisorError, match="only root can read the lab's keys"):
            access.host_kubeconfig("lab", person.roots)
        assert hosts.lab_socket("lab", person.roots) == Path(person.paths.socket)

    person.live(story)


def test_a_lab_that_another_version_made_is_listed_and_keeps_nobody_from_the_others(person: Person) -> None:
    async def story() -> None:
        await person.up("lab")
        other = LabPaths(person.roots, "other")
        other.state.mkdir()
        other.spec.write_text('{"name": "other", "yet": "unknown"}')
        other.ledger.write_text("")
        other.run.mkdir()
        other.netns.touch()
        drivers = person.world.drivers()
        found = await person.run("list", operations.list_labs(person.roots, drivers))
        assert [(lab["lab"], lab.get("why")) for lab in found] == [
            ("lab", None), ("other", "made by another version of rackless"),
        ]  # fmt: skip
        await person.up("lab")

    person.live(story)
