from __future__ import annotations

import pytest

from rackless.bmc.ipmi import wire
from rackless.bmc.ipmi.endpoint import OPENING_LIMIT, OPENING_SECONDS, SESSION_LIMIT, SESSION_SECONDS
from rackless.bmc.ipmi.session import Window
from rackless.bmc.ipmi.wire import Packet, Plain, Request
from tests.bmc.conftest import ADMIN, OPERATOR, VIEWER
from tests.bmc.ipmi.client import LoginRefused
from tests.bmc.ipmi.conftest import Desk, MakeDesk

STATUS = (0x00, 0x01)
CONTROL = (0x00, 0x02)
DEVICE_ID = (0x06, 0x01)


@pytest.mark.parametrize("suite", [3, 17])
async def test_the_safe_suites_log_in_and_are_answered(desk: Desk, suite: int) -> None:
    client = await desk.admin(suite)
    assert (await client.get(*DEVICE_ID))[4] == 0x02
    assert (await client.get(*STATUS))[0] & 1 == 0


@pytest.mark.parametrize("suite", [0, 1, 2, 15, 16])
async def test_suites_that_do_not_encrypt_are_refused_unless_asked_for(make_desk: MakeDesk, suite: int) -> None:
    with pytest.raises(LoginRefused) as refused:
        await (await make_desk()).admin(suite)
    assert refused.value.status == 0x11
    desk = await make_desk(suites=(suite,))
    client = await desk.admin(suite)
    assert (await client.get(*STATUS))[0] & 1 == 0


async def test_an_unknown_user_and_a_wrong_password_are_told_so(desk: Desk) -> None:
    with pytest.raises(LoginRefused) as unknown:
        await desk.client().login("nobody", "x")
    with pytest.raises(LoginRefused) as wrong:
        await desk.client().login("admin", "x")
    assert (unknown.value.status, wrong.value.status) == (0x0D, 0x0F)
    tried = [(line["user"], line["outcome"], line["ok"]) for line in desk.audited()]
    assert tried == [("nobody", "unauthorized name", False), ("admin", "invalid check value", False)]
    assert not desk.port.endpoint.sessions


async def test_a_name_longer_than_a_name_can_be_is_refused(desk: Desk) -> None:
    with pytest.raises(LoginRefused) as refused:
        await desk.client().login("a" * 17, "x")
    assert refused.value.status == 0x0C


@pytest.mark.parametrize("password", ["p" * 16, "p" * 17, "p" * 20])
async def test_passwords_of_up_to_twenty_bytes_open_a_session(desk: Desk, password: str) -> None:
    await desk.controller.accounts.put("9", type(ADMIN)("long", password))
    await desk.client().login("long", password)


async def test_an_account_whose_password_is_too_long_for_ipmi_cannot_log_in(desk: Desk) -> None:
    await desk.controller.accounts.put("9", type(ADMIN)("long", "p" * 21))
    with pytest.raises(LoginRefused):
        await desk.client().login("long", "p" * 20)


async def test_with_a_group_key_only_those_who_know_it_understand_us(desk: Desk) -> None:
    await desk.controller.keep(group_key=b"the group's".hex())
    client = desk.client()
    await client.login(group_key=b"the group's")
    assert await client.get(*STATUS)
    with pytest.raises(AssertionError, match="another K_g"):
        await desk.client().login()


async def test_nobody_gets_more_privilege_than_the_account_has(desk: Desk) -> None:
    with pytest.raises(LoginRefused) as refused:
        await desk.client(privilege=4).login(VIEWER.username, VIEWER.password)
    assert refused.value.status == 0x0A
    client = desk.client(privilege=3)
    await client.login(OPERATOR.username, OPERATOR.password)
    assert await client.ask(0x06, 0x3B, b"\x04") == (0x81, b"")


async def test_a_session_starts_as_user_and_must_ask_for_more(desk: Desk) -> None:
    client = desk.client()
    await client.login()
    assert await client.ask(*CONTROL, b"\x01") == (0xD4, b"")
    await client.as_(3)
    assert await client.ask(*CONTROL, b"\x01") == (0x00, b"")


async def test_a_user_may_look_and_not_touch(desk: Desk) -> None:
    client = desk.client(privilege=2)
    await client.login(VIEWER.username, VIEWER.password)
    assert await client.get(*STATUS)
    assert (await client.ask(*CONTROL, b"\x00"))[0] == 0xD4
    assert not desk.hypervisor.called("power_on", "power_off")


async def test_a_message_without_a_session_changes_nothing(desk: Desk) -> None:
    desk.wire.say(Plain(Request(*CONTROL, b"\x01").encode()).encode())
    answer = wire.decode(await desk.wire.hear())
    assert isinstance(answer, Plain)
    assert answer.message[6] == 0xD4
    desk.wire.say(wire.outside_session(wire.IPMI, Request(*CONTROL, b"\x01").encode()))
    packet = wire.decode(await desk.wire.hear())
    assert isinstance(packet, Packet)
    assert packet.payload[6] == 0xD4
    assert not desk.hypervisor.called("power_on")


async def test_a_packet_with_a_wrong_code_is_not_answered(desk: Desk) -> None:
    client = await desk.admin()
    message = Request(*CONTROL, b"\x01").encode()
    desk.wire.say(client.seal(message, spoil=lambda signed: signed[:-1] + bytes((signed[-1] ^ 1,))))
    assert desk.wire.silent()
    assert not desk.hypervisor.called("power_on")


async def test_a_recorded_packet_played_again_is_answered_and_not_done_again(desk: Desk) -> None:
    client = await desk.admin()
    packet = client.seal(Request(*CONTROL, b"\x01", number=9).encode())
    desk.wire.say(packet)
    assert client.read(await desk.wire.hear()) == (0, b"")
    desk.wire.say(packet)
    assert client.read(await desk.wire.hear()) == (0, b"")
    assert len(desk.hypervisor.called("power_on")) == 1
    await client.get(*CONTROL, b"\x00")
    for _ in range(20):
        await client.get(*STATUS)
    desk.wire.say(packet)
    assert desk.wire.silent()
    assert len(desk.hypervisor.called("power_on")) == 1


async def test_a_request_sent_again_in_a_new_packet_is_done_once(desk: Desk) -> None:
    client = await desk.admin()
    desk.hypervisor.delays["power_on"] = 0.02
    message = Request(*CONTROL, b"\x01", number=9).encode()
    desk.wire.say(client.seal(message))
    desk.wire.say(client.seal(message))
    assert client.read(await desk.wire.hear()) == (0, b"")
    desk.wire.say(client.seal(message))
    assert client.read(await desk.wire.hear()) == (0, b"")
    assert desk.wire.silent()
    assert len(desk.hypervisor.called("power_on")) == 1


async def test_a_client_that_never_counts_its_requests_still_sees_the_truth(desk: Desk) -> None:
    client = await desk.admin()
    states = []
    for power in (b"\x01", b"\x00"):
        await client.get(*CONTROL, power)
        desk.wire.say(client.seal(Request(*STATUS, b"", number=0).encode()))
        states.append(client.read(await desk.wire.hear())[1][0] & 1)
    assert states == [1, 0]


async def test_a_lost_answer_during_login_is_given_again(desk: Desk) -> None:
    client = await desk.admin()
    rakp3 = next(one for one in desk.wire.log if isinstance(p := wire.decode(one), Packet) and p.kind == wire.RAKP3)
    desk.wire.say(rakp3)
    packet = wire.decode(await desk.wire.hear())
    assert isinstance(packet, Packet)
    assert (packet.kind, packet.payload[1]) == (wire.RAKP4, 0)
    assert len(desk.port.endpoint.sessions) == 1
    assert await client.get(*STATUS)


async def test_a_closed_session_is_gone(desk: Desk) -> None:
    client = await desk.admin()
    assert await client.get(0x06, 0x3C, client.session.to_bytes(4, "little")) == b""
    desk.wire.say(client.seal(Request(*STATUS, b"").encode()))
    assert desk.wire.silent()
    assert not desk.port.endpoint.sessions


async def test_an_unused_session_ends(desk: Desk) -> None:
    client = await desk.admin()
    desk.clock.seconds += SESSION_SECONDS - 1
    desk.port.sweep()
    assert await client.get(*STATUS)
    desk.clock.seconds += SESSION_SECONDS + 1
    desk.port.sweep()
    assert not desk.port.endpoint.sessions


async def test_there_is_a_limit_to_sessions_and_it_is_told(desk: Desk) -> None:
    share = SESSION_LIMIT * 3 // 4
    for number in range(share):
        await desk.client(console=number + 1).login()
    with pytest.raises(LoginRefused) as refused:
        await desk.client().login()
    assert refused.value.status == 0x01
    for number in range(SESSION_LIMIT - share):  # the others are not locked out by one
        await desk.client(console=100 + number, privilege=3).login("operator", "oper4tor")
    with pytest.raises(LoginRefused) as refused:
        await desk.client(privilege=2).login("viewer", "v1ewer")
    assert refused.value.status == 0x01
    desk.clock.seconds += SESSION_SECONDS + 1
    await desk.client().login()


async def test_a_flood_of_half_open_sessions_neither_grows_nor_locks_anybody_out(desk: Desk) -> None:
    flood = desk.client(console=7)
    for _ in range(3 * OPENING_LIMIT):
        await flood.open()
    await desk.admin()
    assert len(desk.port.endpoint._openings) <= OPENING_LIMIT


async def test_a_client_that_names_itself_and_waits_outlives_the_flood(desk: Desk) -> None:
    flood, client = desk.client(console=7), desk.client()
    asked = client.ask_outside

    async def amid_the_flood(kind: int, payload: bytes) -> bytes:
        if kind == wire.RAKP3:
            for _ in range(3 * OPENING_LIMIT):
                await flood.open()
        return await asked(kind, payload)

    client.ask_outside = amid_the_flood  # type: ignore[method-assign]
    await client.login()


async def test_ping_is_answered_by_pong_with_its_tag(desk: Desk) -> None:
    desk.wire.say(bytes.fromhex("0600ff06 000011be 80 2a 00 00"))
    assert await desk.wire.hear() == bytes.fromhex("0600ff06 000011be 40 2a 00 10 000011be 00000000 81 00 000000000000")


async def test_clients_can_ask_what_we_speak_before_they_log_in(desk: Desk) -> None:
    desk.wire.say(Plain(Request(0x06, 0x38, b"\x8e\x04").encode()).encode())
    answer = wire.decode(await desk.wire.hear())
    assert isinstance(answer, Plain)
    assert answer.message[6:15] == bytes.fromhex("00 01 80 04 02 00000000")
    desk.wire.say(Plain(Request(0x06, 0x54, b"\x0e\x00\x80").encode()).encode())
    answer = wire.decode(await desk.wire.hear())
    assert isinstance(answer, Plain)
    assert answer.message[7:-1] == bytes.fromhex("01 c003014181 c011034481")


def test_the_window_takes_each_number_once_and_none_far_away() -> None:
    window = Window()
    assert [window.accept(number) for number in (1, 2, 2, 5, 3, 4, 3)] == [True, True, False, True, True, True, False]
    assert not window.accept(0)
    assert not window.accept(5 + 16)
    assert window.accept(5 + 15)
    assert not window.accept(3)
    assert window.accept(19)


@pytest.mark.parametrize("said", [wire.RAKP1, wire.RAKP3])
@pytest.mark.parametrize(("late", "let_in"), [(0.0, True), (0.5, False)])
async def test_who_wants_in_has_twenty_seconds_for_all_of_it(desk: Desk, said: int, late: float, let_in: bool) -> None:
    client = desk.client()
    asked = client.ask_outside

    async def after_a_while(kind: int, payload: bytes) -> bytes:
        if kind == said:
            desk.clock.seconds += OPENING_SECONDS + late
        return await asked(kind, payload)

    client.ask_outside = after_a_while  # type: ignore[method-assign]
    if let_in:
        await client.login(ADMIN.username, ADMIN.password)
    else:
        with pytest.raises(LoginRefused) as refused:
            await client.login(ADMIN.username, ADMIN.password)
        assert refused.value.status == 0x02
    assert len(desk.port.endpoint.sessions) == let_in


async def test_sessions_are_numbered_from_one_and_a_number_that_is_free_is_given_again(desk: Desk) -> None:
    clients = [desk.client(console=100 + number) for number in range(3)]
    for client in clients:
        await client.login(ADMIN.username, ADMIN.password)
    sessions = desk.port.endpoint.sessions
    assert sorted(session.handle for session in sessions.values()) == [1, 2, 3]
    desk.port.endpoint.close(sessions[clients[1].session])
    await desk.client(console=200, privilege=3).login(OPERATOR.username, OPERATOR.password)
    assert {session.handle: session.login.name for session in sessions.values()} == {
        1: "admin",
        2: "operator",
        3: "admin",
    }


async def test_only_what_is_new_keeps_a_session_alive_and_says_where_its_client_is(desk: Desk) -> None:
    client = await desk.admin()
    session = desk.port.endpoint.sessions[client.session]
    desk.clock.seconds += SESSION_SECONDS - 1
    desk.wire.say(desk.wire.log[-1], ("192.0.2.66", 6))
    assert session.peer == client.peer and session.used < desk.clock.seconds, "a recording proves nothing"
    await desk.wire.hear()
    moved = ("192.0.2.1", 50000)
    client.peer = moved
    assert await client.get(*STATUS)
    assert session.peer == moved and session.used == desk.clock.seconds
    desk.clock.seconds += SESSION_SECONDS - 1
    desk.port.sweep()
    assert desk.port.endpoint.sessions, "it was used when it was about to end"
    desk.wire.say(desk.wire.log[-1])
    desk.clock.seconds += 2
    desk.port.sweep()
    assert not desk.port.endpoint.sessions


@pytest.mark.parametrize(("opened", "named", "status"), [
    (4, 4, 0), (4, 1, 0), (0, 4, 0), (1, 1, 0), (5, 4, 0x09), (15, 4, 0x09), (4, 0, 0x09), (4, 5, 0x09), (3, 4, 0x0A),
])  # fmt: skip
async def test_a_session_is_for_a_privilege_that_there_is_and_was_opened_for(
    desk: Desk, opened: int, named: int, status: int
) -> None:
    client = desk.client(privilege=opened)
    if status:
        with pytest.raises(LoginRefused) as refused:
            await client.login(ADMIN.username, ADMIN.password, role=named)
        assert refused.value.status == status and not desk.port.endpoint.sessions
    else:
        await client.login(ADMIN.username, ADMIN.password, role=named)
        (session,) = desk.port.endpoint.sessions.values()
        assert session.limit == named and session.privilege == min(named, 2)


async def test_a_refusal_is_for_the_client_who_asked(desk: Desk) -> None:
    client = desk.client()
    session = await client.open()
    long = bytes((1, 0, 0, 0)) + session.to_bytes(4, "little") + bytes(16) + bytes((4, 0, 0, 17)) + b"a" * 17
    reply = await client.ask_outside(wire.RAKP1, long)
    assert (reply[1], reply[4:8]) == (0x0C, client.console.to_bytes(4, "little"))
    reply = await client.ask_outside(wire.RAKP1, long.replace(session.to_bytes(4, "little"), b"\x01\x02\x03\x04"))
    assert (reply[1], reply[4:8]) == (0x0C, bytes(4)), "nobody opened that one"
    reply = await client.ask_outside(wire.RAKP3, bytes((2, 0, 0, 0)) + b"\x01\x02\x03\x04" + bytes(32))
    assert (reply[1], reply[4:8]) == (0x02, bytes(4))


async def test_a_recorded_question_is_answered_as_it_was_and_asked_of_nobody(desk: Desk) -> None:
    client = await desk.admin()
    before = await client.get(*STATUS)
    recorded = desk.wire.log[-1]
    await client.get(*CONTROL, b"\x01")
    desk.clock.seconds += 6
    desk.wire.say(recorded)
    code, again = client.read(await desk.wire.hear())
    assert (code, again) == (0, before) and (await client.get(*STATUS)) != before


async def test_what_is_no_message_and_a_console_that_nobody_opened_are_met_by_silence(desk: Desk) -> None:
    client = await desk.admin()
    for kind in (wire.SOL, wire.OPEN_REQUEST, 0x3F):
        desk.wire.say(client.seal(b"\x01\x00\x00\x00hello", kind=kind))
        assert desk.wire.silent()
    assert await client.get(*STATUS)


async def test_what_belongs_to_no_session_is_refused_or_met_by_silence(desk: Desk) -> None:
    client = desk.client()
    named = bytes((1, 0, 0, 0)) + b"\x01\x02\x03\x04" + bytes(16) + bytes((4, 0, 0, 5)) + b"admin"
    reply = await client.ask_outside(wire.RAKP1, named)
    assert (reply[1], reply[4:8]) == (0x02, bytes(4)), "nobody opened that one"
    with pytest.raises(LoginRefused) as refused:
        await desk.client(console=0).open()
    assert refused.value.status == 0x02, "a client without a number could not be answered"
    desk.wire.say(wire.outside_session(0x3F, b"hello"))
    desk.wire.say(wire.outside_session(wire.RAKP3, bytes((2, 1, 0, 0)) + b"\x01\x02\x03\x04"))
    assert desk.wire.silent(), "who gives up is not answered"


async def test_a_name_that_is_no_text_is_refused_and_written_down(desk: Desk) -> None:
    client = desk.client()
    session = await client.open()
    named = bytes((1, 0, 0, 0)) + session.to_bytes(4, "little") + bytes(16) + bytes((4, 0, 0, 2)) + b"\xff\xfe"
    assert (await client.ask_outside(wire.RAKP1, named))[1] == 0x0D
    assert [(line["user"], line["ok"]) for line in desk.audited()] == [("\ufffd\ufffd", False)]


async def test_a_name_said_again_is_answered_again_and_another_one_is_not(desk: Desk) -> None:
    client = desk.client()
    session = await client.open()
    said = bytes((1, 0, 0, 0)) + session.to_bytes(4, "little") + bytes(16) + bytes((4, 0, 0, 5)) + b"admin"
    first = await client.ask_outside(wire.RAKP1, said)
    assert first[1] == 0 and await client.ask_outside(wire.RAKP1, said) == first
    other = said[:8] + b"\x01" * 16 + said[24:]
    assert (await client.ask_outside(wire.RAKP1, other))[1] == 0x02
