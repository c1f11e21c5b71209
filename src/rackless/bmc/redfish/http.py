"""The wire: connections, bodies in, replies out, with the headers Redfish wants on every one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod
from aiohttp.web_protocol import RequestHandler

from rackless.bmc.redfish.messages import Json, Refusal, error_body
from rackless.bmc.redfish.messages import message as base_message
from rackless.bmc.redfish.resource import Accepted, Created

_BODY_BYTES = 256 * 1024


class HttpServer(web.Server):
    """Connections whose errors are told in Redfish's words too."""

    def __init__(self, answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        super().__init__(answer, access_log=None)

    def __call__(self) -> RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(RequestHandler):
    __slots__ = ()

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


async def read_body(request: web.BaseRequest, *, empty: bool = False) -> object:
    text = b""
    async for chunk in request.content.iter_any():
        text += chunk
        if len(text) > _BODY_BYTES:
            raise Refusal(413, base_message("UnrecognizedRequestBody"))
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
