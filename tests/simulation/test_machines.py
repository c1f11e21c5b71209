"""The nodes of a lab as Machines: written by `up`, grown and shrunk by a person, left alone by the next `up`."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from rackless.drivers.fake.resources import MemoryResources
from rackless.drivers.fake.script import Rule
from rackless.errors import RacklessError
from rackless.operations import lab
from rackless.operations.workers import scale_workers
from rackless.plan.actions import Verb
from rackless.plan.addressing import plan_lab
from rackless.ports.resources import Record
from rackless.protocol.messages import LabStatus, Scaled
from rackless.spec.load import parse
from tests.simulation.person import Person

SPARE = (
    "name: lab\nservers: {ctrl: {role: control-plane, count: 3}, worker: {count: 1}, spare: {role: spare, count: 2}}"
)


class Cluster:
    """The lab's objects, and the cluster's API, served where its VIP is."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.nodes = MemoryResources()

    @property
    def records(self) -> Any:
        return self.person.world.store(self.person.paths.api / "objects.db")

    def serve(self) -> None:
        served, url = self.person.world.apis.served, f"https://{plan_lab(self.person.spec).api_vip}:6443"
        for network, _ in list(served):
            served[network, url] = self.nodes

    async def wait(self, seconds: float) -> None:
        await self.person.world.drivers().clock.sleep(seconds)

    async def scale(self, wanted: int) -> Scaled:
        person = self.person
        return await person.run("scale", scale_workers(person.spec.name, wanted, person.roots))

    async def machines(self) -> dict[str, str]:
        """The host of each Machine, with its phase."""
        found: list[Record] = await self.records.list("Machine")
        return {
            record["metadata"]["annotations"]["metal3.io/BareMetalHost"].partition("/")[2]: record["status"]["phase"]
            for record in found
        }

    async def states(self) -> dict[str, str]:
        hosts = await self.records.list("BareMetalHost")
        return {host["metadata"]["name"]: host["status"]["provisioning"]["state"] for host in hosts}


def _file(ignition: str, path: str) -> str:
    [source] = [file["contents"]["source"] for file in json.loads(ignition)["storage"]["files"] if file["path"] == path]
    return base64.b64decode(source.partition(",")[2]).decode()


def test_up_writes_machines_and_a_person_grows_and_shrinks_the_cluster(person: Person) -> None:
    person.spec = parse(SPARE, "lab.yaml")
    cluster = Cluster(person)

    async def story() -> None:
        await person.up()
        cluster.serve()
        await cluster.wait(60)
        nodes = ["ctrl-0", "ctrl-1", "ctrl-2", "worker-0"]
        assert await cluster.machines() == dict.fromkeys(nodes, "Provisioned")
        provisioned = [host for host, work in person.lab.provisioner.started if work == "provision"]
        assert sorted(provisioned) == nodes, "no running host was touched"
        found = await cluster.records.get("MachineSet", "workers")
        assert (found["spec"]["replicas"], found["status"]["replicas"]) == (1, 1)
        assert [action for action in await person.plan() if action.verb is not Verb.KEEP] == []

        assert await cluster.scale(2) == Scaled(1, 2, 2)
        await cluster.wait(200)
        assert (await cluster.states())["spare-0"] == "provisioned"
        assert (await cluster.machines())["spare-0"] == "Provisioned"
        config = person.lab.provisioner.hosts["spare-0"].config
        assert config and "ROLE=worker\n" in _file(config.user_data, "/etc/rackless-release")
        assert "spare-0" in (person.paths.cluster_keys / "known_hosts").read_text()

        await person.up()  # what Machines have is left to them
        await cluster.wait(60)
        assert (await cluster.states())["spare-0"] == "provisioned"
        assert [*provisioned, "spare-0"] == [
            host for host, work in person.lab.provisioner.started if work == "provision"
        ]

        await cluster.scale(0)
        await cluster.wait(300)
        states = await cluster.states()
        assert {states["worker-0"], states["spare-0"], states["spare-1"]} == {"available"}
        assert sorted(await cluster.machines()) == ["ctrl-0", "ctrl-1", "ctrl-2"]
        await person.up()
        await cluster.wait(60)
        assert (await cluster.states())["worker-0"] == "available", (
            "fewer workers are wanted: up does not bring it back"
        )
        assert [action for action in await person.plan() if action.verb is not Verb.KEEP] == []

        await cluster.scale(1)
        await cluster.wait(200)
        assert sorted((await cluster.states()).values()).count("provisioned") == 4

    person.live(story)


def test_machines_are_looked_after_again_after_a_restart(person: Person) -> None:
    person.spec = parse(SPARE, "lab.yaml")
    cluster = Cluster(person)

    async def story() -> None:
        await person.up()
        await person.down()
        await person.up()
        cluster.serve()
        await cluster.scale(2)
        await cluster.wait(300)
        assert (await cluster.machines())["spare-0"] == "Provisioned"

    person.live(story)


ELASTIC = "name: lab\nservers: {ctrl: {role: control-plane, count: 1}, worker: {count: 1, elastic: {max: 3}}}"


def test_a_machine_without_a_host_gets_a_server_that_is_made_for_it_and_goes_when_nobody_has_it(person: Person) -> None:
    person.spec = parse(ELASTIC, "lab.yaml")
    cluster = Cluster(person)

    async def servers() -> list[str]:
        status = await person.run("status", lab.status("lab", person.roots))
        assert isinstance(status, LabStatus)
        return [server.name for server in status.servers]

    async def story() -> None:
        await person.up()
        cluster.serve()
        await cluster.wait(60)
        assert await servers() == ["ctrl-0", "worker-0"]

        assert await cluster.scale(4) == Scaled(1, 4, 2)
        await cluster.wait(400)
        assert await servers() == ["ctrl-0", "worker-0", "worker-1", "worker-2"]
        states = await cluster.states()
        assert (states["worker-1"], states["worker-2"]) == ("provisioned", "provisioned")
        homeless = [m for m in await cluster.records.list("Machine") if "metal3.io/BareMetalHost" not in annotated(m)]
        assert len(homeless) == 1, "the group has three servers at most"
        assert [action for action in await person.plan() if action.verb is not Verb.KEEP] == []

        await person.down()
        await person.up()
        cluster.serve()
        assert await servers() == ["ctrl-0", "worker-0", "worker-1", "worker-2"]
        assert [action for action in await person.plan() if action.verb is not Verb.KEEP] == []

        await cluster.scale(0)
        await cluster.wait(600)
        assert await servers() == ["ctrl-0", "worker-0"]
        assert sorted(await cluster.states()) == ["ctrl-0", "worker-0"]
        assert [action for action in await person.plan() if action.verb is not Verb.KEEP] == []
        assert not list(person.paths.disks.glob("worker-[12]*"))

        await cluster.scale(2)
        await cluster.wait(300)
        assert await cluster.states() == dict.fromkeys(["ctrl-0", "worker-0", "worker-1"], "provisioned")

    person.live(story)


def annotated(record: Record) -> dict[str, str]:
    return record["metadata"].get("annotations") or {}


@pytest.mark.parametrize(
    "when", ["hypervisor.ensure worker-1", "provisioner.inspect worker-1", "hypervisor.retire worker-1"]
)
def test_a_daemon_that_is_killed_while_a_server_is_made_or_goes_finishes_it_when_it_is_back(
    person: Person, when: str
) -> None:
    person.spec = parse(ELASTIC, "lab.yaml")
    cluster = Cluster(person)
    killed: list[str] = []

    def strike() -> None:
        killed.append(when)
        for process in person.world.processes.named("rackless.labd.main"):
            person.world.processes.kill(process)

    async def story() -> None:
        await person.up()
        cluster.serve()
        person.world.script.rules.append(Rule(when, then=strike))
        await cluster.scale(2)
        await cluster.wait(400)
        assert (await cluster.states())["worker-1"] == "provisioned"
        await cluster.scale(0)
        await cluster.wait(600)
        assert killed == [when]
        assert sorted(await cluster.states()) == ["ctrl-0", "worker-0"]
        assert person.lab.running() == ["ctrl-0"] and not list(person.paths.disks.glob("worker-1*"))
        await person.destroy()
        assert not any(process.alive for process in person.world.processes.all.values())

    person.live(story)


def test_a_group_that_is_no_longer_elastic_loses_its_servers_only_with_replace(person: Person) -> None:
    person.spec = parse(ELASTIC, "lab.yaml")
    cluster = Cluster(person)

    async def story() -> None:
        await person.up()
        cluster.serve()
        await cluster.scale(2)
        await cluster.wait(400)
        person.spec = parse(ELASTIC.replace(", elastic: {max: 3}", ""), "lab.yaml")
        [going] = [action for action in await person.plan() if action.verb is Verb.REMOVE]
        assert going.subject == "server/worker-1"
        with pytest.raises(RacklessError, match="would lose something"):
            await person.up()

    person.live(story)
