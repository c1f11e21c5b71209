from __future__ import annotations

import asyncio

import pytest

from rackless.bmc.core.faults import BmcFault, Operation, Trouble
from rackless.bmc.ipmi.wire import Request
from rackless.ports.hypervisor import Power
from tests.bmc.conftest import ADMIN
from tests.bmc.ipmi.client import LoginRefused
from tests.bmc.ipmi.conftest import Desk, MakeDesk

STATUS, CONTROL = (0x00, 0x01), (0x00, 0x02)


async def test_who_changed_what_is_written_down_and_no_secret_is(desk: Desk) -> None:
    client = await desk.admin()
    await client.get(*STATUS)
    await client.get(*CONTROL, b"\x01")
    await client.get(0x00, 0x08, bytes((5, 0xE0, 0x04, 0, 0, 0)))
    await client.get(0x06, 0x47, b"\x03\x02" + b"a-new-secret".ljust(16, b"\0"))
    await client.ask(*CONTROL, b"\x0e")
    lines = [(line["action"], line["outcome"], line.get("details")) for line in desk.audited()]
    assert lines == [
        ("login", "ok", None),
        ("chassis control", "0x00", {"action": "On"}),
        ("chassis set boot option", "0x00", {"device": "network", "when": "always"}),
        ("users set password", "0x00", None),
        ("chassis control", "0xcc", None),
    ]
    assert {(line["protocol"], line["user"], line["client"]) for line in desk.audited()} == {
        ("ipmi", "admin", "192.0.2.1")
    }
    text = (desk.state / "audit.jsonl").read_text()
    assert "a-new-secret" not in text
    assert ADMIN.password not in text


async def test_who_may_not_and_tried_is_written_down(desk: Desk) -> None:
    client = desk.client(privilege=2)
    await client.login("viewer", "v1ewer")
    await client.ask(*CONTROL, b"\x00")
    assert (desk.audited()[-1]["user"], desk.audited()[-1]["outcome"]) == ("viewer", "0xd4")


async def test_an_answer_can_be_late(desk: Desk) -> None:
    client = await desk.admin()
    desk.controller.faults.add(BmcFault(Trouble.DELAY, operation=Operation.READ, seconds=0.05, count=1))
    started = asyncio.get_running_loop().time()
    assert await client.get(*STATUS)
    assert asyncio.get_running_loop().time() - started >= 0.05


async def test_an_answer_can_be_lost_and_the_client_asks_again(desk: Desk) -> None:
    client = await desk.admin()
    desk.controller.faults.add(BmcFault(Trouble.DROP, count=1))
    message = Request(*CONTROL, b"\x01", number=7).encode()
    desk.wire.say(client.seal(message))
    await asyncio.sleep(0.01)
    assert desk.wire.silent()
    assert not desk.hypervisor.called("power_on")
    desk.wire.say(client.seal(message))
    assert client.read(await desk.wire.hear()) == (0, b"")


@pytest.mark.parametrize(("status", "code"), [(503, 0xC0), (403, 0xD4), (500, 0xFF)])
async def test_a_command_can_be_refused(desk: Desk, status: int, code: int) -> None:
    client = await desk.admin()
    desk.controller.faults.add(BmcFault(Trouble.REFUSE, "server-0", Operation.POWER, status=status))
    assert await client.ask(*CONTROL, b"\x01") == (code, b"")
    assert await client.get(*STATUS)


async def test_the_right_password_can_be_refused(desk: Desk) -> None:
    desk.controller.faults.add(BmcFault(Trouble.WRONG_PASSWORD, count=1))
    with pytest.raises(LoginRefused) as refused:
        await desk.client().login()
    assert refused.value.status == 0x0F
    await desk.client().login()


async def test_login_can_be_met_by_silence(desk: Desk) -> None:
    desk.controller.faults.add(BmcFault(Trouble.DROP, operation=Operation.LOGIN, count=1))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await desk.client().login()
    await desk.client().login()


async def test_power_can_be_stuck(make_desk: MakeDesk) -> None:
    desk = await make_desk()
    desk.controller.faults.add(BmcFault(Trouble.STUCK_POWER, count=1))
    client = await desk.admin()
    await client.get(*CONTROL, b"\x01")
    assert desk.chassis.server().power is Power.OFF
    await client.get(*CONTROL, b"\x01")
    assert desk.chassis.server().power is Power.ON
