"""The wire: connections, bodies in, replies out, with the headers Redfish wants on every one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from aiohttp import hdrs, web
from aiohttp.http_exceptions import BadHttpMethod

from rackless.bmc.redfish.messages import Json, Refusal, error_body
from rackless.bmc.redfish.messages import message as base_message
from rackless.bmc.redfish.resource import Accepted, Created
from rackless.run.pieces import ConnectionInPieces

BODY_BYTES = 64 * 1024
"""Of a request's body; that of a whole BIOS with 1000 attributes is less."""
LOGIN_BYTES = 4 * 1024
"""Bytes of the body of a request without authentication, such as a login."""
BODY_SECONDS = 20.0
_LINGER_SECONDS = 1.0
"""Seconds for which an unwanted body is still read, so that its sender gets the answer."""
_HEADERS = 64


class HttpServer(web.Server):
    """Connections whose errors are told in Redfish's words too.

    Bodies are taken as they come: inflating one would be work for somebody who may not have logged in.
    """

    def __init__(self, answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        super().__init__(
            answer, access_log=None, auto_decompress=False, lingering_time=_LINGER_SECONDS, max_headers=_HEADERS
        )

    def connection(self) -> HttpConnection:
        return HttpConnection(self, loop=self._loop, **self._kwargs)

    __call__ = connection


class HttpConnection(ConnectionInPieces):
    """One client's connection, and since when it keeps us waiting. `doors` decides how long it may."""

    __slots__ = ("ended", "half_since", "line", "paused_since", "served")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.line: asyncio.Transport | None = None
        self.ended: Callable[[], None] = lambda: None
        self.half_since: float | None = None
        """When the first bytes of a request came whose head is not complete yet."""
        self.paused_since: float | None = None
        """When the client stopped to take what we have for it."""
        self.served = False
        """It has sent a whole request's head before."""

    @property
    def waits(self) -> bool:
        """For the next request, or for the rest of its head."""
        return self._waiter is not None and not self._waiter.done()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.line = transport
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.line = None
        self.ended()

    def take(self, data: bytes) -> None:
        super().take(data)
        waiter = self._waiter
        if waiter is None or waiter.done():
            self.half_since, self.served = None, True
        elif self.half_since is None:
            self.half_since = self._loop.time()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.paused_since = self._loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.paused_since = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is no HTTP, or HTTP with a method nobody knows; it never reaches a resource."""
        unknown = isinstance(exc, BadHttpMethod)
        key = "OperationNotAllowed" if unknown else "UnrecognizedRequestBody" if status < 500 else "InternalError"
        response = reply(501 if unknown else status, error_body([base_message(key)]), {"Connection": "close"})
        response.force_close()
        return response


async def read_body(request: web.BaseRequest, *, empty: bool = False, most: int = BODY_BYTES) -> object:
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise Refusal(415, base_message("HeaderInvalid", "Content-Encoding"))
    if (request.content_length or 0) > most:
        raise Refusal(413, base_message("PayloadTooLarge"))
    try:
        async with asyncio.timeout(BODY_SECONDS):
            text = await _read(request, most)
    except TimeoutError:
        raise Refusal(408, base_message("UnrecognizedRequestBody"), headers={"Connection": "close"}) from None
    if not text.strip():
        if empty:
            return {}
        raise Refusal(400, base_message("MalformedJSON"))
    if request.content_type not in ("application/json", "application/octet-stream"):
        raise Refusal(415, base_message("HeaderInvalid", "Content-Type"))
    try:
        return orjson.loads(text)  # strict: no NaN, no half of a character, no endless depth
    except ValueError:
        raise Refusal(400, base_message("MalformedJSON")) from None


async def _read(request: web.BaseRequest, most: int) -> bytes:
    text = b""
    async for chunk in request.content.iter_any():
        text += chunk
        if len(text) > most:
            raise Refusal(413, base_message("PayloadTooLarge"))
    return text


def tags(header: str | None) -> set[str]:
    return {tag.strip().removeprefix("W/") for tag in (header or "").split(",") if tag.strip()}


def written(answer: Created | Accepted | Json | None) -> web.StreamResponse:
    if isinstance(answer, Created):
        return reply(201, answer.body, {"Location": answer.uri, **answer.headers})
    if isinstance(answer, Accepted):
        return reply(202, answer.body, {"Location": answer.monitor})
    return reply(204, None) if answer is None else reply(200, answer)


def with_standard(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    return {"OData-Version": "4.0", "Cache-Control": "no-store", **(extra or {})}


def reply(status: int, value: Any, headers: Mapping[str, str] | None = None) -> web.Response:
    if value is None:
        return web.Response(status=status, headers=with_standard(headers))
    return web.Response(
        status=status, body=orjson.dumps(value), content_type="application/json", charset="utf-8",
        headers=with_standard(headers),
    )  # fmt: skip
