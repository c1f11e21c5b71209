"""What `plan` prints is what `up` does, and what `up` does was printed: compared at the fakes' ports, both ways."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable

import pytest

from rackless.drivers.fake.script import Call, Rule
from rackless.errors import LabError
from rackless.plan.actions import DESTRUCTIVE, Action, Verb
from rackless.plan.addressing import plan_lab
from rackless.simulation.person import LAB, Person
from rackless.spec.load import parse

WAITS = {"stage/cluster"}
"""Actions that wait for what others do by themselves."""
STARTED = {
    "libvirtd": "service/libvirtd",
    "rackless api serve": "service/api",
    "dnsmasq": "stage/engine",
    "ironic": "stage/engine",
}


def subject(change: Call, person: Person, planned: set[str], lost: set[str]) -> str:
    """What a change at a port is about, in the words of the plan."""
    if change.port in ("hypervisor", "provisioner") and f"server/{change.subject}" in lost:
        return f"server/{change.subject}"
    lab = f"lab/{person.spec.name}"
    bmcs = {str(server.bmc_address) for server in plan_lab(person.spec).servers}
    match (change.port, change.method, change.subject):
        case ("namespaces", _, _) | ("processes", "launch", _) | ("processes", "start", "rackless.labd.main"):
            return lab
        case ("processes", "start", program):
            return STARTED[program]
        case ("processes", "qemu-img", disk):
            return f"server/{disk.partition('-disk')[0]}"
        case ("sockets", "bind", place) if place.startswith("127."):
            return lab
        case ("sockets", "bind", place) if place.partition(":")[0] in bmcs:
            return "stage/bmc"
        case ("sockets", "bind", _):
            return "service/time"
        case ("packages", "install", name):
            return f"package/{name}"
        case ("environment", "ensure", _):
            return "environment/ironic"
        case ("devices", _, _):
            return "network/attached"
        case ("network", _, _) | ("firewall", _, "rackless_uplink"):
            return "network/uplink"
        case ("firewall", _, table) if table.startswith("rl_"):
            return "network/uplink"
        case ("links", "ensure_route", to) if to in {str(route.to) for route in plan_lab(person.spec).routes}:
            return "network/baremetal"
        case ("firewall", _, _) | ("links", "ensure_leg" | "ensure_route" | "remove", _):
            return "network/bmc"
        case ("links", "impair", _):
            return "network/cluster"
        case ("links", "ensure_veth", _):
            return "network/baremetal"
        case ("links", "plug", bridge) if bridge == plan_lab(person.spec).cluster.bridge:
            return "network/cluster"
        case ("links" | "networks", _, name):
            return f"network/{name}"
        case ("hypervisor", "ensure", name):
            return f"server/{name}"
        case ("hypervisor", "power", name):
            return f"power/{name}" if f"power/{name}" in planned else "stage/hosts"
        case ("provisioner", _, _):
            return "stage/hosts"
        case ("nodes", "admit", _):
            return "stage/nodes"
        case ("nodes", "dismiss", name):
            return f"server/{name}"
    raise AssertionError(f"a change that no plan knows: {change}")


def work(actions: list[Action]) -> set[str]:
    return {action.subject for action in actions if action.verb is not Verb.KEEP}


async def compare(
    person: Person, goal: str = "cluster", *, replace: bool = False, maybe: frozenset[str] = frozenset()
) -> set[str]:
    """Plan, do, and compare; gives what was done. Of `maybe` it is not known whether there is anything to do."""
    actions = await person.plan(goal)
    planned, lost = work(actions), {action.subject for action in actions if action.verb in DESTRUCTIVE}
    with person.world.script.recorded() as calls:
        await person.up(goal, replace=replace)
    done = {subject(call, person, planned, lost) for call in calls if call.changed}
    assert done | maybe == planned - WAITS | maybe
    again = work(await person.plan(goal))
    with person.world.script.recorded() as calls:
        await person.up(goal)
    assert again == set() and [str(call) for call in calls if call.changed] == [], (
        "and once more there is nothing to do"
    )
    return done


def test_a_lab_from_nothing_goal_by_goal(person: Person) -> None:
    async def story() -> None:
        first = await compare(person, "lab")
        assert {"lab/lab", "service/libvirtd", "network/cluster", "server/ctrl-0"} <= first
        assert await compare(person, "bmc") == {"stage/bmc"}
        assert await compare(person, "engine") == {"stage/engine"}
        assert await compare(person, "hosts") == {"stage/hosts"}
        assert await compare(person, "cluster") == {"stage/nodes"}

    person.live(story)


async def kill_holder(person: Person) -> None:
    (holder,) = person.world.processes.named("rackless.holder.main")
    person.world.processes.kill(holder)
    await person.world.drivers().clock.sleep(1)


async def lose_bridge(person: Person) -> None:
    del person.lab.links.links["baremetal"]


async def undefine_server(person: Person) -> None:
    await person.lab.hypervisor.power_off("worker-0")
    del person.lab.hypervisor._servers["worker-0"], person.lab.hypervisor._defined["worker-0"]


async def add_record(person: Person) -> None:
    person.spec = parse(LAB + "\nnetworks: {dns: {records: {registry: 192.168.111.7}}}", "lab.yaml")


async def add_server(person: Person) -> None:
    person.spec = parse(LAB.replace("count: 1", "count: 2"), "lab.yaml")


async def stop(person: Person) -> None:
    await person.down()


@pytest.mark.parametrize(
    ("happens", "needed"),
    [
        (kill_holder, {"lab/lab", "service/libvirtd", "service/api", "service/time", "stage/bmc", "stage/engine"}),
        (lose_bridge, {"network/baremetal"}),
        (add_record, {"lab/lab", "network/cluster"}),
        (add_server, {"server/worker-1", "stage/hosts", "stage/nodes"}),
        (stop, {"lab/lab", "network/cluster", "power/ctrl-0"}),
    ],
)
def test_a_whole_lab_to_which_something_happened(
    person: Person, happens: Callable[[Person], Awaitable[None]], needed: set[str]
) -> None:
    async def story() -> None:
        await person.up()
        await happens(person)
        assert needed <= await compare(person)

    person.live(story)


def test_a_lab_with_all_kinds_of_networks(person: Person) -> None:
    person.spec = parse(
        """\
name: lab
networks:
  provisioning: {mode: unmanaged}
  bmc: {access: routed, allow: [192.168.111.0/24]}
  extra: {storage: {cidr: 10.9.0.0/24}, tagged: {cidr: 10.8.0.0/24, vlan: 20}}
servers: {ctrl: {role: control-plane, count: 1}, worker: {count: 1, extra_nics: 1}}
""",
        "lab.yaml",
    )

    async def story() -> None:
        done = await compare(person)
        assert {"network/provisioning", "network/storage", "network/tagged", "network/bmc"} <= done
        await kill_holder(person)
        await compare(person)
        await person.destroy()

    person.live(story)


def test_a_daemon_of_another_version_is_started_again_with_all_that_it_keeps(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        await person.up("bmc")
        for module in ("labd.answers", "operations.daemon_life"):
            monkeypatch.setattr(f"rackless.{module}.fingerprint", lambda: "another")
        assert {"lab/lab", "service/libvirtd", "stage/bmc"} <= await compare(person, "bmc")

    person.live(story)


def test_what_is_removed_or_made_anew_was_printed_and_nothing_else_is_lost(person: Person) -> None:
    async def story() -> None:
        await person.up()
        person.spec = parse(
            LAB.replace("worker: {count: 1}", "worker: {count: 1, disk: 30G}, spare: {role: spare}"), "lab.yaml"
        )
        actions = await person.plan()
        assert {str(action.verb) for action in actions if action.subject == "server/worker-0"} == {"recreate"}
        with person.world.script.recorded() as calls:
            # the object of a node that is made anew may have stayed in the cluster's API
            done = await compare(person, replace=True, maybe=frozenset({"stage/nodes"}))
        assert {"server/worker-0", "server/spare-0", "stage/hosts"} <= done
        retired = [
            call.subject for call in calls if (call.port, call.method) == ("hypervisor", "retire") and call.changed
        ]
        assert retired == ["worker-0"]

        person.spec = parse(LAB.replace(", worker: {count: 1}", ""), "lab.yaml")
        assert {"server/worker-0", "server/spare-0"} <= await compare(person, replace=True)
        assert set(person.lab.hypervisor._servers) == {"ctrl-0", "ctrl-1", "ctrl-2"}

    person.live(story)


def test_a_removal_that_was_cut_off_is_told_by_status_and_finished_by_the_next_up(person: Person) -> None:
    async def story() -> None:
        await person.up()
        person.spec = parse(LAB.replace(", worker: {count: 1}", ""), "lab.yaml")

        def kill() -> None:
            for process in person.world.processes.named("rackless.labd.main"):
                person.world.processes.kill(process)

        person.world.script.rules.append(Rule("provisioner.deprovision worker-0", then=kill))
        with pytest.raises(LabError):
            await person.up(replace=True)
        await person.world.drivers().clock.sleep(10)
        assert (await person.status())["cut_off"] == ["remove server/worker-0"]
        await person.up(replace=True)
        assert "worker-0" not in person.lab.hypervisor._servers
        assert (await person.status())["cut_off"] == []

    person.live(story)


def test_a_computer_that_is_not_prepared(person: Person) -> None:
    async def story() -> None:
        person.world.packages.missing = {"ovmf", "xorriso"}
        person.world.environment.version = "newer"
        assert {"package/ovmf", "package/xorriso"} <= await compare(person, "bmc")
        assert "environment/ironic" in await compare(person, "engine")

    person.live(story)


def test_images_that_have_to_be_built_are_planned(person: Person) -> None:
    async def story() -> None:
        assert not any(subject.startswith("image/") for subject in work(await person.plan()))
        shutil.rmtree(person.roots.images / "entries")
        planned = {action.subject: action.reason for action in await person.plan()}
        assert planned["image/deploy"] == planned["image/node"] == "is not in the cache"
        shutil.rmtree(person.roots.images)
        assert "was never found out" in {action.subject: action.reason for action in await person.plan()}["image/node"]
        assert not any(subject.startswith("image/") for subject in work(await person.plan("bmc")))

    person.live(story)
