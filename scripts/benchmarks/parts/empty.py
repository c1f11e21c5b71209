"""An empty loop: HTTPS that answers everything with the same bytes. What remains of our figures beside its is our work."""

from __future__ import annotations

import asyncio
import ssl
import sys

import uvloop

ANSWER = b"x" * 2000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(ANSWER)


class Empty(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._received = transport, b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, rest = self._received.partition(b"\r\n\r\n")
            lower = head.lower()
            at = lower.find(b"content-length:")
            length = int(lower[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(rest) < length:
                return
            self._received = rest[length:]
            self._transport.write(HEAD + ANSWER)  # type: ignore[attr-defined]


async def main(port: int, certificate: str, key: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.get_running_loop().create_server(Empty, "127.0.0.1", port, ssl=context)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
