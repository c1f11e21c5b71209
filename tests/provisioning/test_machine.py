from dataclasses import replace

import pytest

from rackless.ports.provisioner import ErrorKind, Failed
from rackless.provisioning.baremetalhost import Operational, Span, State, Status, status_record
from rackless.provisioning.settle import BackOff, camel, conditions, settle
from rackless.provisioning.states import STEPS, WHEN_DELETED, Move, Stay

ILL = Status(
    state=State.INSPECTING,
    operational=Operational.ERROR,
    error_type=ErrorKind.INSPECTION,
    error_message="no agent",
    error_count=3,
)


def test_every_state_has_a_step() -> None:
    assert set(STEPS) == set(State)


def test_every_state_that_is_deleted_ends_in_deleting() -> None:
    for state in State:
        path = [state]
        while path[-1] in WHEN_DELETED:
            path.append(WHEN_DELETED[path[-1]])
            assert len(path) <= len(State), f"{state} goes in circles"
        assert path[-1] in (State.DEPROVISIONING, State.POWERING_OFF, State.DELETING)


@pytest.mark.parametrize(
    ("failures", "low", "high"), [(1, 60, 120), (2, 120, 240), (8, 7680, 15360), (9, 15360, 30720), (50, 15360, 30720)]
)
def test_metal3s_waits_come_out_with_its_unit_of_a_minute(failures: int, low: float, high: float) -> None:
    back_off = BackOff(unit=60.0)
    assert (back_off.after(failures, 0.0), back_off.after(failures, 1.0)) == (low, high)


def test_a_retry_that_has_begun_clears_the_error_but_not_the_count() -> None:
    status, after = settle(ILL, Stay(2.0, "booting"), "now", BackOff(), lambda: 0.0)
    assert (status.error_type, status.error_message, status.operational) == (None, "", Operational.OK)
    assert (status.error_count, after) == (3, 2.0)


def test_a_retry_that_has_not_begun_leaves_the_error() -> None:
    status, _ = settle(ILL, Stay(1.0, cleared=False), "now", BackOff(), lambda: 0.0)
    assert status == ILL


def test_going_on_ends_the_count_and_writes_down_the_time() -> None:
    begun = replace(ILL, history={"inspect": Span("then")})
    status, after = settle(begun, Move(State.PREPARING), "now", BackOff(), lambda: 0.0)
    assert (status.state, status.error_count, after) == (State.PREPARING, 0, 0.0)
    assert status.history == {"inspect": Span("then", "now")} and status.last_updated == "now"


def test_a_failure_counts_and_waits() -> None:
    status, after = settle(ILL, Failed(ErrorKind.INSPECTION, "again"), "now", BackOff(unit=1.0), lambda: 1.0)
    assert (status.error_count, status.error_message, after) == (4, "again", 16.0)


@pytest.mark.parametrize(
    ("state", "name"),
    [
        (State.REGISTERING, "register"),
        (State.INSPECTING, "inspect"),
        (State.PROVISIONING, "provision"),
        (State.DEPROVISIONING, "deprovision"),
        (State.AVAILABLE, None),
    ],
)
def test_the_time_of_an_operation_is_written_down_under_metal3s_name(state: State, name: str | None) -> None:
    status, _ = settle(Status(), Move(state), "now", BackOff(), lambda: 0.0)
    assert status.history == ({name: Span("now")} if name else {})


SAYS = {
    # state, operational, error: which of Manageable, Progressing, AvailableForProvisioning, Provisioned, Ready are true
    (State.UNMANAGED, Operational.DISCOVERED, None): "",
    (State.REGISTERING, Operational.OK, None): "P",
    (State.REGISTERING, Operational.ERROR, ErrorKind.REGISTRATION): "",
    (State.INSPECTING, Operational.OK, None): "MP",
    (State.PREPARING, Operational.ERROR, ErrorKind.PREPARATION): "M",
    (State.AVAILABLE, Operational.OK, None): "MA",
    (State.AVAILABLE, Operational.ERROR, ErrorKind.REGISTRATION): "",
    (State.PROVISIONING, Operational.OK, None): "MP",
    (State.PROVISIONED, Operational.OK, None): "MVR",
    (State.PROVISIONED, Operational.ERROR, ErrorKind.POWER): "MV",
    (State.PROVISIONED, Operational.DETACHED, None): "MV",
    (State.EXTERNALLY_PROVISIONED, Operational.OK, None): "MVR",
    (State.DEPROVISIONING, Operational.OK, None): "MP",
    (State.POWERING_OFF, Operational.OK, None): "MP",
    (State.DELETING, Operational.OK, None): "MP",
}
LETTERS = {"Manageable": "M", "Progressing": "P", "AvailableForProvisioning": "A", "Provisioned": "V", "Ready": "R"}


@pytest.mark.parametrize(("at", "says"), SAYS.items(), ids=lambda each: str(each) if isinstance(each, str) else each[0])
def test_conditions_follow_from_where_a_host_is(at: tuple[State, Operational, ErrorKind | None], says: str) -> None:
    state, operational, error = at
    found = conditions(Status(state=state, operational=operational, error_type=error), "now")
    assert "".join(LETTERS[each.type] for each in found if each.true) == says
    why = operational if operational is Operational.DETACHED else error or state
    assert {each.reason for each in found} == {camel(why.value)}


def test_a_condition_keeps_its_time_while_it_says_the_same_and_stands_in_the_record() -> None:
    status, _ = settle(Status(state=State.PREPARING), Move(State.AVAILABLE), "first", BackOff(), lambda: 0.0)
    failed, _ = settle(status, Failed(ErrorKind.POWER, "no"), "second", BackOff(), lambda: 0.0)
    since = {each.type: each.since for each in failed.conditions}
    assert (since["Manageable"], since["AvailableForProvisioning"]) == ("first", "second")
    record = {each["type"]: each for each in status_record(failed)["conditions"]}
    assert record["AvailableForProvisioning"] == {
        "type": "AvailableForProvisioning",
        "status": "False",
        "reason": "PowerManagementError",
        "message": "no",
        "lastTransitionTime": "second",
    }
