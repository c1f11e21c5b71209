"""A lab on a bridge or a NIC of the hypervisor, on fakes: what is planned is done, and the device comes back as it was."""

from __future__ import annotations

import copy

import pytest

from rackless.drivers.fake.processes import WasKilled
from rackless.drivers.fake.script import Rule
from rackless.errors import HypervisorError, LabError
from rackless.ports.computer_devices import Device
from rackless.spec.load import parse
from tests.simulation.person import Person
from tests.simulation.test_plan_and_effects import compare

SPARE = Device("eth1", mtu=9000)
USED = Device("eth2", up=True, addresses=("192.0.2.5/24",), routes=("default via 192.0.2.1",), managed=True)
BRIDGE = Device("br0", bridge=True, up=True, addresses=("192.0.2.9/24",))
LAB = """
name: lab
networks:
  cluster: {attach: DEVICE, cidr: 10.9.0.0/24, gateway: 10.9.0.1, api_vip: 10.9.0.5, ingress_vip: 10.9.0.4}
servers: {worker: {count: 1}}
"""


def attach(person: Person, device: str) -> None:
    person.spec = parse(LAB.replace("DEVICE", device), "lab.yaml")
    person.world.devices.here = {one.name: one for one in (SPARE, USED, BRIDGE)} | person.world.devices.here


def remembered(person: Person) -> object:
    devices = person.world.devices
    return copy.deepcopy((devices.here, devices.lent, devices.cables))


@pytest.mark.parametrize(
    ("device", "inside"), [("br0", "attached"), ("eth1", "eth1"), ("{device: eth2, in_use: true}", "eth2")]
)
def test_what_is_attached_is_the_wire_of_the_lab_and_comes_back_as_it_was(
    person: Person, device: str, inside: str
) -> None:
    attach(person, device)

    async def story() -> None:
        before = remembered(person)
        assert {"network/attached", "network/baremetal"} <= await compare(person, "lab")
        assert person.lab.links.masters[inside] == "baremetal"
        await person.down()
        assert remembered(person) == before
        assert "network/attached" in await compare(person, "lab")
        await person.destroy()
        assert remembered(person) == before

    person.live(story)


def test_a_lab_that_runs_is_moved_to_another_device_and_off_it(person: Person) -> None:
    attach(person, "eth1")

    async def story() -> None:
        before = remembered(person)
        await person.up("lab")
        attach(person, "br0")
        assert {"network/attached", "network/baremetal"} <= await compare(person, "lab")
        assert person.world.devices.here["eth1"] == SPARE and person.lab.links.masters["attached"] == "baremetal"
        person.spec = parse(LAB.replace("attach: DEVICE", "dhcp: static-only"), "lab.yaml")
        assert "network/attached" in await compare(person, "lab")
        assert remembered(person) == before

    person.live(story)


@pytest.mark.parametrize(
    ("device", "error", "said"),
    [("eth2", LabError, "192.0.2.5/24"), ("eth7", HypervisorError, "no network device eth7")],
)
def test_a_device_in_use_and_one_that_is_not_there_are_refused_before_anything_is_made(
    person: Person, device: str, error: type[Exception], said: str
) -> None:
    attach(person, device)

    async def story() -> None:
        with pytest.raises(error, match=said):
            await person.up("lab")
        assert not person.paths.ledger.exists()

    person.live(story)


@pytest.mark.parametrize("device", ["{device: eth2, in_use: true}", "br0"])
@pytest.mark.parametrize("lost", [False, True])
def test_a_kill_while_a_device_is_attached_loses_nothing_of_it(person: Person, device: str, lost: bool) -> None:
    attach(person, device)

    async def story() -> None:
        before = remembered(person)

        def strike() -> None:
            for process in person.world.processes.named("up"):
                person.world.processes.kill(process)

        # before the device is touched, or right after: labd's first look at its networks
        when = "links.ports baremetal" if lost else f"devices.{'plug_in' if device == 'br0' else 'lend'} *"
        person.world.script.rules.append(Rule(when, then=strike))
        with pytest.raises(WasKilled):
            await person.up("lab")
        await person.destroy()
        assert remembered(person) == before

    person.live(story)


def test_after_a_power_cut_a_nic_is_attached_again(person: Person) -> None:
    attach(person, "eth1")

    async def story() -> None:
        await person.up("lab")
        person.world.restart_computer(person.roots.run)
        assert "eth1" in person.world.devices.here, "the kernel has all NICs when it starts"
        assert "network/attached" in await compare(person, "lab")
        await person.destroy()
        assert person.world.devices.here["eth1"] == SPARE

    person.live(story)


def test_a_route_of_the_site_is_taken_by_the_lab_when_it_is_described(person: Person) -> None:
    attach(person, "br0")

    async def story() -> None:
        await person.up("lab")
        assert person.lab.links.routes == set()
        routed = LAB.replace("attach: DEVICE", "attach: br0, routes: [{to: 10.7.0.0/24, via: 10.9.0.2}]")
        person.spec = parse(routed, "lab.yaml")
        assert "network/baremetal" in await compare(person, "lab")
        assert [(str(route.to), str(route.via)) for route in person.lab.links.routes] == [("10.7.0.0/24", "10.9.0.2")]

    person.live(story)
