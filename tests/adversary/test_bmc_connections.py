"""Clients that connect and then behave badly: what another client notices of it."""

from __future__ import annotations

import gzip
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.adversary.bmc_clients import SYSTEM, Bystander, ask, closed, connect, head, idle_turn, read_answer, turn_of
from tests.adversary.bmc_host import Host, bmc_host
from tests.bmc.conftest import authority  # noqa: F401 - a fixture

TURNS = 12
"""A turn under attack is at most so many times the longest of an idle BMC."""


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with bmc_host(2, head_seconds=1.0, idle_seconds=2.0, write_seconds=1.0, each=8) as found:
        yield found


def until(what: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def hung_up(line: socket.socket) -> bool:
    try:
        while line.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def test_a_compressed_body_is_neither_inflated_nor_read_before_it_is_known_who_sends_it(host: Host) -> None:
    bomb = gzip.compress(bytes(64 << 20), 1)
    most = TURNS * idle_turn(host)

    def bombs() -> None:
        for auth, status in ((None, 401), ("Basic eDp5", 401)):
            lines = [connect(host) for _ in range(3)]
            for line in lines:
                line.sendall(head("PATCH", SYSTEM, auth=auth, length=len(bomb), Content_Encoding="gzip") + bomb)
            assert {read_answer(line)[0] for line in lines} == {status}
            closed(lines)

    assert turn_of(host, bombs, most) < most
    small = gzip.compress(b'{"AssetTag": "x"}')
    refused, body = ask(
        host, head("PATCH", SYSTEM, length=len(small), Content_Encoding="gzip", Content_Type="application/json") + small
    )
    assert refused == 415 and b"Content-Encoding" in body


def test_a_huge_body_is_refused_by_its_length_and_by_its_bytes(host: Host) -> None:
    most, before = TURNS * idle_turn(host), host.tell().memory
    chunk = b"10000\r\n" + b"x" * (1 << 16) + b"\r\n"

    def bodies() -> None:
        for _ in range(5):
            long = head("PATCH", SYSTEM, length=1 << 40, Content_Type="application/json")
            assert ask(host, long + b"x" * (1 << 20))[0] in (413, 0)
            chunked = head("PATCH", SYSTEM, length=None, Transfer_Encoding="chunked", Content_Type="application/json")
            assert ask(host, chunked + chunk * 32)[0] in (413, 0)

    assert turn_of(host, bodies, most) < most
    assert host.tell().memory - before < 16 << 20


def test_half_a_request_is_not_waited_for_and_holds_nobody_up(host: Host) -> None:
    bystander = Bystander(host)
    alone = bystander.looks()
    lines = [connect(host) for _ in range(6)]
    for number, line in enumerate(lines):
        line.sendall(head("GET", SYSTEM)[: 10 + number * 8])
    assert bystander.looks() < 20 * max(alone, 0.002)
    for line in lines:
        line.settimeout(15)
        assert hung_up(line)
    closed(lines)


def test_one_byte_now_and_then_does_not_keep_a_connection(host: Host) -> None:
    with connect(host) as line:
        line.settimeout(0.2)
        began = time.monotonic()
        for byte in head("GET", SYSTEM) + b"x" * 200:
            try:
                line.send(bytes((byte,)))
                line.recv(1)
                break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        assert time.monotonic() - began < 20


def test_silent_and_idle_connections_leave(host: Host) -> None:
    with connect(host) as silent, connect(host) as idle:
        idle.sendall(head("GET", SYSTEM))
        assert read_answer(idle)[0] == 200
        assert hung_up(silent) and hung_up(idle)


def test_who_takes_nothing_of_the_answer_is_let_go(host: Host) -> None:
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    line.connect((host.addresses[0], host.port))
    line.settimeout(0.5)
    request = head("GET", "/redfish/v1/Registries/Base/Base.1.19.0.json")
    try:
        while True:
            line.send(request)
    except (TimeoutError, ConnectionError):
        pass
    assert until(lambda: host.tell().guests == 0)
    line.close()


def test_many_connections_push_out_idle_ones_and_let_the_next_in(host: Host) -> None:
    hoard = [connect(host) for _ in range(40)]
    assert until(lambda: host.tell().guests <= 8)
    assert ask(host, head("GET", SYSTEM))[0] == 200
    assert Bystander(host).looks(3)
    closed(hoard)
    assert until(lambda: host.tell().guests == 0)


@pytest.mark.slow
def test_a_tls_handshake_that_never_comes_is_not_waited_for(
    authority: Callable[[list[str]], tuple[ssl.SSLContext, Path]],  # noqa: F811
) -> None:
    _, certificate = authority(["127.77.0.1"])
    with bmc_host(1, tls=certificate.parent, head_seconds=1.0, each=8) as secure:
        silent = [connect(secure) for _ in range(7)]
        for number, line in enumerate(silent[:4]):
            line.sendall(b"\x16\x03\x01\x02\x00\x01\x00"[: number + 2])
        trust = ssl.create_default_context(cafile=str(certificate))
        with trust.wrap_socket(connect(secure), server_hostname="127.77.0.1") as good:
            good.sendall(head("GET", SYSTEM))
            assert read_answer(good)[0] == 200
        assert all(hung_up(line) for line in silent)
        closed(silent)
        assert until(lambda: secure.tell().guests == 0)
        assert not secure.tell().notes
