"""What the page and programs are told of a lab's objects: Kubernetes Events of both APIs, and Machines in its status."""

from __future__ import annotations

from rackless.operations import hosts, lab
from rackless.protocol.messages import LabStatus
from rackless.spec.load import parse
from tests.simulation.person import Person


def test_objects_have_their_events_and_servers_the_phases_of_their_machines(person: Person) -> None:
    person.spec = parse("name: lab\nservers: {ctrl: {role: control-plane, count: 3}}", "lab.yaml")

    async def story() -> None:
        await person.up("cluster")
        mine = await person.run("events", hosts.object_events("lab", "BareMetalHost", "ctrl-0", person.roots))
        assert mine and {one["involvedObject"]["name"] for one in mine} == {"ctrl-0"}  # type: ignore[index]
        times = [str(one["lastTimestamp"]) for one in mine]
        assert times == sorted(times, reverse=True)
        everything = await person.run("events", hosts.object_events("lab", "", "", person.roots))
        assert {one["involvedObject"]["name"] for one in everything} > {"ctrl-0", "ctrl-1"}  # type: ignore[index]
        status = await person.run("status", lab.status("lab", person.roots))
        assert isinstance(status, LabStatus)
        assert {one.machine for one in status.servers} <= {"Provisioned", "Running"}

    person.live(story)
