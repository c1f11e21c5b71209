"""Nothing is waited for without end, and what is given up says how far the server came."""

import pytest

from rackless.ports.provisioner import ErrorKind
from rackless.provisioning.baremetalhost import KIND, State
from rackless.provisioning.states import DEADLINES, OTHERWISE

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
    limit = DEADLINES.get(state, OTHERWISE)
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
