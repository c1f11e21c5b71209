"""HTTP/1.1 over one connection, as far as an API uses it: answers with a length or in chunks.

Not the standard library's client: that imports a parser for mail, a fifth of the agent's time to start on an emulated server.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import IO

LONGEST_LINE = 65536
MOST_HEADERS = 100


class BadAnswer(ValueError):
    """The answer is no HTTP, or larger than allowed."""


class AgentHttp:
    def __init__(self, host: str, port: int, tls: ssl.SSLContext, *, patience: float, most: int) -> None:
        """`patience` and `most`, in seconds for each read and in bytes for the whole answer."""
        self._host, self._port, self._tls, self._patience, self._most = host, port, tls, patience, most
        self._sock: socket.socket | None = None
        self._file: IO[bytes] | None = None

    @property
    def open(self) -> bool:
        return self._sock is not None

    def close(self) -> None:
        for each in (self._file, self._sock):
            if each is not None:
                each.close()
        self._sock = self._file = None

    def ask(self, method: str, path: str, headers: Mapping[str, str], content: bytes | None) -> tuple[int, bytes]:
        """Raises OSError, BadAnswer; ConnectionResetError when the other end closed without an answer."""
        sock, file = self._connect()
        host = f"[{self._host}]" if ":" in self._host else self._host
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}:{self._port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if content is not None:
            lines.append(f"Content-Length: {len(content)}")
        sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + (content or b""))
        while True:
            status, found = _head(file)
            if status >= 200:
                break
        body = self._body(file, status, found)
        if found.get("connection", "").lower() == "close":
            self.close()
        return status, body

    def _connect(self) -> tuple[socket.socket, IO[bytes]]:
        if self._sock is None or self._file is None:
            plain = socket.create_connection((self._host, self._port), self._patience)
            try:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sock = self._tls.wrap_socket(plain, server_hostname=self._host)
            except BaseException:
                plain.close()
                raise
            self._file = self._sock.makefile("rb")
        return self._sock, self._file

    def _body(self, file: IO[bytes], status: int, headers: Mapping[str, str]) -> bytes:
        if status in (204, 304):
            return b""
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return self._chunks(file)
        length = headers.get("content-length")
        if length is None:
            whole = file.read(self._most + 1)
            self.close()
            return self._bounded(whole)
        if not length.isdigit() or int(length) > self._most:
            raise BadAnswer(f"an answer of {length[:20]} bytes")
        return _exactly(file, int(length))

    def _chunks(self, file: IO[bytes]) -> bytes:
        whole = b""
        while True:
            try:
                size = int(_line(file).partition(b";")[0], 16)
            except ValueError as error:
                raise BadAnswer("a chunk without a length") from error
            if size < 0:
                raise BadAnswer("a chunk without a length")
            if size == 0:
                while _line(file):
                    pass  # trailers
                return whole
            self._bounded(whole, size)
            whole += _exactly(file, size)
            if _line(file):
                raise BadAnswer("a chunk that does not end")

    def _bounded(self, found: bytes, more: int = 0) -> bytes:
        if len(found) + more > self._most:
            raise BadAnswer(f"an answer of more than {self._most} bytes")
        return found


def _head(file: IO[bytes]) -> tuple[int, dict[str, str]]:
    first = file.readline(LONGEST_LINE)
    if not first:
        raise ConnectionResetError("closed without an answer")
    version, _, rest = first.decode("latin-1").strip().partition(" ")
    code = rest.partition(" ")[0]
    if not version.startswith("HTTP/1.") or len(code) != 3 or not code.isdigit():
        raise BadAnswer("no HTTP")
    headers: dict[str, str] = {}
    for _ in range(MOST_HEADERS):
        line = _line(file)
        if not line:
            return int(code), headers
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    raise BadAnswer("more headers than anybody needs")


def _line(file: IO[bytes]) -> bytes:
    line = file.readline(LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise BadAnswer("an answer that ends early")
    return line.rstrip(b"\r\n")


def _exactly(file: IO[bytes], size: int) -> bytes:
    found = file.read(size)
    if len(found) < size:
        raise BadAnswer("an answer that ends early")
    return found
