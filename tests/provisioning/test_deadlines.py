"""Nothing is waited for without end, and what is given up says how far the server came."""

import pytest

from rackless.ports.provisioner import ErrorKind
from rackless.provisioning.baremetalhost import DEADLINES, KIND, State
from rackless.provisioning.deadlines import BY_DEFAULT, OTHERWISE, BadDeadlines, read_deadlines

from .site import Site

EVER = 10.0**9
PHASES = [
    ("register", State.REGISTERING, ErrorKind.REGISTRATION),
    ("inspect", State.INSPECTING, ErrorKind.INSPECTION),
    ("prepare", State.PREPARING, ErrorKind.PREPARATION),
    ("provision", State.PROVISIONING, ErrorKind.PROVISIONING),
    ("deprovision", State.DEPROVISIONING, ErrorKind.PROVISIONING),
    ("adopt", State.PROVISIONED, ErrorKind.ADOPTION),
    ("power", State.PROVISIONED, ErrorKind.POWER),
]


def evidence(name: str) -> str:
    return f"seen so far: power on; last on the console of {name}: Linux"


async def bring_into(site: Site, work: str) -> None:
    """Have the host at this work, which then never ends."""
    if work in ("deprovision", "adopt", "power"):
        await site.until_state("a")
    match work:
        case "deprovision":
            await site.change("a", image=None)
        case "adopt":
            site.provisioner.forget()
        case "power":
            await site.change("a", online=False)


@pytest.mark.parametrize(("work", "state", "kind"), PHASES)
async def test_a_phase_that_does_not_end_fails_by_its_name_with_what_was_seen(
    work: str, state: State, kind: ErrorKind
) -> None:
    site = Site()
    await site.add("a")
    site.provisioner.seconds = {**site.provisioner.seconds, work: EVER}
    async with site.controlled(evidence):
        await bring_into(site, work)
        failed = await site.until("a", lambda host: host.status.error_type is not None)
    assert (failed.status.state, failed.status.error_type) == (state, kind)
    limit = BY_DEFAULT.get(state, OTHERWISE)
    assert failed.status.error_message == (
        f"{limit / 60:.0f} minutes were not enough for the engine, which was last at: {work}\n{evidence('a')}"
    )
    assert limit <= site.clock.now() < limit + 200


@pytest.mark.parametrize(("work", "state", "kind"), PHASES)
async def test_a_phase_that_took_too_long_is_tried_again_and_goes_on_when_it_can(
    work: str, state: State, kind: ErrorKind
) -> None:
    site = Site()
    await site.add("a")
    usual = site.provisioner.seconds
    site.provisioner.seconds = {**usual, work: EVER}
    async with site.controlled(evidence):
        await bring_into(site, work)
        await site.until("a", lambda host: host.status.error_type is kind)
        site.provisioner.seconds = usual
        site.provisioner.hosts["a"].until = site.clock.now()
        await site.until("a", lambda host: host.status.error_type is None)


async def test_an_engine_that_is_away_is_waited_for_and_then_named() -> None:
    site = Site()
    await site.add("a")
    async with site.controlled(evidence):
        await site.until("a", lambda host: host.status.state is State.INSPECTING)
        site.provisioner.busy = 10**6
        failed = await site.until("a", lambda host: host.status.error_type is not None)
        assert failed.status.error_type is ErrorKind.INSPECTION
        site.provisioner.busy = 0
        await site.until_state("a")


async def test_rest_has_no_deadline() -> None:
    site = Site()
    await site.add("a")
    async with site.controlled(evidence):
        await site.until_state("a")
        await site.clock.run(site.clock.sleep(10 * 3600), within=11 * 3600)
    assert (await site.host("a")).status.error_type is None


async def test_a_deleted_host_that_cannot_be_switched_off_is_let_go() -> None:
    site = Site()
    await site.add("a", image=None)
    site.provisioner.seconds = {**site.provisioner.seconds, "power": EVER}
    async with site.controlled(evidence):
        await site.until("a", lambda host: host.status.state is State.AVAILABLE)
        await site.resources.delete(KIND, "a")
        await site.until_gone("a")


@pytest.mark.parametrize(("text", "state", "seconds"), [
    ("", State.INSPECTING, 1800.0),
    ("inspecting=45m", State.INSPECTING, 2700.0),
    ("inspecting=45m", State.PROVISIONING, 3600.0),
    (" provisioning = 1h30m , inspecting=90s,", State.PROVISIONING, 5400.0),
])  # fmt: skip
def test_deadlines_as_people_write_them(text: str, state: State, seconds: float) -> None:
    assert read_deadlines(text)[state] == seconds


@pytest.mark.parametrize("text", ["sleeping=5m", "inspecting", "inspecting=", "inspecting=0s", "inspecting=5", "=5m"])
def test_deadlines_that_make_no_sense_are_told(text: str) -> None:
    with pytest.raises(BadDeadlines, match=r"is no (phase|time)"):
        read_deadlines(text)


async def test_a_host_may_say_how_long_its_phases_take() -> None:
    site = Site()
    await site.add("a")
    await site.annotate("a", {DEADLINES: "inspecting=3m"})
    site.provisioner.seconds = {**site.provisioner.seconds, "inspect": EVER}
    async with site.controlled():
        failed = await site.until("a", lambda host: host.status.error_type is not None)
    assert failed.status.error_message.startswith("3 minutes were not enough") and site.clock.now() < 400


async def test_a_host_whose_deadlines_cannot_be_read_has_those_of_all_others_and_says_so_once() -> None:
    site = Site()
    await site.add("a")
    await site.annotate("a", {DEADLINES: "soon"})
    async with site.controlled():
        await site.until_state("a")
        await site.clock.run(site.clock.sleep(1000))
        told = [each for each in await site.resources.list("Event") if each["reason"] == "DeadlinesNotRead"]
    assert [(each["type"], each["count"]) for each in told] == [("Warning", 1)] and "'soon' is no phase" in told[0][
        "message"
    ]
