"""The agent's own HTTP: what servers answer with, and what they should not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import pytest

from rackless.node.http import AgentHttp, BadAnswer

MOST = 1000


class Plain:
    """Instead of TLS, which is tried against a real API elsewhere."""

    def wrap_socket(self, sock: socket.socket, server_hostname: str) -> socket.socket:
        return sock


class Server:
    def __init__(self, *answers: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._answers, self.asked, self.connections = list(answers), b"", 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):  # the test is over, or the agent has gone
            self._answer()

    def _answer(self) -> None:
        while self._answers:
            client, _ = self._listener.accept()
            self.connections += 1
            with client:
                while self._answers:
                    got = client.recv(65536)
                    if not got:
                        break
                    self.asked += got
                    client.sendall(self._answers.pop(0))
                    if not self._answers:
                        client.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Not before the thread has ended: it would accept on whatever socket has the listener's number next."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()


@contextmanager
def asking(*answers: bytes) -> Iterator[tuple[AgentHttp, Server]]:
    server = Server(*answers)
    connection = AgentHttp("127.0.0.1", server.port, cast(Any, Plain()), patience=10.0, most=MOST)
    try:
        yield connection, server
    finally:
        connection.close()
        server.close()


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", (200, b"{}")),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\nT: 1\r\n\r\n",
            (200, b"{}"),
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length: 1\r\n\r\n1", (201, b"1")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"")),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", (200, b"until the end")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", (200, b"")),
    ],
)
def test_what_servers_answer_with(answer: bytes, found: tuple[int, bytes]) -> None:
    with asking(answer) as (connection, server):
        assert connection.ask("GET", "/a", {"Accept": "x"}, None) == found
    assert server.asked == f"GET /a HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAccept: x\r\n\r\n".encode()


def test_one_connection_serves_for_all() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    with asking(answer, answer, answer) as (connection, server):
        for _ in range(3):
            assert connection.ask("POST", "/a", {}, b"body") == (200, b"{}")
        assert connection.open
    assert server.connections == 1 and server.asked.count(b"Content-Length: 4\r\n\r\nbody") == 3


def test_a_connection_that_the_server_closes_is_opened_anew() -> None:
    last = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with asking(last, last) as (connection, server):
        connection.ask("GET", "/", {}, None)
        assert not connection.open
        server.connections = 0


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 2xx\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 101 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 1001,
    ],
)
def test_what_is_no_answer_is_refused(answer: bytes) -> None:
    with asking(answer) as (connection, _), pytest.raises(BadAnswer):
        connection.ask("GET", "/", {}, None)


def test_silence_at_the_end_is_told_apart() -> None:
    with asking(b"") as (connection, _), pytest.raises(ConnectionResetError):
        connection.ask("GET", "/", {}, None)
