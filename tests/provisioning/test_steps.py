"""Each step of the table on its own: what it asks of the engine, and what follows from each answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from rackless.drivers.fake.resources import MemoryResources
from rackless.ports.provisioner import (
    Again,
    BmcLogin,
    ConfigDrive,
    Done,
    ErrorKind,
    Failed,
    HostAccess,
    Image,
    Provisioner,
    Result,
)
from rackless.provisioning.baremetalhost import CLEAN, INSPECT, REBOOT, Host, Spec, State, Status, secret
from rackless.provisioning.deadlines import BY_DEFAULT, OTHERWISE
from rackless.provisioning.states import (
    ESCAPE_AFTER,
    ESCAPES,
    MAX_PROVISIONING_FAILURES,
    POWER_POLL,
    STEPS,
    Gone,
    Move,
    Outcome,
    Stay,
    Turn,
    escape,
)

IMAGE = Image("http://192.0.2.1/node.qcow2", "ab" * 32)
OTHER = Image("http://192.0.2.1/other.qcow2", "cd" * 32)
ACCESS = HostAccess("a", "uid", BmcLogin("redfish://192.0.2.1", "admin", "secret"), "02:00:00:00:00:01")
MANAGED = Spec(online=True, bmc_address="redfish://192.0.2.1", credentials_name="bmc", boot_mac=ACCESS.boot_mac)


@dataclass
class AnsweringProvisioner:
    """Gives one answer to everything and keeps what it was asked."""

    answer: Result
    asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)

    def __getattr__(self, work: str) -> Any:
        async def ask(host: HostAccess, *arguments: Any, **named: Any) -> Result:
            assert host is ACCESS
            self.asked.append((work, arguments, named))
            return self.answer

        return ask

    @property
    def works(self) -> list[str]:
        return [work for work, _, _ in self.asked]


def host(state: State, spec: Spec = MANAGED, *, deleting: bool = False, notes: dict[str, str] | None = None,
         **status: Any) -> Host:  # fmt: skip
    return Host("a", "uid", "1", 1, notes or {}, (), deleting, spec, Status(state=state, **status))


async def step(of: Host, answer: Result = Done()) -> tuple[Outcome, AnsweringProvisioner]:  # noqa: B008 - a frozen value
    engine, resources = AnsweringProvisioner(answer), MemoryResources()
    await resources.apply(secret("ignition", {"userData": "{}"}))
    turn = Turn(of, ACCESS, cast(Provisioner, engine), resources)
    return await STEPS[of.status.state](turn), engine


WORKS = {
    State.REGISTERING: ("register", ErrorKind.REGISTRATION),
    State.INSPECTING: ("inspect", ErrorKind.INSPECTION),
    State.PREPARING: ("prepare", ErrorKind.PREPARATION),
    State.AVAILABLE: ("power", ErrorKind.POWER),
    State.PROVISIONED: ("adopt", ErrorKind.ADOPTION),
    State.EXTERNALLY_PROVISIONED: ("power", ErrorKind.POWER),
    State.DEPROVISIONING: ("deprovision", ErrorKind.PROVISIONING),
    State.POWERING_OFF: ("power", ErrorKind.POWER),
}


def at(state: State, **status: Any) -> Host:
    """A host that rests, or works, in this state."""
    spec = replace(MANAGED, externally_provisioned=state is State.EXTERNALLY_PROVISIONED)
    if state is State.PROVISIONED:
        spec, status = replace(spec, image=IMAGE), {"image": IMAGE, **status}
    return host(state, spec, **status)


@pytest.mark.parametrize(("state", "work", "kind"), [(state, *work) for state, work in WORKS.items()])
async def test_a_step_asks_anew_only_after_its_own_kind_of_failure(state: State, work: str, kind: ErrorKind) -> None:
    for failed in (None, *ErrorKind):
        _, engine = await step(at(state, error_type=failed), Again(2.0))
        ((asked, _, named),) = engine.asked
        assert (asked, named["restart"]) == (work, failed is kind)


@pytest.mark.parametrize("state", [*WORKS, State.PROVISIONING, State.DELETING])
async def test_what_is_under_way_is_waited_for_and_what_failed_is_told(state: State) -> None:
    of = at(state, image=IMAGE) if state is not State.PROVISIONED else at(state)
    if state is State.PROVISIONING:
        of = host(state, replace(MANAGED, image=IMAGE), image=IMAGE)
    kind = {State.PROVISIONING: ErrorKind.PROVISIONING, State.DELETING: ErrorKind.REGISTRATION}.get(state)
    kind = kind or WORKS[state][1]
    assert (await step(of, Again(7.0, "cleaning", agent=True)))[0] == Stay(7.0, "cleaning", waits=kind, agent=True)
    assert (await step(of, Again(7.0, busy=True)))[0] == Stay(7.0, cleared=False, waits=kind)
    broken = Failed(kind, "no")
    assert (await step(of, broken))[0] == broken


async def test_a_host_begins_by_whether_it_has_a_bmc() -> None:
    for state in (State.NONE, State.UNMANAGED):
        assert (await step(host(state)))[0] == Move(State.REGISTERING)
    assert (await step(host(State.NONE, Spec())))[0] == Move(State.UNMANAGED)
    assert (await step(host(State.UNMANAGED, Spec())))[0] == Stay(None)


async def test_a_registered_host_goes_on_by_what_its_spec_says() -> None:
    known = Done({"id": "node-1"})
    assert (await step(at(State.REGISTERING), known))[0] == Move(State.INSPECTING, {"id": "node-1"})
    assert (await step(at(State.REGISTERING)))[0] == Move(State.INSPECTING, {"id": ""})
    plain, installed = replace(MANAGED, inspect=False), replace(MANAGED, externally_provisioned=True)
    assert (await step(host(State.REGISTERING, plain), known))[0] == Move(State.PREPARING, {"id": "node-1"})
    assert (await step(host(State.REGISTERING, installed), known))[0] == Move(
        State.EXTERNALLY_PROVISIONED, {"id": "node-1"}
    )


async def test_an_inspected_host_brings_its_hardware_and_a_prepared_one_is_available() -> None:
    inventory = {"hostname": "found", "interfaces": [{"mac_address": ACCESS.boot_mac}]}
    outcome, _ = await step(at(State.INSPECTING), Done(inventory))
    assert isinstance(outcome, Move) and outcome.to is State.PREPARING
    assert outcome.changes["hardware"]["hostname"] == "found" and outcome.changes["hardware"]["nics"][0]["pxe"]
    assert (await step(at(State.PREPARING)))[0] == Move(State.AVAILABLE)


async def test_an_available_host_is_provisioned_only_when_it_is_to_be_on_and_has_an_image() -> None:
    both = replace(MANAGED, image=IMAGE, boot_mode="legacy")
    moved = Move(State.PROVISIONING, {"image": IMAGE, "boot_mode": "legacy"}, answered=REBOOT)
    assert (await step(host(State.AVAILABLE, both)))[0] == moved
    for spec in (replace(both, online=False), replace(both, image=None)):
        outcome, engine = await step(host(State.AVAILABLE, spec))
        assert outcome == Stay(POWER_POLL, changes={"powered_on": spec.online})
        assert engine.asked == [("power", (spec.online,), {"hard": True, "restart": False})]
    installed = replace(both, externally_provisioned=True)
    assert (await step(host(State.AVAILABLE, installed)))[0] == Move(State.EXTERNALLY_PROVISIONED)


@pytest.mark.parametrize(
    ("wish", "work", "to", "kind"),
    [
        (INSPECT, "inspect", State.INSPECTING, ErrorKind.INSPECTION),
        (CLEAN, "prepare", State.PREPARING, ErrorKind.PREPARATION),
    ],
)
async def test_a_wish_is_answered_by_what_begins_now_and_by_nothing_older(
    wish: str, work: str, to: State, kind: ErrorKind
) -> None:
    wished = host(State.AVAILABLE, notes={wish: ""})
    outcome, engine = await step(wished, Again(2.0))
    assert outcome == Move(to, answered=wish) and engine.asked == [(work, (), {"restart": True})]
    assert (await step(wished, Again(2.0, busy=True)))[0] == Stay(2.0, cleared=False, waits=kind)
    assert (await step(wished, Failed(kind, "no")))[0] == Failed(kind, "no")
    assert (await step(wished, Done()))[0] == Stay(0.0), "an old result: ask again, at once"


async def test_an_inspection_that_is_switched_off_by_its_annotation_is_not_begun() -> None:
    assert (await step(host(State.AVAILABLE, notes={INSPECT: "disabled"})))[1].works == ["power"]


async def test_the_image_that_is_wanted_is_provisioned_and_another_is_taken_off_first() -> None:
    spec = replace(MANAGED, image=IMAGE, user_data_name="ignition")
    outcome, engine = await step(host(State.PROVISIONING, spec, image=IMAGE))
    assert outcome == Move(State.PROVISIONED, {"powered_on": True, "provisioning_fail_count": 0})
    ((work, (image, config), _),) = engine.asked
    assert (work, image, config) == ("provision", IMAGE, ConfigDrive("{}"))
    for wanted, there in ((IMAGE, OTHER), (IMAGE, None), (None, IMAGE), (None, None)):
        of = host(State.PROVISIONING, replace(spec, image=wanted), image=there, provisioning_fail_count=3)
        outcome, engine = await step(of)
        assert outcome == Move(State.DEPROVISIONING, {"provisioning_fail_count": 0}) and not engine.asked


async def test_an_installation_without_its_user_data_fails_before_the_engine_is_asked() -> None:
    outcome, engine = await step(
        host(State.PROVISIONING, replace(MANAGED, image=IMAGE, user_data_name="x"), image=IMAGE)
    )
    assert isinstance(outcome, Failed) and outcome.kind is ErrorKind.PROVISIONING and not engine.asked


async def test_a_failed_installation_is_taken_off_until_it_has_failed_too_often() -> None:
    def failed(before: int) -> Host:
        return host(State.PROVISIONING, replace(MANAGED, image=IMAGE), image=IMAGE, provisioning_fail_count=before,
                    error_type=ErrorKind.PROVISIONING)  # fmt: skip

    last = MAX_PROVISIONING_FAILURES - 1
    assert (await step(failed(0)))[0] == Move(State.DEPROVISIONING, {"provisioning_fail_count": 1})
    assert (await step(failed(last - 1)))[0] == Move(State.DEPROVISIONING, {"provisioning_fail_count": last})
    assert (await step(failed(last)))[0] == Stay(None, cleared=False)


async def test_a_provisioned_host_is_adopted_and_switched_or_taken_off_when_another_image_is_wanted() -> None:
    outcome, engine = await step(at(State.PROVISIONED))
    assert outcome == Stay(POWER_POLL, changes={"powered_on": True})
    assert engine.asked == [
        ("adopt", (IMAGE,), {"restart": False}),
        ("power", (True,), {"hard": False, "restart": False}),
    ]
    for wanted, there in ((OTHER, IMAGE), (None, IMAGE), (None, None)):
        outcome, engine = await step(host(State.PROVISIONED, replace(MANAGED, image=wanted), image=there))
        assert outcome == Move(State.DEPROVISIONING) and not engine.asked


@pytest.mark.parametrize(
    ("wanted", "there", "off"),
    [
        (replace(IMAGE, checksum="cd" * 32), IMAGE, False),
        (replace(IMAGE, checksum_type="auto", format="raw"), IMAGE, False),
        (IMAGE, None, False),
        (replace(IMAGE, method="step"), IMAGE, False),
        (Image("", "", method="step"), IMAGE, True),
        (IMAGE, replace(IMAGE, method="step"), True),
        (Image("", "", method="other"), Image("", "", method="step"), True),
        (replace(IMAGE, method="step"), Image("", "", method="step"), False),
        (replace(OTHER, method="step"), replace(IMAGE, method="step"), True),
    ],
)
async def test_a_system_is_taken_off_for_another_url_or_another_step_and_for_nothing_else(
    wanted: Image, there: Image | None, off: bool
) -> None:
    """As the baremetal-operator decides: a checksum that somebody mends costs nobody a system."""
    found = host(State.PROVISIONED, replace(MANAGED, image=wanted), image=there)
    outcome, engine = await step(found)
    assert isinstance(outcome, Move if off else Stay)
    assert [work for work in engine.works if work != "power"] == ([] if off else ["adopt"])
    if not off:
        assert engine.asked[0][1] == (there or wanted,)


async def test_a_host_that_somebody_installed_is_switched_gently_until_it_is_given_over() -> None:
    assert (await step(at(State.EXTERNALLY_PROVISIONED)))[1].asked == [
        ("power", (True,), {"hard": False, "restart": False})
    ]
    given = host(State.EXTERNALLY_PROVISIONED, replace(MANAGED, image=IMAGE))
    assert (await step(given))[0] == Move(State.PROVISIONED, {"image": IMAGE})


async def test_a_host_that_is_taken_down_goes_on_by_whether_it_is_deleted() -> None:
    assert (await step(at(State.DEPROVISIONING)))[0] == Move(State.AVAILABLE, {"image": None})
    deleted = host(State.DEPROVISIONING, deleting=True)
    assert (await step(deleted))[0] == Move(State.POWERING_OFF, {"image": None})
    outcome, engine = await step(host(State.POWERING_OFF, deleting=True))
    assert outcome == Move(State.DELETING, {"powered_on": False})
    assert engine.asked == [("power", (False,), {"hard": True, "restart": False})]
    outcome, engine = await step(host(State.DELETING, deleting=True))
    assert outcome == Gone() and engine.works == ["delete"]


@pytest.mark.parametrize(("mode", "hard"), [("", False), ('{"mode": "soft"}', False), ('{"mode": "hard"}', True)])
async def test_a_reboot_is_off_first_as_hard_as_it_says_and_then_looked_at_at_once(mode: str, hard: bool) -> None:
    rebooting = replace(at(State.PROVISIONED), annotations={REBOOT: mode, "unrelated.example/x": '"hard"'})
    outcome, engine = await step(rebooting)
    assert outcome == Stay(0.0, changes={"powered_on": False}, answered=REBOOT)
    assert engine.asked[-1] == ("power", (False,), {"hard": hard, "restart": False})


async def test_a_named_reboot_stays_off_and_is_not_answered() -> None:
    held = replace(at(State.PROVISIONED), annotations={f"{REBOOT}/fencing": ""})
    assert (await step(held))[0] == Stay(POWER_POLL, changes={"powered_on": False})


def test_only_a_deleted_host_that_failed_too_often_is_let_go() -> None:
    broken = Failed(ErrorKind.POWER, "no")
    for state in State:
        for deleting in (True, False):
            for failures in (ESCAPE_AFTER - 1, ESCAPE_AFTER, ESCAPE_AFTER + 1):
                of = host(state, deleting=deleting, error_count=failures)
                free = deleting and state in ESCAPES and failures >= ESCAPE_AFTER
                assert escape(of, broken) == (Move(ESCAPES[state]) if free else broken)
                assert escape(of, Stay(1.0)) == Stay(1.0)


def test_deadlines_are_longer_than_a_boot_and_shorter_than_a_working_day() -> None:
    boot, afternoon = 300.0, 4 * 3600.0
    assert all(boot < limit < afternoon for limit in (*BY_DEFAULT.values(), OTHERWISE))
    assert max(BY_DEFAULT.values()) > BY_DEFAULT[State.INSPECTING] > BY_DEFAULT[State.REGISTERING]
    assert POWER_POLL < min(BY_DEFAULT.values()), "power is looked at more often than anything is waited for"
