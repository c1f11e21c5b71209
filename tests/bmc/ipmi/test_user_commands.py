from __future__ import annotations

from dataclasses import replace

import pytest

from rackless.bmc.core.accounts import Account, Lockout
from rackless.bmc.ipmi import wire
from rackless.bmc.ipmi.wire import Request
from tests.bmc.conftest import ADMIN, OPERATOR
from tests.bmc.ipmi.client import LoginRefused
from tests.bmc.ipmi.conftest import Desk

SET_ACCESS, GET_ACCESS = (0x06, 0x43), (0x06, 0x44)
SET_NAME, GET_NAME = (0x06, 0x45), (0x06, 0x46)
SET_PASSWORD = (0x06, 0x47)


def name(text: str) -> bytes:
    return text.encode().ljust(16, b"\0")


async def test_the_users_are_the_accounts_redfish_has(desk: Desk) -> None:
    client = await desk.admin()
    assert await client.get(*GET_NAME, b"\x02") == name("admin")
    assert await client.get(*GET_NAME, b"\x05") == name("")
    assert await client.get(*GET_ACCESS, b"\x01\x02") == bytes((16, 0x40 | 3, 1, 0x10 | 4))
    assert await client.get(*GET_ACCESS, b"\x01\x04") == bytes((16, 0x40 | 3, 1, 0x10 | 2))
    assert await client.get(*GET_ACCESS, b"\x01\x05") == bytes((16, 0x80 | 3, 1, 0x0F))


async def test_a_user_made_by_ipmi_logs_in_and_redfish_knows_it(desk: Desk) -> None:
    client = await desk.admin()
    await client.get(*SET_NAME, b"\x06" + name("bob"))
    made = desk.controller.accounts.named("bob")
    assert made is not None
    assert not made.enabled
    await client.get(*SET_PASSWORD, b"\x06\x02" + name("bob's password"))
    await client.get(*SET_ACCESS, b"\x91\x06\x03")
    await client.get(*SET_PASSWORD, b"\x06\x01")
    assert desk.controller.accounts.check("bob", "bob's password") == Account("bob", "bob's password", "Operator")
    other = desk.client(privilege=3)
    await other.login("bob", "bob's password")
    await client.get(*SET_NAME, b"\x06" + name(""))
    assert desk.controller.accounts.named("bob") is None
    desk.port.sweep()
    assert {session.login.name for session in desk.port.endpoint.sessions.values()} == {"admin"}


async def test_a_password_can_be_tested_and_its_size_matters(desk: Desk) -> None:
    client = await desk.admin()
    secret = ADMIN.password.encode()
    assert len(secret) > 16
    assert await client.ask(*SET_PASSWORD, b"\x82\x03" + secret.ljust(20, b"\0")) == (0x00, b"")
    assert await client.ask(*SET_PASSWORD, b"\x02\x03" + secret[:16]) == (0x81, b"")
    assert await client.ask(*SET_PASSWORD, b"\x82\x03" + b"x" * 20) == (0x80, b"")


async def test_a_user_without_access_to_the_channel_cannot_log_in(desk: Desk) -> None:
    client = await desk.admin()
    await client.get(*SET_ACCESS, b"\x11\x03\x0f")
    with pytest.raises(LoginRefused):
        await desk.client(privilege=3).login("operator", "oper4tor")
    await client.get(*SET_ACCESS, b"\x11\x03\x03")
    await desk.client(privilege=3).login("operator", "oper4tor")


@pytest.mark.parametrize("what", [SET_PASSWORD, SET_NAME])
async def test_the_last_administrator_stays(desk: Desk, what: tuple[int, int]) -> None:
    client = await desk.admin()
    wish = b"\x02\x00" if what == SET_PASSWORD else b"\x02" + name("")
    assert (await client.ask(*what, wish))[0] == 0xD5
    assert (await client.ask(*SET_ACCESS, b"\x91\x02\x02"))[0] == 0xD5
    assert desk.controller.accounts.by_id["1"] == ADMIN


async def test_two_users_cannot_have_one_name(desk: Desk) -> None:
    assert (await (await desk.admin()).ask(*SET_NAME, b"\x07" + name("operator")))[0] == 0xCC


async def test_only_an_administrator_changes_users(desk: Desk) -> None:
    client = desk.client(privilege=3)
    await client.login("operator", "oper4tor")
    await client.as_(3)
    assert (await client.ask(*SET_PASSWORD, b"\x02\x02" + name("mine now")))[0] == 0xD4


# what a change of an account ends


@pytest.mark.parametrize(
    "change",
    [{"password": "another one"}, {"role": "ReadOnly"}, {"enabled": False}, {"username": "other"}, None],
    ids=lambda change: "-".join(change) if change else "deleted",
)
async def test_a_changed_account_ends_its_sessions_at_once_and_no_others(
    desk: Desk, change: dict[str, object] | None
) -> None:
    admin = await desk.admin()
    client = desk.client(privilege=3, console=7)
    await client.login("operator", "oper4tor")
    accounts = desk.controller.accounts
    if change is None:
        await accounts.remove("2")
    else:
        await accounts.put("2", replace(OPERATOR, **change))  # type: ignore[arg-type]
    assert {session.login.name for session in desk.port.endpoint.sessions.values()} == {"admin"}
    desk.wire.say(client.seal(Request(0x00, 0x01, b"", number=3).encode()), client.peer)
    assert desk.wire.silent()
    assert await admin.get(0x00, 0x01)


async def test_who_changes_their_own_password_goes_on_and_their_other_sessions_end(desk: Desk) -> None:
    other, client = await desk.admin(), desk.client(console=9)
    await client.login()
    await client.as_(4)
    await client.get(*SET_PASSWORD, b"\x02\x02" + name("a new password"))
    assert [session.console for session in desk.port.endpoint.sessions.values()] == [9]
    assert await client.get(0x00, 0x01)
    desk.port.sweep()
    assert await client.get(0x00, 0x01)
    assert other.session not in desk.port.endpoint.sessions


async def test_who_takes_their_own_rights_is_answered_and_then_gone(desk: Desk) -> None:
    accounts = desk.controller.accounts
    await accounts.put("4", Account("second", "the other one"))
    client = await desk.admin()
    assert await client.get(*SET_ACCESS, b"\x91\x02\x02") == b""
    assert not desk.port.endpoint.sessions
    assert accounts.by_id["1"].role == "ReadOnly"


async def test_who_is_barred_from_the_channel_is_gone_at_once(desk: Desk) -> None:
    client = await desk.admin()
    await desk.client(privilege=3, console=7).login("operator", "oper4tor")
    await client.get(*SET_ACCESS, b"\x11\x03\x0f")
    assert {session.login.name for session in desk.port.endpoint.sessions.values()} == {"admin"}


async def test_a_password_that_changes_while_somebody_logs_in_with_the_old_one_counts(desk: Desk) -> None:
    client = desk.client(privilege=3)
    asked = client.ask_outside

    async def changing(kind: int, payload: bytes) -> bytes:
        if kind == wire.RAKP3:
            await desk.controller.accounts.put("2", replace(OPERATOR, password="another one"))
        return await asked(kind, payload)

    client.ask_outside = changing  # type: ignore[method-assign]
    with pytest.raises(LoginRefused):
        await client.login("operator", "oper4tor")
    assert not desk.port.endpoint.sessions


async def test_wrong_passwords_lock_an_account_here_too(desk: Desk) -> None:
    await desk.controller.accounts.set_lockout(Lockout(2, 60, 30))
    for _ in range(2):
        with pytest.raises(LoginRefused) as refused:
            await desk.client(privilege=3).login("operator", "wrong")
        assert refused.value.status == 0x0F
    with pytest.raises(LoginRefused) as refused:
        await desk.client(privilege=3).login("operator", "oper4tor")
    assert refused.value.status == 0x0D
    assert desk.controller.accounts.check("operator", "oper4tor") is None
    await desk.admin()
    desk.controller.accounts.unlock("operator")
    await desk.client(privilege=3).login("operator", "oper4tor")


async def test_the_right_password_forgets_the_wrong_ones_here_too(desk: Desk) -> None:
    await desk.controller.accounts.set_lockout(Lockout(2, 60, 30))
    for _ in range(3):
        with pytest.raises(LoginRefused):
            await desk.client(privilege=3).login("operator", "wrong")
        await desk.client(privilege=3).login("operator", "oper4tor")
