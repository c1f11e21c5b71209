"""The nodes of a lab as Machines: written by `up`, grown and shrunk by a person, left alone by the next `up`."""

from __future__ import annotations

import base64
import json
from typing import Any

from rackless.drivers.fake.resources import MemoryResources
from rackless.operations.workers import scale_workers
from rackless.plan.actions import Verb
from rackless.plan.addressing import plan_lab
from rackless.ports.resources import Record
from rackless.protocol.messages import Scaled
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
        [(network, _)] = self.person.world.apis.served
        self.person.world.apis.served[network, f"https://{plan_lab(self.person.spec).api_vip}:6443"] = self.nodes

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
