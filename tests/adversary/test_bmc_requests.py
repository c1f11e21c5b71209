"""Whole requests that ask for too much: what they cost, and what another client notices."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.adversary.bmc_clients import (
    AUTH,
    SYSTEM,
    Bystander,
    ask,
    closed,
    connect,
    head,
    idle_turn,
    read_answer,
    turn_of,
)
from tests.adversary.bmc_host import Host, bmc_host

pytestmark = pytest.mark.slow

TURNS = 12
"""A turn is at most so many times the longest of an idle BMC."""
V1 = "/redfish/v1"


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with bmc_host(2) as found:
        yield found


@pytest.fixture(scope="module")
def aggregate() -> Iterator[Host]:
    with bmc_host(100, aggregate=True) as found:
        yield found


def patch(host: Host, body: bytes) -> int:
    return ask(host, head("PATCH", SYSTEM, length=len(body), Content_Type="application/json") + body)[0]


BODIES = {
    "deep": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "deep lists": b"[" * 60_000,
    "huge integer": b'{"AssetTag": ' + b"9" * 60_000 + b"}",
    "huge exponent": b'{"AssetTag": 1e' + b"9" * 5_000 + b"}",
    "many names": b"{" + b",".join(b'"a%d":1' % n for n in range(6_000)) + b"}",
    "many wrong values": b'{"Boot": {' + b",".join(b'"BootOrder":[%d]' % n for n in range(3_000)) + b"}}",
    "long string": b'{"AssetTag": "' + b"x" * 60_000 + b'"}',
    "large list": b'{"AssetTag": [' + b"1," * 30_000 + b"1]}",
}


@pytest.mark.parametrize("name", BODIES)
def test_a_strange_body_is_refused_in_a_moment_and_in_few_words(host: Host, name: str) -> None:
    most = TURNS * idle_turn(host)
    body = BODIES[name]

    def bodies() -> None:
        for _ in range(5):
            status, answer = ask(host, head("PATCH", SYSTEM, length=len(body), Content_Type="application/json") + body)
            assert status == 400
            assert len(answer) < 64 << 10

    assert turn_of(host, bodies, most) < most
    assert not host.tell().notes


@pytest.mark.parametrize(
    "query",
    [
        "$select=" + ",".join(["Boot/BootSourceOverrideMode"] * 250),
        "$select=" + "/".join(["a"] * 3500),
        "$expand=" + "*" * 7000,
        "$expand=*($levels=999999)",
        "$expand=*($levels=4)",
        "$top=" + "9" * 5000,
        "$skip=-1",
        "only=" + "x" * 7000,
        "&".join(f"$select=a{n}" for n in range(600)),
        "$filter=" + "(" * 7000,
    ],
    ids=lambda query: query[:24],
)
def test_a_strange_query_is_answered_in_a_moment(host: Host, query: str) -> None:
    most = TURNS * idle_turn(host)

    def query_it() -> None:
        assert ask(host, head("GET", f"{V1}/Systems?{query}"))[0] in (200, 400, 501)

    assert turn_of(host, query_it, most) < most


def test_an_expansion_is_bounded_and_others_get_their_turn_meanwhile(aggregate: Host) -> None:
    status, body = ask(aggregate, head("GET", f"{V1}/"))
    levels = json.loads(body)["ProtocolFeaturesSupported"]["ExpandQuery"]["MaxLevels"]
    assert ask(aggregate, head("GET", f"{V1}/Systems?$expand=*($levels={levels + 1})"))[0] == 400
    aggregate.tell()
    ask(aggregate, head("GET", f"{V1}/Systems?$expand=*"))
    one = max(aggregate.tell().turn, 0.001)
    before = aggregate.tell().memory

    def expand() -> None:
        for level in range(1, levels + 1):
            status, body = ask(aggregate, head("GET", f"{V1}/Systems?$expand=*($levels={level})"))
            assert status in (200, 507)
            assert len(body) < 4 << 20
            if status == 200 and level == 1:
                assert all("PowerState" in member for member in orjson.loads(body)["Members"])

    assert turn_of(aggregate, expand, TURNS * one) < TURNS * one
    assert aggregate.tell().memory - before < 64 << 20
    status, body = ask(aggregate, head("GET", f"{V1}/Systems?$expand=*($levels={levels})&$top=5"))
    assert status == 200 and len(orjson.loads(body)["Members"]) == 5


def test_many_expansions_at_once_hold_nobody_up(aggregate: Host) -> None:
    system = orjson.loads(ask(aggregate, head("GET", f"{V1}/Systems"))[1])["Members"][0]["@odata.id"]
    aggregate.tell()
    assert ask(aggregate, head("GET", system))[0] == 200
    idle = max(aggregate.tell().turn, 0.001)

    def expand() -> None:
        lines = [connect(aggregate) for _ in range(12)]
        for line in lines:
            line.sendall(head("GET", f"{V1}/Systems?$expand=*($levels=2)"))
        assert ask(aggregate, head("GET", system))[0] == 200
        assert {read_answer(line)[0] for line in lines} == {200}
        closed(lines)

    assert turn_of(aggregate, expand, TURNS * idle) < TURNS * idle


# what a BMC asks of others


class Hostile:
    """A server that answers badly, on loopback."""

    def __init__(self, answer: bytes, *, then: bytes = b"", hold: bool = True) -> None:
        self._answer, self._then, self._hold = answer, then, hold
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.asked = 0
        self._lines: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            self.asked += 1
            line.settimeout(20)
            try:
                line.recv(65536)
                line.sendall(self._answer)
                for _ in range(64 if self._then else 0):
                    line.sendall(self._then)
            except OSError:
                pass
            if self._hold:
                self._lines.append(line)
            else:
                line.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(20)
        self._listener.close()
        closed(self._lines)


DRIVE = f"{SYSTEM}/VirtualMedia/Cd"
INSERT = f"{DRIVE}/Actions/VirtualMedia.InsertMedia"


def post(host: Host, path: str, value: Any, **headers: str) -> bytes:
    body = json.dumps(value).encode()
    return head("POST", path, length=len(body), Content_Type="application/json", **headers) + body


@pytest.mark.parametrize(
    ("answer", "then"),
    [
        (b"HTTP/1.1 200 OK\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n", b""),
        (b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 70_000 + b"\r\n\r\n", b""),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"10\r\n" + b"\0" * 16 + b"\r\n",
        ),
    ],
    ids=["half a head", "half a body", "a huge length", "a redirection away", "a huge header", "a slow stream"],
)
def test_a_hostile_image_server_holds_up_nobody_but_its_victim(host: Host, answer: bytes, then: bytes) -> None:
    idle = idle_turn(host)
    hostile = Hostile(answer, then=then)
    lines = [connect(host) for _ in range(3)]
    try:
        for number, line in enumerate(lines):
            line.sendall(post(host, INSERT, {"Image": f"http://127.0.0.1:{hostile.port}/{number}.iso"}))
        assert Bystander(host).looks(10)
        assert ask(host, head("GET", SYSTEM))[0] == 200, "the same BMC goes on, too"
        assert host.tell().turn < TURNS * idle
    finally:
        closed(lines)
        hostile.close()


def test_an_image_that_does_not_come_keeps_no_other_change_waiting(host: Host) -> None:
    """Also where it is inserted by PATCH, as older clients do: every PATCH and DELETE at the BMC waited for it."""
    hostile = Hostile(b"HTTP/1.1 200 OK\r\n")
    etag = json.loads(ask(host, head("GET", DRIVE))[1])["@odata.etag"]
    lines = [connect(host) for _ in range(2)]
    try:
        for number, (line, guard) in enumerate(zip(lines, ({}, {"If_Match": etag}), strict=True)):
            wish = json.dumps({"Image": f"http://127.0.0.1:{hostile.port}/{number}.iso"}).encode()
            line.sendall(head("PATCH", DRIVE, length=len(wish), Content_Type="application/json", **guard) + wish)
        while hostile.asked < 2:
            assert Bystander(host).looks(1)
        with connect(host, timeout=10) as ours:
            ours.sendall(patch_request({"AssetTag": "ours"}))
            assert read_answer(ours)[0] == 200
    finally:
        closed(lines)
        hostile.close()


def test_one_drive_waits_for_few_images_at_once(host: Host) -> None:
    hostile = Hostile(b"HTTP/1.1 200 OK\r\n")
    lines = [connect(host) for _ in range(8)]
    try:
        for number, line in enumerate(lines):
            line.sendall(post(host, INSERT, {"Image": f"http://127.0.0.1:{hostile.port}/{number}.iso"}))
            line.settimeout(5)
        refused = 0
        for line in lines[4:]:
            refused += read_answer(line)[0] == 503
        assert refused == 4
    finally:
        closed(lines)
        hostile.close()


def test_slow_receivers_of_events_hold_up_nobody(host: Host) -> None:
    most = TURNS * max(idle_turn(host), 0.002)
    hostile = Hostile(b"HTTP/1.1 200 OK\r\n")
    made = []
    try:
        for number in range(16):
            wish = {"Destination": f"http://127.0.0.1:{hostile.port}/{number}", "Protocol": "Redfish"}
            status, body = ask(host, post(host, f"{V1}/EventService/Subscriptions", wish))
            assert status == 201
            made.append(json.loads(body)["@odata.id"])

        def change() -> None:
            for number in range(300):
                assert ask(host, patch_request({"AssetTag": str(number)}))[0] == 200
            assert Bystander(host).looks(10)

        assert turn_of(host, change, most) < most, "an event is told to sixteen"
    finally:
        for uri in made:
            assert ask(host, head("DELETE", uri))[0] == 204
        hostile.close()


def patch_request(value: Any) -> bytes:
    body = json.dumps(value).encode()
    return head("PATCH", SYSTEM, length=len(body), Content_Type="application/json") + body


def test_a_stream_that_nobody_reads_does_not_grow(host: Host) -> None:
    lines = []
    for _ in range(8):
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        line.connect((host.addresses[0], host.port))
        line.sendall(head("GET", f"{V1}/EventService/SSE", auth=AUTH))
        lines.append(line)
    before = host.tell().memory
    for number in range(600):
        assert ask(host, patch_request({"AssetTag": f"{number:064}"}))[0] == 200
    assert host.tell().memory - before < 16 << 20
    closed(lines)
