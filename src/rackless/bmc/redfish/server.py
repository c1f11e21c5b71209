"""Redfish over HTTP: one application for every address, which finds its service by the address a client came to.

The order of questions is: who are you, is there such a thing, may this be done to it, may you do it, is it well asked.
Resources do not see HTTP; this module sees nothing of servers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aiohttp import hdrs, web

from rackless.bmc.accounts import Account, Session
from rackless.bmc.chassis import PoweredOff
from rackless.bmc.redfish import body as bodies
from rackless.bmc.redfish import query as queries
from rackless.bmc.redfish.messages import Json, Refusal, error_body, message, missing, unavailable
from rackless.bmc.redfish.resource import ROOT, Accepted, Created, Resource, Routes, Scope
from rackless.bmc.redfish.service import Service
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.ports.hypervisor import NoSuchServer, Unreachable

_VOLATILE = {"DateTime", "@odata.etag"}
_BODY_BYTES = 256 * 1024

FindService = Callable[[str], Service | None]


class RedfishServer:
    def __init__(self, find: FindService, routes: Routes, bus: Bus) -> None:
        self._find = find
        self._routes = routes
        self._bus = bus

    def application(self) -> web.Application:
        application = web.Application(client_max_size=_BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self.answer)
        return application

    async def answer(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except Refusal as refusal:
            return _reply(refusal.status, error_body(refusal.messages), refusal.headers)
        except Unreachable:
            blind = unavailable()
            return _reply(blind.status, error_body(blind.messages), blind.headers)
        except NoSuchServer:
            return _reply(404, error_body(missing(request.path).messages))
        except PoweredOff:
            return _reply(409, error_body([message("ResourceInStandby")]))
        except RacklessError as error:
            self._bus.warn(f"{request.method} {request.path}: {error}")
            return _reply(500, error_body([message("InternalError", note=error.what)]))
        except web.HTTPException:
            raise
        except Exception as error:  # the edge: a mistake of ours is an answer too, and is told
            self._bus.warn(f"{request.method} {request.path}: {type(error).__name__}: {error}")
            return _reply(500, error_body([message("InternalError")]))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        service = self._find(_local_address(request))
        if service is None:
            raise missing(request.path)
        if request.headers.get("OData-Version", "4.0") != "4.0":
            raise Refusal(412, message("HeaderInvalid", "OData-Version"))
        found = self._routes.find(request.path)
        scope = Scope(service, request.path, found[1] if found else (), origin=request.remote or "")
        try:
            account, session = _who(request, service)
            scope = replace(scope, account=account, session=session)
        except Refusal:
            if found is None or request.method not in found[0].public:
                raise
        if found is None:
            raise missing(request.path)
        resource = found[0]
        allow = {"Allow": ", ".join(resource.methods)}
        if request.method == "OPTIONS":
            return _reply(204, None, allow)
        if request.method not in resource.methods:
            raise Refusal(405, message("OperationNotAllowed"), headers=allow)
        _check_privilege(request.method, resource, scope)
        match request.method:
            case "GET" | "HEAD":
                return self._get(request, resource, scope, allow)
            case "PATCH":
                return await self._patch(request, resource, scope)
            case "POST":
                return await self._post(request, resource, scope)
            case _:
                assert resource.delete is not None
                if request.headers.get("If-Match"):
                    self._check_match(request, resource, scope)
                return _written(await resource.delete(scope))

    # reading

    def render(self, scope: Scope, uri: str) -> Json | None:
        """Another resource of the same service, as this caller may see it."""
        found = self._routes.find(uri)
        if found is None or found[0].render is None or not uri.startswith(ROOT):
            return None
        there = replace(scope, path=uri, names=found[1])
        try:
            _check_privilege("GET", found[0], there)
            return _tagged(found[0].render(there))
        except (Refusal, NoSuchServer, Unreachable):
            return None

    def _get(self, request: web.Request, resource: Resource, scope: Scope, allow: dict[str, str]) -> web.StreamResponse:
        assert resource.render is not None
        query = queries.read(request.query)
        value = resource.render(scope)
        if resource.media_type != "application/json":
            return web.Response(
                text=value["text"], content_type=resource.media_type, charset="utf-8", headers=_headers(allow)
            )
        value = _tagged(value)
        headers = dict(allow)
        if tag := value.get("@odata.etag"):
            headers["ETag"] = tag
            if tag in _tags(request.headers.get("If-None-Match")):
                return _reply(304, None, headers)
        if kind := value.get("@odata.type"):
            schema = kind.lstrip("#").rpartition(".")[0]
            headers["Link"] = f"<http://redfish.dmtf.org/schemas/v1/{schema}.json>; rel=describedby"
        value = queries.apply(query, value, request.path, lambda uri: self.render(scope, uri))
        return _reply(200, value, headers)

    # writing

    async def _patch(self, request: web.Request, resource: Resource, scope: Scope) -> web.StreamResponse:
        assert resource.patch is not None and resource.render is not None
        body = await _body(request)
        current = resource.render(scope)
        taken = bodies.read(body, bodies.shape_of(resource.writable, scope), current=current)
        if not taken.values:
            raise Refusal(400, message("NoOperation"))
        if request.headers.get("If-Match"):
            async with scope.service.conditional:
                self._check_match(request, resource, scope)
                answer = await resource.patch(scope, taken.values)
        else:
            answer = await resource.patch(scope, taken.values)
        if isinstance(answer, Created | Accepted):
            return _written(answer)
        value = _tagged(resource.render(scope))
        if taken.left_out:
            value["@Message.ExtendedInfo"] = list(taken.left_out)
        return _reply(200, value, {"ETag": value["@odata.etag"]})

    async def _post(self, request: web.Request, resource: Resource, scope: Scope) -> web.StreamResponse:
        assert resource.post is not None
        body = await _body(request, empty=bool(resource.action))
        taken = bodies.read(body, bodies.shape_of(resource.accepts, scope), action=resource.action)
        return _written(await resource.post(scope, taken.values))

    def _check_match(self, request: web.Request, resource: Resource, scope: Scope) -> None:
        wanted = _tags(request.headers.get("If-Match"))
        if resource.render is None or "*" in wanted:
            return
        if _tagged(resource.render(scope))["@odata.etag"] not in wanted:
            raise Refusal(412, message("PreconditionFailed"))


def _local_address(request: web.Request) -> str:
    transport = request.transport
    name = transport.get_extra_info("sockname") if transport else None
    return str(name[0]) if name else ""


def _who(request: web.Request, service: Service) -> tuple[Account, Session | None]:
    refused = Refusal(401, message("NoValidSession"), headers={"WWW-Authenticate": 'Basic realm="Redfish"'})
    if token := request.headers.get("X-Auth-Token"):
        found = service.accounts.by_token(token)
        if found is None:
            raise refused
        return found[1], found[0]
    scheme, _, rest = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if scheme.lower() != "basic":
        raise refused
    try:
        username, colon, password = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise refused from None
    account = service.accounts.check(username, password) if colon else None
    if account is None:
        raise refused
    return account, None


def _check_privilege(method: str, resource: Resource, scope: Scope) -> None:
    if method in resource.public:
        return
    if scope.account is None:
        raise Refusal(401, message("NoValidSession"))
    needed = resource.read_privilege if method in ("GET", "HEAD") else resource.privilege
    held = scope.account.privileges
    if needed in held or ("ConfigureSelf" in held and resource.own is not None and resource.own(scope)):
        return
    raise Refusal(403, message("InsufficientPrivilege"))


async def _body(request: web.Request, *, empty: bool = False) -> object:
    try:
        text = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise Refusal(413, message("UnrecognizedRequestBody")) from None
    if not text.strip():
        if empty:
            return {}
        raise Refusal(400, message("MalformedJSON"))
    if request.content_type not in ("application/json", "application/octet-stream"):
        raise Refusal(415, message("HeaderInvalid", "Content-Type"))
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Refusal(400, message("MalformedJSON")) from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _tagged(value: Json) -> Json:
    """With an ETag of what is said, time of day apart."""
    kept = {key: item for key, item in value.items() if key not in _VOLATILE}
    digest = hashlib.blake2b(json.dumps(kept, sort_keys=True).encode(), digest_size=12).hexdigest()
    return {**value, "@odata.etag": f'"{digest}"'}


def _tags(header: str | None) -> set[str]:
    return {tag.strip().removeprefix("W/") for tag in (header or "").split(",") if tag.strip()}


def _written(answer: Created | Accepted | Json | None) -> web.StreamResponse:
    if isinstance(answer, Created):
        return _reply(201, answer.body, {"Location": answer.uri, **answer.headers})
    if isinstance(answer, Accepted):
        return _reply(202, answer.body, {"Location": answer.monitor})
    return _reply(204, None) if answer is None else _reply(200, answer)


def _headers(extra: dict[str, str] | None = None) -> dict[str, str]:
    return {"OData-Version": "4.0", "Cache-Control": "no-store", **(extra or {})}


def _reply(status: int, value: Any, headers: dict[str, str] | None = None) -> web.Response:
    if value is None:
        return web.Response(status=status, headers=_headers(headers))
    return web.Response(
        status=status, body=json.dumps(value).encode(), content_type="application/json", charset="utf-8",
        headers=_headers(headers),
    )  # fmt: skip
