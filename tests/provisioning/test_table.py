"""Every row of the hosts' table is walked, in virtual time: each way it names, each error kind, each busy engine.

The scenarios below are the ways people go. What they do not reach fails the test by name, and so does a way that the
table does not name: a row that is added must be walked here too.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from rackless.drivers.fake.provisioner import Fault
from rackless.ports.provisioner import ErrorKind
from rackless.provisioning.baremetalhost import CLEAN, INSPECT, KIND, State, read, secret
from rackless.provisioning.states import ESCAPES, MOVES, STEPS, WHEN_DELETED

from .site import Site

Way = tuple[State, State]


@dataclass
class Walked:
    ways: set[Way] = field(default_factory=set)
    kinds: set[ErrorKind] = field(default_factory=set)
    states: set[State] = field(default_factory=set)

    async def follow(self, site: Site) -> None:
        at: dict[str, State] = {}
        async for event in site.resources.watch(KIND):
            host = read(event.record)
            before, at[host.name] = at.get(host.name, State.NONE), host.status.state
            self.states.add(at[host.name])
            if before is not at[host.name]:
                self.ways.add((before, at[host.name]))
            if host.status.error_type is not None:
                self.kinds.add(host.status.error_type)


async def through(site: Site) -> None:
    """In, another image, out, and away."""
    await site.add("a")
    await site.until_state("a")
    await site.change("a", image=None)
    await site.until_state("a", state=State.AVAILABLE)
    await site.annotate("a", {INSPECT: ""})
    await site.until("a", lambda host: host.status.state is State.INSPECTING)
    await site.until_state("a", state=State.AVAILABLE)
    await site.annotate("a", {CLEAN: ""})
    await site.until("a", lambda host: host.status.state is State.PREPARING)
    await site.until_state("a", state=State.AVAILABLE)
    await site.resources.delete(KIND, "a")
    await site.until_gone("a")


async def unmanaged(site: Site) -> None:
    await site.resources.apply({"kind": KIND, "metadata": {"name": "a"}, "spec": {"online": False}})
    await site.until_state("a", state=State.UNMANAGED)
    await site.resources.apply(secret("bmc", {"username": "admin", "password": "secret"}))
    bmc = {"address": "redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1", "credentialsName": "bmc"}
    await site.change("a", bmc=bmc, bootMACAddress="02:00:00:00:00:01", inspectionMode="disabled")
    await site.until_state("a", state=State.AVAILABLE)


async def installed_by_others(site: Site) -> None:
    await site.add("a", "b", image=None)
    await site.change("a", externallyProvisioned=True)
    await site.until_state("b", state=State.AVAILABLE)
    await site.change("b", externallyProvisioned=True)
    await site.until_state("a", "b", state=State.EXTERNALLY_PROVISIONED)
    await site.change("b", externallyProvisioned=False)
    await site.until_state("b", state=State.AVAILABLE)
    await site.resources.delete(KIND, "a")
    await site.until_gone("a")


async def everything_fails_once(site: Site) -> None:
    await site.add("a")
    site.provisioner.faults += [Fault(work, "a") for work in ("register", "inspect", "prepare", "provision")]
    await site.until_state("a")
    site.provisioner.faults += [Fault("power", "a")]
    await site.change("a", online=False)
    await site.until("a", lambda host: host.status.error_type is ErrorKind.POWER)
    await site.until("a", lambda host: host.status.error_type is None and not host.status.powered_on)
    site.provisioner.forget()
    site.provisioner.faults += [Fault("adopt", "a")]
    await site.until("a", lambda host: host.status.error_type is ErrorKind.ADOPTION)
    await site.until("a", lambda host: host.status.error_type is None)


async def nothing_lets_go(site: Site) -> None:
    await site.add("a")
    await site.until_state("a")
    site.provisioner.faults += [Fault(work, "a", times=99) for work in ("deprovision", "power")]
    await site.resources.delete(KIND, "a")
    await site.until_gone("a")


async def deleted_in(site: Site, state: State) -> None:
    if state is State.UNMANAGED:
        await site.resources.apply({"kind": KIND, "metadata": {"name": "a"}, "spec": {"online": False}})
    else:
        await site.add("a")
    if state is State.EXTERNALLY_PROVISIONED:
        await site.change("a", externallyProvisioned=True)
    if state is State.AVAILABLE:
        await site.change("a", online=False)
    await site.until("a", lambda host: host.status.state is state)
    await site.resources.delete(KIND, "a")
    await site.until_gone("a")


def when_deleted(state: State) -> Callable[[Site], Awaitable[None]]:
    async def scenario(site: Site) -> None:
        await deleted_in(site, state)

    return scenario


SCENARIOS: list[Callable[[Site], Awaitable[None]]] = [
    through,
    unmanaged,
    installed_by_others,
    everything_fails_once,
    nothing_lets_go,
    *(when_deleted(state) for state in WHEN_DELETED if state is not State.NONE),
]
BEFORE_ANYBODY_LOOKED = (State.NONE, State.DELETING)
"""A host deleted before its first step has no finalizer yet, so that it simply goes."""


async def walk(scenario: Callable[[Site], Awaitable[None]], walked: Walked) -> None:
    site = Site()
    following = asyncio.create_task(walked.follow(site))
    try:
        async with site.controlled():
            await scenario(site)
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def test_every_way_of_the_table_is_walked_and_no_other() -> None:
    walked = Walked()
    for scenario in SCENARIOS:
        await walk(scenario, walked)
    named = {(state, to) for state, ways in MOVES.items() for to in ways}
    named |= set(WHEN_DELETED.items()) | set(ESCAPES.items())
    assert walked.ways <= named
    assert named - walked.ways == {BEFORE_ANYBODY_LOOKED}
    assert walked.kinds == set(ErrorKind)
    assert walked.states == set(State)


def test_the_table_of_ways_names_every_state() -> None:
    assert set(MOVES) == set(STEPS) == set(State)


WORKS = {
    "register": State.REGISTERING,
    "inspect": State.INSPECTING,
    "prepare": State.PREPARING,
    "provision": State.PROVISIONING,
    "deprovision": State.DEPROVISIONING,
}


@pytest.mark.parametrize("state", WORKS.values(), ids=list(WORKS))
async def test_a_busy_engine_is_no_failure_in_any_phase(state: State) -> None:
    site = Site()
    await site.add("a")
    walked = Walked()
    following = asyncio.create_task(walked.follow(site))
    async with site.controlled():
        if state is State.DEPROVISIONING:
            await site.until_state("a")
            await site.change("a", image=None)
        await site.until("a", lambda host: host.status.state is state)
        site.provisioner.busy = 20
        await site.until("a", lambda host: host.status.state is not state)
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    assert walked.kinds == set()
