from dataclasses import replace

from rackless.bmc.core.state import BootOverride
from rackless.bmc.fleet import BmcState
from rackless.diagnosis.blackouts import FORGOTTEN, FULL, LONG, Blackouts
from rackless.ports.hypervisor import Power

OFF = BmcState("ctrl-0", "192.0.2.1", Power.OFF, BootOverride(), None, seen=True)


class Time:
    seconds = 100.0

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def test_a_server_that_stays_off_is_lost_and_one_that_restarts_is_not() -> None:
    time, seen = Time(), {"ctrl-0": OFF}
    blackouts = Blackouts(lambda: seen, time)
    assert blackouts.lost("ctrl-0") == "" and blackouts.lost("unknown") == ""
    for _ in range(int(LONG) - 1):
        time.seconds += 1
        assert blackouts.lost("ctrl-0") == ""
    time.seconds += 2
    assert "went off" in blackouts.lost("ctrl-0")
    assert blackouts.lost("ctrl-0") == ""  # told once, then counted anew

    time.seconds += 5
    seen["ctrl-0"] = replace(OFF, power=Power.ON)
    assert blackouts.lost("ctrl-0") == ""
    seen["ctrl-0"] = OFF
    time.seconds += LONG
    assert blackouts.lost("ctrl-0") == ""


def test_what_was_not_looked_at_for_a_while_is_not_held_against_a_server() -> None:
    time = Time()
    blackouts = Blackouts(lambda: {"ctrl-0": OFF}, time)
    assert blackouts.lost("ctrl-0") == ""
    time.seconds += LONG + FORGOTTEN
    assert blackouts.lost("ctrl-0") == ""


def test_a_server_that_waits_for_its_turn_to_start_is_not_lost() -> None:
    time = Time()
    blackouts = Blackouts(lambda: {"ctrl-0": replace(OFF, starting=True)}, time)
    for _ in range(100):
        time.seconds += 1
        assert blackouts.lost("ctrl-0") == ""


def test_a_server_that_runs_where_no_room_is_left_for_its_disk_is_lost() -> None:
    room = [FULL]
    blackouts = Blackouts(lambda: {"ctrl-0": replace(OFF, power=Power.ON)}, Time(), lambda: room[0])
    assert blackouts.lost("ctrl-0") == ""
    room[0] = FULL - 1
    assert "no room left" in blackouts.lost("ctrl-0") and blackouts.lost("unknown") == ""
