"""Redfish over HTTP: one application for every address, which finds its service by the address a client connected to.

Checks come in this order: login, resource, method, privilege, body. Resources do not see HTTP; this module sees nothing of
servers.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from dataclasses import replace

import orjson
from aiohttp import hdrs, web

from rackless.bmc.core.accounts import Account, Session
from rackless.bmc.core.audit import Audit
from rackless.bmc.core.faults import Faults
from rackless.bmc.core.power import PoweredOff
from rackless.bmc.redfish import body as bodies
from rackless.bmc.redfish import query as queries
from rackless.bmc.redfish.http import BODY_BYTES, LOGIN_BYTES, read_body, reply, tags, with_standard, written
from rackless.bmc.redfish.messages import Json, Refusal, error_body, message, missing, unavailable
from rackless.bmc.redfish.resource import ROOT, Accepted, Created, Resource, ResourceRoutes, Scope
from rackless.bmc.redfish.service import Service
from rackless.bmc.redfish.sessions import WRONG_PASSWORD
from rackless.bmc.redfish.trace import Dropped, Trace, stumble
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.ports.hypervisor import NoSuchServer, Unreachable

_EXPANSIONS = 2
"""Made at once: each may hold some megabytes."""
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="Redfish"'}
_VOLATILE = {"DateTime", "@odata.etag"}

FindService = Callable[[str, int], Service | None]
"""By the address and the port that a client came to."""


class RedfishServer:
    def __init__(
        self,
        find: FindService,
        routes: ResourceRoutes,
        bus: Bus,
        *,
        faults: Faults | None = None,
        audit: Audit | None = None,
    ) -> None:
        self._find = find
        self._routes = routes
        self._bus = bus
        self._faults = faults or Faults()
        self._audit = audit
        self._expanding = asyncio.Semaphore(_EXPANSIONS)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        trace = Trace(request)
        response = await self._guarded(request, trace)
        if self._audit is not None and trace.changes:
            self._audit.record(trace.entry(response.status))
        return response

    async def _guarded(self, request: web.BaseRequest, trace: Trace) -> web.StreamResponse:
        try:
            return await self._answer(request, trace)
        except Dropped:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)
        except Refusal as refusal:
            return reply(refusal.status, error_body(refusal.messages), refusal.headers)
        except Unreachable:
            blind = unavailable()
            return reply(blind.status, error_body(blind.messages), blind.headers)
        except NoSuchServer:
            return reply(404, error_body(missing(request.path).messages))
        except ConnectionError:  # whoever asked has hung up, and hears nothing more
            return web.Response(status=400)
        except PoweredOff:
            return reply(409, error_body([message("ResourceInStandby")]))
        except OSError as error:  # what was to be kept is not
            return self._not_kept(request, error)
        except RacklessError as error:
            self._tell(request, str(error))
            return reply(500, error_body([message("InternalError", note=error.what)]))
        except Exception as error:  # the edge: a mistake of ours is an answer too, and is told
            self._tell(request, f"{type(error).__name__}: {error}")
            return reply(500, error_body([message("InternalError")]))

    def _not_kept(self, request: web.BaseRequest, error: OSError) -> web.StreamResponse:
        self._tell(request, str(error))
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return reply(507, error_body([message("InsufficientStorage")]))
        return reply(500, error_body([message("InternalError")]))

    def _tell(self, request: web.BaseRequest, why: str) -> None:
        address, _ = _local_address(request)
        self._bus.tell("redfish-failed", bmc=address, method=request.method, path=request.path, why=why)

    async def _answer(self, request: web.BaseRequest, trace: Trace) -> web.StreamResponse:
        service = self._find(*_local_address(request))
        if service is None:
            raise missing(request.path)
        if request.headers.get("OData-Version", "4.0") != "4.0":
            raise Refusal(412, message("HeaderInvalid", "OData-Version"))
        path = request.path
        if request.method == "POST":
            path = path.removesuffix("/Members")  # the members of a collection are another name of it
        found = self._routes.find(path)
        scope = Scope(
            service,
            path,
            found[1] if found else (),
            origin=request.remote or "",
            patient="respond-async" not in request.headers.get("Prefer", ""),
        )
        trace.found(scope, found[0] if found else None)
        if self._faults.any:
            await stumble(self._faults, trace)
        try:
            account, session = _who(request, service)
            trace.user = account.username
            scope = replace(scope, account=account, session=session)
        except Refusal:
            if found is None or request.method not in found[0].public:
                raise
        if found is None:
            raise missing(request.path)
        resource = found[0]
        allow = {"Allow": ", ".join(resource.methods)}
        if request.method == "OPTIONS":
            return reply(204, None, allow)
        if request.method not in resource.methods:
            raise Refusal(405, message("OperationNotAllowed"), headers=allow)
        _check_privilege(request.method, resource, scope)
        if resource.stream is not None:
            return await self._stream(request, resource.stream(scope))
        match request.method:
            case "GET" | "HEAD":
                return await self._get(request, resource, scope, allow)
            case "PATCH":
                return await self._patch(request, resource, scope, trace)
            case "POST":
                return await self._post(request, resource, scope, trace)
            case _:
                assert resource.delete is not None
                async with scope.service.conditional:
                    if request.headers.get("If-Match"):
                        self._check_match(request, resource, scope)
                    return written(await resource.delete(scope))

    # reading

    def render(self, scope: Scope, uri: str) -> Json | None:
        """Another resource of the same service, as this caller may see it."""
        found = self._routes.find(uri)
        if found is None or found[0].render is None or not uri.startswith(ROOT):
            return None
        there = replace(scope, path=uri, names=found[1])
        try:
            _check_privilege("GET", found[0], there)
            value = found[0].render(there)
            return _tagged(value) if isinstance(value, dict) else None
        except (Refusal, NoSuchServer, Unreachable):
            return None

    async def _get(
        self, request: web.BaseRequest, resource: Resource, scope: Scope, allow: dict[str, str]
    ) -> web.StreamResponse:
        assert resource.render is not None
        query = queries.read(request.query) if request.query_string else queries.NONE
        value = resource.render(scope)
        if isinstance(value, Accepted):
            return written(value)
        if resource.media_type != "application/json":
            return web.Response(
                text=value["text"], content_type=resource.media_type, charset="utf-8", headers=with_standard(allow)
            )
        if "@odata.id" in value:
            value = _tagged(value)
        headers = dict(allow)
        if tag := value.get("@odata.etag"):
            headers["ETag"] = tag
            if tag in tags(request.headers.get("If-None-Match")):
                return reply(304, None, headers)
        if kind := value.get("@odata.type"):
            schema = kind.lstrip("#").rpartition(".")[0]
            headers["Link"] = f"<http://redfish.dmtf.org/schemas/v1/{schema}.json>; rel=describedby"
        if request.query_string:
            async with self._expanding if query.expand else nullcontext():
                value = await queries.apply(query, value, request.path, lambda uri: self.render(scope, uri))
        return reply(200, value, headers)

    async def _stream(self, request: web.BaseRequest, events: AsyncIterator[Json]) -> web.StreamResponse:
        response = web.StreamResponse(headers=with_standard({"Content-Type": "text/event-stream;charset=utf-8"}))
        await anext(events)  # it has its place now, or is refused
        try:
            await response.prepare(request)
            await response.write(b": here\n\n")
            async for event in events:
                text = f"id: {event['Id']}\ndata: {json.dumps(event)}\n\n" if event else ": here\n\n"
                await response.write(text.encode())
        except ConnectionResetError:
            pass
        finally:
            await events.aclose()  # type: ignore[attr-defined]
        return response

    # writing

    async def _patch(
        self, request: web.BaseRequest, resource: Resource, scope: Scope, trace: Trace
    ) -> web.StreamResponse:
        assert resource.patch is not None and resource.render is not None
        body = trace.body = await read_body(request)
        current = _value(resource.render(scope))
        taken = bodies.read(body, bodies.shape_of(resource.writable, scope), current=current)
        if not taken.values:
            raise Refusal(400, message("NoOperation"))
        async with (
            scope.service.conditional
        ):  # also without a condition: it would come between that of another and its change
            if request.headers.get("If-Match"):
                self._check_match(request, resource, scope)
            answer = None if resource.fetches else await resource.patch(scope, taken.values)
        if resource.fetches:
            answer = await resource.patch(scope, taken.values)
        if isinstance(answer, Created | Accepted):
            return written(answer)
        value = _tagged(_value(resource.render(scope)))
        if taken.left_out:
            value["@Message.ExtendedInfo"] = list(taken.left_out)
        return reply(200, value, {"ETag": value["@odata.etag"]})

    async def _post(
        self, request: web.BaseRequest, resource: Resource, scope: Scope, trace: Trace
    ) -> web.StreamResponse:
        assert resource.post is not None
        most = LOGIN_BYTES if scope.account is None else BODY_BYTES
        body = trace.body = await read_body(request, empty=bool(resource.action), most=most)
        taken = bodies.read(body, bodies.shape_of(resource.accepts, scope), action=resource.action)
        return written(await resource.post(scope, taken.values))

    def _check_match(self, request: web.BaseRequest, resource: Resource, scope: Scope) -> None:
        wanted = tags(request.headers.get("If-Match"))
        if resource.render is None or "*" in wanted:
            return
        if _tagged(_value(resource.render(scope)))["@odata.etag"] not in wanted:
            raise Refusal(412, message("PreconditionFailed"))


def _value(rendered: Json | Accepted) -> Json:
    return rendered.body if isinstance(rendered, Accepted) else rendered


def _local_address(request: web.BaseRequest) -> tuple[str, int]:
    transport = request.transport
    name = transport.get_extra_info("sockname") if transport else None
    return (str(name[0]), int(name[1])) if name else ("", 0)


def _who(request: web.BaseRequest, service: Service) -> tuple[Account, Session | None]:
    if token := request.headers.get("X-Auth-Token"):
        found = service.accounts.by_token(token)
        if found is None:
            raise _no_session()
        return found[1], found[0]
    scheme, _, rest = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if scheme.lower() != "basic":
        raise _no_session()
    try:
        username, colon, password = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
    except ValueError:  # no base64, or none in ASCII, or no UTF-8 in it
        raise Refusal(401, message("HeaderInvalid", "Authorization"), headers=_CHALLENGE) from None
    account = service.accounts.check(username, password) if colon else None
    if account is None:
        wrong = message("ResourceAtUriUnauthorized", request.path, WRONG_PASSWORD)
        raise Refusal(401, wrong, headers=_CHALLENGE)
    return account, None


def _no_session() -> Refusal:
    return Refusal(401, message("NoValidSession"), headers=_CHALLENGE)


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


def _tagged(value: Json) -> Json:
    """With an ETag of what is said, time of day apart."""
    kept = {key: item for key, item in value.items() if key not in _VOLATILE}
    digest = hashlib.blake2b(orjson.dumps(kept), digest_size=12).hexdigest()
    return {**value, "@odata.etag": f'"{digest}"'}
