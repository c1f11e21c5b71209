"""What goes wrong on demand, and only then."""

from __future__ import annotations

import asyncio
import random
import time

import aiohttp
import pytest

from rackless.bmc.core.faults import BmcFault, Faults, Operation, Trouble
from rackless.errors import InputError
from tests.bmc.conftest import Files, MakeRack, Rack

SYSTEM = "/redfish/v1/Systems/1"
INSERT = f"{SYSTEM}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"


async def status(rack: Rack, path: str = SYSTEM, number: int = 0) -> int:
    return (await rack.ask("GET", path, number=number))[0]


async def test_a_fault_is_of_one_bmc_and_one_operation_and_ends_after_its_count(make_rack: MakeRack) -> None:
    rack = await make_rack(2)
    fault = BmcFault(Trouble.REFUSE, "server-0", Operation.POWER, count=2, status=500)
    rack.fleet.faults.add(fault)
    assert await status(rack) == 200
    assert await rack.reset("On", 1) == 204
    assert [await rack.reset("On") for _ in range(3)] == [500, 500, 204]
    assert rack.fleet.faults.list() == []


async def test_a_delay_is_as_long_as_asked_and_the_other_bmcs_go_on(make_rack: MakeRack) -> None:
    rack = await make_rack(2)
    rack.fleet.faults.add(BmcFault(Trouble.DELAY, "server-0", seconds=1.0))
    began = time.monotonic()
    slow = asyncio.create_task(status(rack))
    assert await status(rack, number=1) == 200
    assert not slow.done()
    assert await slow == 200
    assert time.monotonic() - began >= 1.0


async def test_a_dropped_request_gets_no_answer(rack: Rack) -> None:
    rack.fleet.faults.add(BmcFault(Trouble.DROP, count=2))  # the client asks a second time by itself
    with pytest.raises(aiohttp.ClientError):
        await rack.ask("GET", SYSTEM)
    rack.fleet.faults.clear()
    assert await status(rack) == 200


async def test_nobody_is_let_in_with_the_right_password(rack: Rack) -> None:
    rack.fleet.faults.add(BmcFault(Trouble.WRONG_PASSWORD, count=1))
    assert [await status(rack), await status(rack)] == [401, 200]


async def test_stuck_power_says_yes_and_does_nothing(rack: Rack) -> None:
    rack.fleet.faults.add(BmcFault(Trouble.STUCK_POWER, count=1))
    assert await rack.reset("On") == 204
    assert await rack.power() == "Off"
    assert await rack.reset("On") == 204
    assert await rack.power() == "On"


async def test_failing_media_are_refused_as_unreachable(rack: Rack, files: Files) -> None:
    files.contents["a.iso"] = b"iso"
    rack.fleet.faults.add(BmcFault(Trouble.FAILING_MEDIA, operation=Operation.MEDIA, count=1))
    assert (await rack.ask("POST", INSERT, {"Image": f"{files.url}/a.iso"}))[0] == 400
    assert files.asked == []
    assert (await rack.ask("POST", INSERT, {"Image": f"{files.url}/a.iso"}))[0] == 204


async def test_a_slow_download_is_as_slow_as_asked(rack: Rack, files: Files) -> None:
    files.contents["a.iso"] = bytes(4000)
    rack.fleet.faults.add(BmcFault(Trouble.SLOW_DOWNLOAD, rate=20_000))
    began = time.monotonic()
    assert (await rack.ask("POST", INSERT, {"Image": f"{files.url}/a.iso"}))[0] == 204
    assert time.monotonic() - began >= 0.2


def test_a_probability_is_kept_in_the_long_run() -> None:
    faults = Faults(random.Random(1))
    faults.add(BmcFault(Trouble.DROP, probability=0.2))
    struck = sum(faults.strike(Trouble.DROP, "x", Operation.READ) is not None for _ in range(2000))
    assert 340 < struck < 460
    assert faults.list()[0].happened == struck
    assert "one in 5" in faults.list()[0].describe()


@pytest.mark.parametrize(
    "wrong",
    [{"probability": 0}, {"probability": 1.5}, {"count": 0}, {"seconds": -1}, {"rate": 0}, {"status": 200}],
)
def test_a_fault_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Faults().add(BmcFault(Trouble.DELAY, **wrong))  # type: ignore[arg-type]


def test_faults_are_taken_away_by_number_or_all() -> None:
    faults = Faults()
    ids = [faults.add(BmcFault(Trouble.DROP)).id for _ in range(3)]
    assert faults.clear([ids[1], 99]) == 1
    assert [fault.id for fault in faults.list()] == [ids[0], ids[2]]
    assert faults.clear() == 2
    assert not faults.any
