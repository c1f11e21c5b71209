"""A session's packets: sealed as the specification says (table 13-8), believed only when their code is right, each number once."""

from __future__ import annotations

import hmac
from dataclasses import replace

import pytest

from rackless.bmc.ipmi.session import IpmiSession, Login, Privilege, Window
from rackless.bmc.ipmi.suites import SUITES, derive
from rackless.bmc.ipmi.wire import Malformed, Packet, Request, decode

KEY = b"session integrity key"
ALL = pytest.mark.parametrize("suite", sorted(SUITES))


def session(suite: int = 17) -> IpmiSession:
    login = Login(2, "admin", Privilege.ADMINISTRATOR, b"")
    keys = derive(SUITES[suite], KEY)
    return IpmiSession(
        id=1, console=0x0A0B0C0D, suite=SUITES[suite], keys=keys, login=login, limit=Privilege.ADMINISTRATOR,
        privilege=Privilege.USER, peer=("192.0.2.1", 9), handle=1, used=0.0, rakp3=b"", rakp4=b"",
    )  # fmt: skip


def sealed(suite: int, payload: bytes = b"hello") -> tuple[bytes, Packet]:
    datagram = session(suite).seal(0, payload, lambda size: bytes(size))
    packet = decode(datagram)
    assert isinstance(packet, Packet)
    return datagram, packet


@ALL
@pytest.mark.parametrize("size", range(0, 40, 3))
def test_what_is_sealed_is_unsealed_by_whoever_has_the_keys(suite: int, size: int) -> None:
    payload = bytes(range(size))
    _, packet = sealed(suite, payload)
    assert session(suite).unseal(packet) == payload
    assert (packet.session, packet.sequence) == (0x0A0B0C0D, 1)
    assert (packet.encrypted, packet.authenticated) == (SUITES[suite].encrypts, SUITES[suite].signs)


@pytest.mark.parametrize("suite", [2, 3, 16, 17])
@pytest.mark.parametrize("size", range(8))
def test_a_signed_packet_is_filled_up_to_four_bytes_and_ends_with_its_code(suite: int, size: int) -> None:
    datagram, packet = sealed(suite, bytes(size))
    body, code = datagram[4 : -SUITES[suite].check_length], datagram[-SUITES[suite].check_length :]
    assert len(body) % 4 == 0 and body[-1] == 0x07
    pad = body[-2]
    assert pad < 4 and body[-2 - pad : -2] == b"\xff" * pad
    assert len(body) == 12 + len(packet.payload) + pad + 2
    keys = derive(SUITES[suite], KEY)
    assert code == hmac.digest(keys.integrity, body, str(SUITES[suite].hash))[: SUITES[suite].check_length]


@pytest.mark.parametrize("suite", [2, 3, 16, 17])
def test_a_packet_that_somebody_else_made_or_changed_is_not_believed(suite: int) -> None:
    _, packet = sealed(suite)
    for at in range(len(packet.signed)):
        bent = packet.signed[:at] + bytes((packet.signed[at] ^ 1,)) + packet.signed[at + 1 :]
        with pytest.raises(Malformed):
            session(suite).unseal(replace(packet, signed=bent))
    with pytest.raises(Malformed):
        session(suite).unseal(replace(packet, signed=b""))


@ALL
def test_a_packet_is_encrypted_and_signed_as_its_session_is_and_not_otherwise(suite: int) -> None:
    _, packet = sealed(suite)
    for other in (
        replace(packet, encrypted=not packet.encrypted),
        replace(packet, authenticated=not packet.authenticated),
        replace(packet, encrypted=not packet.encrypted, authenticated=not packet.authenticated),
    ):
        with pytest.raises(Malformed):
            session(suite).unseal(other)


def resigned(suite: int, signed: bytes) -> bytes:
    chosen = SUITES[suite]
    return signed + hmac.digest(derive(chosen, KEY).integrity, signed, str(chosen.hash))[: chosen.check_length]


def test_a_code_over_less_than_the_packet_is_not_one() -> None:
    _, packet = sealed(16)
    whole = packet.signed[: -SUITES[16].check_length]
    least = 12 + len(packet.payload) + 2
    assert session(16).unseal(replace(packet, signed=resigned(16, whole[:least]))) == b"hello"
    with pytest.raises(Malformed):
        session(16).unseal(replace(packet, signed=resigned(16, whole[: least - 1])))


def test_packets_are_numbered_from_one_and_begin_anew_after_the_last() -> None:
    open_one = session()
    for wanted in (1, 2, 3):
        packet = decode(open_one.seal(0, b"", bytes))
        assert isinstance(packet, Packet) and packet.sequence == wanted
    open_one.sequence = 0xFFFFFFFF
    packet = decode(open_one.seal(0, b"", bytes))
    assert isinstance(packet, Packet) and packet.sequence == 1, "nought is no number of a session"


# -- which numbers are taken ------------------------------------------------------------------------------------------


def test_a_number_is_taken_once_a_little_ahead_and_a_little_behind() -> None:
    window = Window()
    assert window.accept(0) is False
    assert window.accept(15) is True and window.accept(15) is False
    assert window.accept(31) is False, "too far ahead"
    assert window.accept(30) is True
    assert window.accept(14) is True and window.accept(14) is False
    assert window.accept(13) is False, "seventeen behind the highest"
    assert window.accept(15) is False, "taken before the window moved"
    for number in range(16, 30):
        assert window.accept(number) is True and window.accept(number) is False


def test_every_number_in_order_and_then_none_of_them_again() -> None:
    window = Window()
    assert all(window.accept(number) for number in range(1, 200))
    assert not any(window.accept(number) for number in range(200))


def test_the_last_sixteen_requests_are_remembered_with_their_answers() -> None:
    open_one = session()
    requests = [Request(6, 1, bytes((number,))) for number in range(18)]
    for number, request in enumerate(requests[:17]):
        open_one.remember(request, float(number), b"")
    assert list(open_one.answers) == requests[1:17]
    open_one.remember(requests[1], 20.0, b"again")
    open_one.remember(requests[17], 21.0, None)
    assert requests[2] not in open_one.answers and open_one.answers[requests[1]] == (20.0, b"again")
