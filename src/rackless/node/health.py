"""The node's `/healthz` and `/metrics`, over TLS, for clients with a certificate of the cluster's CA.

One request at a time, in the agent's own thread: a slow client delays the agent by seconds, which is too short to miss a Lease.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PATIENCE = 2.0
"""Seconds for one client, from the handshake to the answer."""
AT_ONCE = 4
"""Clients that are answered before the agent does its own work again."""
MOST = 8192
"""The most bytes that a request may have."""


class AgentHealth:
    def __init__(self, ca: str, port: int, ask: Callable[[str], tuple[int, str]]) -> None:
        self._ca, self._port, self._ask = ca, port, ask
        self._listener: socket.socket | None = None
        self._tls: ssl.SSLContext | None = None
        self._selector = selectors.DefaultSelector()

    @property
    def port(self) -> int | None:
        return self._listener.getsockname()[1] if self._listener is not None else None

    def serve_with(self, pair: Path) -> None:
        """Begin to serve, or serve on with another certificate."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(cadata=self._ca)
        tls.load_cert_chain(pair)
        self._tls = tls
        if self._listener is None:
            self._listener = socket.create_server(("", self._port), backlog=8)
            self._listener.setblocking(False)
            self._selector.register(self._listener, selectors.EVENT_READ)

    def wait(self, seconds: float) -> None:
        """Waits until the time has passed or a client was answered."""
        if not self._selector.select(seconds):
            return
        for _ in range(AT_ONCE):
            assert self._listener is not None
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._answer(client)

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self._selector.close()

    def _answer(self, client: socket.socket) -> None:
        assert self._tls is not None
        deadline = time.monotonic() + PATIENCE
        client.settimeout(PATIENCE)
        try:
            with self._tls.wrap_socket(client, server_side=True) as secured:
                question = _question(secured, deadline)
                secured.settimeout(_left(deadline))
                secured.sendall(respond(question, self._ask))
        except (OSError, ValueError):  # the client has no certificate of the CA, went away, or was too slow
            client.close()


def _left(deadline: float) -> float:
    """Seconds; raises TimeoutError when there are none. A socket's own timeout is for each piece, and pieces can be bytes."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _question(client: ssl.SSLSocket, deadline: float) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data and len(data) < MOST:
        client.settimeout(_left(deadline))
        piece = client.recv(MOST)
        if not piece:
            break
        data += piece
    return data


def respond(question: bytes, ask: Callable[[str], tuple[int, str]]) -> bytes:
    words = question.partition(b"\r\n")[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        status, text = 400, "not HTTP\n"
    elif words[0] not in ("GET", "HEAD"):
        status, text = 405, "only GET\n"
    else:
        status, text = ask(words[1].partition("?")[0])
    body = text.encode()
    head = f"HTTP/1.1 {status} {_WORDS.get(status, '')}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + (b"" if words[0] == "HEAD" else body)


_WORDS: Mapping[int, str] = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}
