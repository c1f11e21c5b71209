"""Calls of etcd over gRPC: one connection to one member, plain or with TLS on both sides. Knows no messages."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from grpclib.client import Channel, StreamStreamMethod, UnaryUnaryMethod
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

from rackless.errors import InputError

_QUIET = 15.0
"""Seconds of silence after which a watch is asked whether it still is one. What ends tells so itself; this finds a member whose
machine has gone. Every question costs: most watches are of an idle cluster."""
_FAILURES = (OSError, StreamTerminatedError, ProtocolError, TimeoutError)
_TEMPORARY = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")


class Unanswered(Exception):
    """No answer came. `sent` says whether the request may have been received."""

    def __init__(self, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


class RefusedByEtcd(Exception):
    """An answer that says no."""


@dataclass(frozen=True, slots=True)
class EtcdCredentials:
    """Client certificate, key and CA for etcd."""

    ca: Path
    certificate: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=str(self.ca))
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise InputError(
                "the files for etcd's TLS cannot be used",
                why=str(error),
                hint="see --store-ca, --store-cert, --store-key",
            ) from error
        context.set_alpn_protocols(["h2"])
        return context


class _Bytes(CodecBase):
    """Messages are bytes already."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> bytes:
        return bytes(data)


class EtcdConnection:
    """One member of etcd; the connection is made when it is needed, and again after it broke."""

    def __init__(self, url: str, credentials: EtcdCredentials | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{url!r} is no address of etcd", hint="say etcd:https://ADDRESS:2379")
        if parts.scheme == "https" and credentials is None:
            raise InputError(
                f"{url} needs to know whom to believe", hint="give --store-ca, --store-cert and --store-key"
            )
        self.name = f"{parts.hostname}:{parts.port or 2379}"
        secure = credentials.context() if credentials and parts.scheme == "https" else None
        self._channel = Channel(parts.hostname, parts.port or 2379, ssl=secure, codec=_Bytes())

    async def ask(self, method: str, message: bytes, within: float) -> bytes:
        """The answer to one message; raises Unanswered or RefusedByEtcd."""
        call = UnaryUnaryMethod[bytes, bytes](self._channel, f"/etcdserverpb.{method}", bytes, bytes)
        sent = False
        try:
            async with asyncio.timeout(within), call.open() as stream:
                await stream.send_request()
                sent = True
                await stream.send_message(message, end=True)
                answer = await stream.recv_message()
                await stream.recv_trailing_metadata()
        except GRPCError as error:
            raise self._failure(error) from error
        except _FAILURES as error:
            raise Unanswered(f"{self.name}: {error!r}", sent=sent) from error
        if answer is None:
            raise Unanswered(f"{self.name}: an empty answer", sent=True)
        return answer

    def _failure(self, error: GRPCError) -> Exception:
        why = error.message or error.status.name
        if error.status.name in _TEMPORARY:
            return Unanswered(f"{self.name}: {why}", sent=True)
        return RefusedByEtcd(why)

    async def follow(self, method: str, message: bytes, nudge: bytes, within: float) -> AsyncGenerator[bytes, None]:
        """What comes in answer to a message, without end. When nothing comes for a while, the other side is nudged:
        who stays silent then is gone.
        """
        call = StreamStreamMethod[bytes, bytes](self._channel, f"/etcdserverpb.{method}", bytes, bytes)
        receiving: asyncio.Task[bytes | None] | None = None
        try:
            async with call.open() as stream:
                async with asyncio.timeout(within):
                    await stream.send_message(message)
                nudged = False
                while True:
                    receiving = receiving or asyncio.create_task(stream.recv_message())
                    await asyncio.wait([receiving], timeout=within if nudged else _QUIET)
                    if receiving.done():
                        answer, receiving, nudged = receiving.result(), None, False
                        if answer is None:
                            raise Unanswered(f"{self.name}: the stream has ended", sent=True)
                        yield answer
                    elif nudged:
                        raise Unanswered(f"{self.name}: silent for {within:.0f} seconds", sent=True)
                    else:
                        nudged = True
                        async with asyncio.timeout(within):
                            await stream.send_message(nudge)
        except GRPCError as error:
            raise Unanswered(f"{self.name}: {error.message or error.status.name}", sent=True) from error
        except _FAILURES as error:
            raise Unanswered(f"{self.name}: {error!r}", sent=True) from error
        finally:
            if receiving:
                receiving.cancel()
                await asyncio.gather(receiving, return_exceptions=True)

    def close(self) -> None:
        self._channel.close()
