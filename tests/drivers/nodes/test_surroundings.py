"""What is asked on a lab's networks, and what is made of the answers: words of DNS and DHCP, and of the kernel about processors."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rackless.drivers.nodes.surroundings import (
    CHAOS,
    PTR,
    TXT,
    A,
    NoAnswer,
    ask,
    discover,
    look_up,
    observe,
    offered_by,
    question,
    read_answer,
    read_times,
    read_waiting,
)

POINTER = b"\xc0\x0c"


def answer(number: int, asked: bytes, *records: tuple[int, bytes], flags: int = 0x8180) -> bytes:
    head = struct.pack("!6H", number, flags, 1, len(records), 0, 0)
    told = (POINTER + struct.pack("!HHIH", kind, 1, 60, len(data)) + data for kind, data in records)
    return head + asked[12:] + b"".join(told)


def test_addresses_names_and_texts_are_read_and_a_name_that_is_not_there_is_nothing() -> None:
    asked = question(7, "api.lab.test", A)
    assert read_answer(answer(7, asked, (A, b"\xc0\0\x02\x05"), (28, bytes(16))), 7, A) == ["192.0.2.5"]
    assert read_answer(answer(7, asked, (PTR, b"\x05other" + POINTER)), 7, PTR) == ["other.api.lab.test"]
    assert read_answer(answer(7, asked, (TXT, b"\x07dnsmasq")), 7, TXT) == ["dnsmasq"]
    assert read_answer(answer(7, asked, flags=0x8183), 7, A) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\x07",
        answer(8, question(8, "x", A)),
        answer(7, question(7, "x", A), flags=0x0100),
        answer(7, question(7, "x", A), flags=0x8182),
        struct.pack("!6H", 7, 0x8180, 1, 0, 0, 0) + b"\xc0\x0c",
        answer(7, question(7, "x", A), (A, b"\1\2\3\4"))[:-8],
    ],
    ids=["nothing", "cut off", "another's", "a question", "an error", "a name that leads to itself", "cut in a record"],
)
def test_what_is_no_answer_is_not_believed(data: bytes) -> None:
    with pytest.raises(NoAnswer):
        read_answer(data, 7, A)


@contextmanager
def server(reply: bytes) -> Iterator[int]:
    """On loopback: says the same to everybody, with the number that was asked with."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        handle.bind(("127.0.0.1", 0))

        def serve() -> None:
            for _ in range(8):
                try:
                    data, client = handle.recvfrom(4096)
                except OSError:
                    return
                handle.sendto(data[:2] + b"\x81\x80\0\x01\0\x01\0\0\0\0" + data[12:] + reply, client)

        threading.Thread(target=serve, daemon=True).start()
        yield handle.getsockname()[1]


def test_names_are_asked_forward_addresses_backward_and_first_who_answers() -> None:
    reply = POINTER + struct.pack("!HHIH", A, 1, 60, 4) + b"\xc0\0\x02\x05"
    with server(reply) as port:
        assert ask("127.0.0.1", port, "api.lab.test", A) == ["192.0.2.5"]
        told = look_up("127.0.0.1", port, {"api.lab.test": ["192.0.2.5"], "192.0.2.5": ["api.lab.test"]})
    assert [one["question"] for one in told] == ["version.bind", "api.lab.test", "192.0.2.5"]
    assert told[1]["found"] == ["192.0.2.5"] and told[2]["found"] == []


def test_where_nobody_listens_only_one_question_is_asked() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = look_up("127.0.0.1", port, {"api.lab.test": []})
    assert [(one["question"], one["problem"]) for one in told] == [("version.bind", "Connection refused")]
    assert question(1, "version.bind", TXT, CHAOS).endswith(b"\0\x10\0\x03")


def offer(number: bytes, kind: int = 2, server_id: bytes = b"\xc0\0\x02\x63") -> bytes:
    asked = bytearray(discover(b"\2\0\0\0\0\1", number))
    options = bytes((53, 1, kind)) + b"\0" + bytes((54, len(server_id))) + server_id + b"\xff"
    return bytes(asked[: 14 + 20 + 8 + 240]) + options


def test_an_offer_is_believed_when_it_answers_what_was_asked() -> None:
    assert offered_by(offer(b"abcd"), b"abcd") == "192.0.2.99"
    assert offered_by(offer(b"abcd", kind=5), b"abcd") == "", "no offer"
    assert offered_by(offer(b"abce"), b"abcd") == "", "to another"
    assert offered_by(offer(b"abcd", server_id=b"\1"), b"abcd") == "", "from nobody"
    assert offered_by(discover(b"\2\0\0\0\0\1", b"abcd"), b"abcd") == "", "our own question"
    for length in (0, 1, 14, 30, 100, 281):
        assert offered_by(offer(b"abcd")[:length], b"abcd") == ""


def test_the_kernels_words_about_processors_are_read_and_their_absence_is_none() -> None:
    assert read_waiting("some avg10=1.00 avg60=2.00 avg300=77.76 total=1\nfull avg10=0.00\n") == pytest.approx(0.7776)
    assert read_waiting("") is None
    assert read_times("cpu  10 0 10 70 0 0 0 10 5 0\ncpu0 1\n") == (10, 100)
    assert read_times("") == (0, 0)


def test_without_a_question_nothing_is_asked() -> None:
    found = observe({})
    assert found["names"] == [] and found["dhcp"] == {} and 0.0 <= found["stolen"] <= 1.0
