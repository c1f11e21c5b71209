"""The messages of an IPMI log-in, byte for byte as the specification has them (tables 13-9 to 13-14)."""

from __future__ import annotations

import struct

import pytest

from rackless.bmc.ipmi import rakp
from rackless.bmc.ipmi.rakp import NameTooLong, OpenRequest, Rakp1, Rakp3, RakpStatus
from rackless.bmc.ipmi.wire import Malformed

CONSOLE, SESSION = 0x44332211, 0x88776655
RANDOM, GUID = bytes(range(16)), bytes(range(100, 116))


def choice(kind: int, algorithm: int, length: int = 8) -> bytes:
    return bytes((kind, 0, 0, length, algorithm, 0, 0, 0))


def asked(*choices: bytes, tag: int = 7, privilege: int = 4) -> bytes:
    return bytes((tag, privilege, 0, 0)) + struct.pack("<I", CONSOLE) + b"".join(choices)


SUITE_17 = (choice(0, 3), choice(1, 4), choice(2, 1))


def test_a_request_to_open_a_session() -> None:
    assert rakp.decode_open_request(asked(*SUITE_17)) == OpenRequest(7, 4, CONSOLE, (3, 4, 1))
    assert rakp.decode_open_request(asked(*SUITE_17, tag=1, privilege=0xF2)).privilege == 2, (
        "the upper half is reserved"
    )
    assert rakp.decode_open_request(asked(*SUITE_17, privilege=0x0F)).privilege == 0x0F


def test_what_is_left_to_the_bmc_and_reserved_bits_of_an_algorithm() -> None:
    open_to_all = asked(choice(0, 9, length=0), choice(1, 9, length=0), choice(2, 9, length=0))
    assert rakp.decode_open_request(open_to_all).algorithms == (None, None, None)
    assert rakp.decode_open_request(asked(choice(0, 0xC3), choice(1, 0x3F), choice(2, 0x40))).algorithms == (3, 0x3F, 0)


@pytest.mark.parametrize(
    "payload",
    [
        asked(*SUITE_17)[:-1],
        b"",
        asked(choice(1, 3), choice(1, 4), choice(2, 1)),
        asked(choice(0, 3), choice(0, 4), choice(2, 1)),
        asked(choice(0, 3), choice(1, 4), choice(1, 1)),
    ],
)
def test_a_request_that_is_cut_off_or_has_its_algorithms_in_disorder_is_none(payload: bytes) -> None:
    with pytest.raises(Malformed):
        rakp.decode_open_request(payload)


def test_the_answer_to_it() -> None:
    answer = rakp.encode_open_response(7, 4, CONSOLE, SESSION, (3, 4, 1))
    assert answer == bytes((7, 0, 4, 0)) + struct.pack("<II", CONSOLE, SESSION) + b"".join(SUITE_17)


def test_a_refusal() -> None:
    assert rakp.refusal(9, RakpStatus.NO_SUITE, CONSOLE) == bytes((9, 0x11, 0, 0)) + struct.pack("<I", CONSOLE)


def first(name: bytes, role: int = 0x14, length: int | None = None) -> bytes:
    said = len(name) if length is None else length
    return bytes((3, 0, 0, 0)) + struct.pack("<I", SESSION) + RANDOM + bytes((role, 0, 0, said)) + name


@pytest.mark.parametrize("name", [b"", b"a", b"administrator", b"x" * 16])
def test_the_first_message_names_who_wants_in(name: bytes) -> None:
    found = rakp.decode_rakp1(first(name))
    assert found == Rakp1(3, SESSION, RANDOM, 0x14, name)
    assert found.privilege == 4 and found.by_name_only and found.identity == bytes((0x14, len(name))) + name
    assert not rakp.decode_rakp1(first(name, role=0x0F)).by_name_only
    assert rakp.decode_rakp1(first(name, role=0xFF)).privilege == 0x0F


def test_what_follows_the_name_is_not_of_it() -> None:
    assert rakp.decode_rakp1(first(b"admin") + b"padding").name == b"admin"


def test_a_name_that_is_too_long_or_longer_than_its_message() -> None:
    with pytest.raises(NameTooLong) as caught:
        rakp.decode_rakp1(first(b"x" * 17))
    assert (caught.value.tag, caught.value.session) == (3, SESSION), "whoever sent it is told"
    for short in (first(b"adm", length=4), first(b"")[:-1], b""):
        with pytest.raises(Malformed):
            rakp.decode_rakp1(short)


def test_the_second_and_the_fourth_message() -> None:
    head = struct.pack("<I", CONSOLE)
    assert rakp.encode_rakp2(3, CONSOLE, RANDOM, GUID, b"code") == bytes((3, 0, 0, 0)) + head + RANDOM + GUID + b"code"
    assert rakp.encode_rakp4(3, CONSOLE, b"check") == bytes((3, 0, 0, 0)) + head + b"check"


def test_the_third_message() -> None:
    sent = bytes((3, 0x0D, 0, 0)) + struct.pack("<I", SESSION)
    assert rakp.decode_rakp3(sent) == Rakp3(3, 0x0D, SESSION, b"")
    assert rakp.decode_rakp3(sent + b"code").code == b"code"
    with pytest.raises(Malformed):
        rakp.decode_rakp3(sent[:-1])


def test_refusals_have_the_numbers_of_the_specification() -> None:
    assert {status.name: status.value for status in RakpStatus} == {
        "OK": 0x00, "NO_RESOURCES": 0x01, "INVALID_SESSION": 0x02, "INVALID_PAYLOAD": 0x03, "INVALID_AUTHENTICATION": 0x04,
        "INVALID_INTEGRITY": 0x05, "INVALID_ROLE": 0x09, "UNAUTHORIZED_ROLE": 0x0A, "INVALID_NAME_LENGTH": 0x0C,
        "UNAUTHORIZED_NAME": 0x0D, "INVALID_CHECK_VALUE": 0x0F, "INVALID_CONFIDENTIALITY": 0x10, "NO_SUITE": 0x11,
        "ILLEGAL_PARAMETER": 0x12,
    }  # fmt: skip
    assert rakp.NAME_LONGEST == 16
