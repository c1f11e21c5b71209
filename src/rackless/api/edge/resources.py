"""Requests on resources: authorization, the operation they mean, and the module that answers them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from aiohttp import web

from rackless.api import status
from rackless.api.access import nodes
from rackless.api.access.attributes import Attributes
from rackless.api.access.authentication import Tokens
from rackless.api.access.escalation import Guard
from rackless.api.access.rbac import Authorizer, refusal
from rackless.api.edge import deleting, respond, subresources, writing
from rackless.api.edge.call import ResourceCall
from rackless.api.edge.reading import list_objects
from rackless.api.edge.request import Path, Query, parse_accept, selected_name
from rackless.api.edge.reviews import review
from rackless.api.edge.stream import WatchStream
from rackless.api.kinds.kind import Caller, Kind
from rackless.api.metrics import RequestSubject
from rackless.api.objects.operations import Objects
from rackless.api.offload import Offload

_OFFERED = ("application/json", "application/yaml")
_OF_COLLECTIONS = ("create", "deletecollection", "list", "watch")


class ResourceRequests:
    def __init__(self, objects: Objects, authorizer: Authorizer, tokens: Tokens) -> None:
        self._objects = objects
        self._authorizer = authorizer
        self._tokens = tokens
        self._guard = Guard(authorizer, objects.offload.on_loop)

    @property
    def offload(self) -> Offload:
        return self._objects.offload

    async def serve(
        self, request: web.BaseRequest, path: Path, caller: Caller, entered: Callable[[RequestSubject], None]
    ) -> web.StreamResponse:
        """`entered` hears what is asked when that is known and allowed."""
        query = Query(request.query_string)
        found = self._objects.registry.find(path.group, path.version, path.plural)
        verb = _verb(request.method, path, query)
        asked = Attributes(verb, path.group, path.plural, path.subresource, path.namespace, path.name)
        if path.plural == "namespaces" and not path.group and path.name:
            asked = Attributes(verb, "", path.plural, path.subresource, path.name, path.name)
        elif verb in ("list", "watch"):
            asked = replace(asked, name=selected_name(query.text("fieldSelector")))
        if not self._authorizer.allows(caller, asked):
            raise status.forbidden(path.plural, path.group, path.name, refusal(caller, asked))
        nodes.check_request(caller, asked)
        if found is None:
            raise status.no_such_resource()
        kind, version = found
        entered(RequestSubject(verb, path.group, path.version, path.plural, _known(path.subresource)))
        form = parse_accept(request.headers.get("Accept", ""))
        if form is None:
            raise status.not_acceptable(_OFFERED)
        _check_scope(kind, path, request.method)
        call = ResourceCall(request, path, query, kind, version, form, caller, self._guard, self._objects.offload)
        response = await (self._subresource(call) if path.subresource else self._whole(call, verb))
        if version.warning and not response.prepared:
            response.headers.add("Warning", f'299 - "{version.warning}"')
        return response

    async def _whole(self, call: ResourceCall, verb: str) -> web.StreamResponse:
        # A name in the path was part of what was allowed; it must be that of the object, which a body can contradict.
        if verb not in call.kind.verbs or bool(call.path.name) is (verb in _OF_COLLECTIONS):
            raise status.method_not_allowed()
        match verb:
            case "get":
                return await self._get(call, call.query.text("resourceVersion"))
            case "list":
                return await list_objects(self._objects, call)
            case "watch":
                stream = WatchStream(self._objects, call.kind, call.version, call.filter(), call.query, call.form.shape)
                return await stream.serve(call.request)
            case "create" if call.kind.verbs == ("create",):
                answer = review(
                    call.kind, call.path.namespace, await call.value(), call.caller, self._authorizer, self._tokens
                )
                return respond.json(answer, 201)
            case "create":
                return await writing.create(self._objects, call)
            case "update":
                return await writing.update(self._objects, call)
            case "patch":
                return await writing.patch(self._objects, call)
            case "delete":
                return await deleting.delete(self._objects, call)
            case "deletecollection":
                return await deleting.delete_collection(self._objects, call)
        raise status.method_not_allowed()

    async def _get(self, call: ResourceCall, revision: str = "") -> web.Response:
        entry = await self._objects.get(call.target, revision)
        return await call.answer(self._objects.shown(call.kind, call.version, entry.data))

    async def _subresource(self, call: ResourceCall) -> web.StreamResponse:
        name = call.path.subresource
        if name == "scale" and call.version.scale:
            return await subresources.scale(self._objects, call)
        if name == "token" and name in call.kind.extra_subresources:
            return await subresources.token(self._objects, call, self._tokens)
        if not ((name == "status" and call.version.status) or name in call.kind.extra_subresources):
            raise status.no_such_resource()
        match call.request.method:
            case "GET" | "HEAD":
                return await self._get(call)
            case "PUT":
                return await writing.update(self._objects, call)
            case "PATCH":
                return await writing.patch(self._objects, call)
        raise status.method_not_allowed()


def _known(subresource: str) -> str:
    """A subresource as a label: only those there can be, whatever a client writes."""
    return subresource if subresource in ("", "status", "scale", "token", "approval", "finalize") else "other"


def _check_scope(kind: Kind, path: Path, method: str) -> None:
    if path.namespace and not kind.namespaced:
        raise status.no_such_resource()
    if kind.namespaced and not path.namespace and (path.name or method != "GET"):
        raise status.method_not_allowed() if method == "POST" and not path.name else status.no_such_resource()


def _verb(method: str, path: Path, query: Query) -> str:
    match method:
        case "GET" | "HEAD":
            if path.name:
                return "get"
            return "watch" if query.flag("watch") and method == "GET" else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
        case "DELETE":
            return "delete" if path.name else "deletecollection"
    raise status.method_not_allowed()
