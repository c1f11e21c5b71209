"""The verbs of HTTP on resources: which operation a request is, and the response to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from rackless.api import status
from rackless.api.access.authentication import Tokens
from rackless.api.access.escalation import Guard
from rackless.api.access.rbac import Attributes, Authorizer, refusal
from rackless.api.core import Context
from rackless.api.edge import respond
from rackless.api.edge.body import LIMIT, content_type, duplicate_fields, parse, parse_json
from rackless.api.edge.request import Form, Path, Query, parse_accept
from rackless.api.edge.reviews import review
from rackless.api.edge.scale import read_scale, write_scale
from rackless.api.edge.stream import Stream
from rackless.api.encoding import decode, encode
from rackless.api.kinds.kind import Caller, Kind, Version
from rackless.api.operations import Objects, Target, now
from rackless.api.patches import json_patch, strategic
from rackless.api.patches import merge as merge_patch
from rackless.api.schema.metadata import OBJECT_META
from rackless.api.selectors import parse_fields, parse_labels
from rackless.api.status import Json, bad_request
from rackless.api.watching import Filter

_APPLY = "application/apply-patch+yaml"
_PATCHES = (
    "application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
)  # fmt: skip
_OFFERED = ("application/json", "application/yaml")


class Resources:
    def __init__(self, objects: Objects, authorizer: Authorizer, tokens: Tokens) -> None:
        self._objects = objects
        self._authorizer = authorizer
        self._tokens = tokens
        self._guard = Guard(authorizer)

    # -- the way in ----------------------------------------------------------------------------------------------

    async def serve(self, request: web.BaseRequest, path: Path, caller: Caller) -> web.StreamResponse:
        query = Query(request.query_string)
        found = self._objects.registry.find(path.group, path.version, path.plural)
        verb = _verb(request.method, path, query)
        asked = Attributes(verb, path.group, path.plural, path.subresource, path.namespace, path.name)
        if path.plural == "namespaces" and not path.group and path.name:
            asked = Attributes(verb, "", path.plural, path.subresource, path.name, path.name)
        if not self._authorizer.allows(caller, asked):
            raise status.forbidden(path.plural, path.group, path.name, refusal(caller, asked))
        if found is None:
            raise status.no_such_resource()
        kind, version = found
        form = parse_accept(request.headers.get("Accept", ""))
        if form is None:
            raise status.not_acceptable(_OFFERED)
        self._check_scope(kind, path, request.method)
        response = await self._dispatch(request, path, query, kind, version, form, caller, verb)
        if version.warning and not response.prepared:
            response.headers.add("Warning", f'299 - "{version.warning}"')
        return response

    def _check_scope(self, kind: Kind, path: Path, method: str) -> None:
        if path.namespace and not kind.namespaced:
            raise status.no_such_resource()
        if kind.namespaced and not path.namespace and (path.name or method != "GET"):
            raise status.method_not_allowed() if method == "POST" and not path.name else status.no_such_resource()

    async def _dispatch(
        self, request: web.BaseRequest, path: Path, query: Query, kind: Kind, version: Version, form: Form,
        caller: Caller,
        verb: str,
    ) -> web.StreamResponse:  # fmt: skip
        if path.subresource:
            return await self._subresource(request, path, query, kind, version, form, caller)
        if verb not in kind.verbs:
            raise status.method_not_allowed()
        target = Target(kind, version, path.namespace, path.name)
        match verb:
            case "get":
                entry = await self._objects.get(target, query.text("resourceVersion"))
                return self._one(kind, version, self._objects.shown(kind, version, entry.data), form, query)
            case "list":
                return await self._list(request, path, query, kind, version, form)
            case "watch":
                wanted = self._filter(path, query, kind)
                return await Stream(self._objects, kind, version, wanted, query, form.shape).serve(request)
            case "create":
                return await self._create(request, path, query, kind, version, form, caller)
            case "update":
                return await self._update(request, target, query, form, caller)
            case "patch":
                return await self._patch(request, target, query, form, caller)
            case "delete":
                return await self._delete(request, target, query, form, caller)
            case "deletecollection":
                return await self._delete_collection(request, path, query, kind, version, caller)
        raise status.method_not_allowed()

    def _one(
        self, kind: Kind, version: Version, data: bytes, form: Form, query: Query, code: int = 200,
        warnings: list[str] | None = None,
    ) -> web.Response:  # fmt: skip
        body = respond.one(kind, version, data, form.shape, query.text("includeObject"))
        if form.yaml:
            import yaml

            return respond.answer(yaml.safe_dump(decode(body)).encode(), code, warnings or (), "application/yaml")
        return respond.answer(body, code, warnings or ())

    async def _body(self, request: web.BaseRequest) -> bytes:
        if (request.content_length or 0) > LIMIT:
            raise status.too_large(LIMIT)
        raw = await request.content.read(LIMIT + 1) if request.content_length else await _all_of(request)
        while len(raw) <= LIMIT and not request.content.at_eof():
            more = await request.content.readany()
            if not more:
                break
            raw += more
        if len(raw) > LIMIT:
            raise status.too_large(LIMIT)
        return raw

    def _context(self, query: Query, caller: Caller, raw: bytes = b"", manager: str = "unknown") -> Context:
        asked = query.one_of("fieldValidation", ("Strict", "Warn", "Ignore"))
        context = Context(caller, now(), asked or "Warn", guard=self._guard)  # type: ignore[arg-type]
        context.manager = query.text("fieldManager") or manager
        if asked in ("Strict", "Warn") and raw:
            context.duplicates = duplicate_fields(raw)
        return context

    # -- reading many --------------------------------------------------------------------------------------------

    def _filter(self, path: Path, query: Query, kind: Kind) -> Filter:
        fields = parse_fields(query.text("fieldSelector"), kind.field_names, kind.fields)
        return Filter(path.namespace, parse_labels(query.text("labelSelector")), fields)

    async def _list(
        self, request: web.BaseRequest, path: Path, query: Query, kind: Kind, version: Version, form: Form
    ) -> web.StreamResponse:
        match_rule = query.one_of("resourceVersionMatch", ("Exact", "NotOlderThan"))
        revision, token, limit = query.text("resourceVersion"), query.text("continue"), query.number("limit") or 0
        if match_rule and not revision:
            raise bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
        if match_rule == "Exact" and (revision == "0" or not revision.isdigit()):
            raise bad_request('resourceVersionMatch "Exact" is forbidden for resourceVersion "0"')
        if token and revision not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        if limit < 0:
            raise bad_request("limit must not be negative")
        page = await self._objects.page(
            kind, self._filter(path, query, kind), limit=limit, token=token, revision=revision, match=match_rule
        )
        metadata = respond.list_metadata(page.revision, page.token, page.remaining)
        plain = kind.from_stored is None and version is kind.storage
        items = (entry.data if plain else self._objects.shown(kind, version, entry.data) for entry in page.entries)
        pieces = respond.many(kind, version, items, metadata, form.shape, query.text("includeObject"))
        if len(page.entries) < 200 or form.shape == "Table":
            return respond.answer(b"".join(pieces))
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        response.content_length = None
        response.enable_chunked_encoding()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        await response.write_eof()
        return response

    # -- writing -------------------------------------------------------------------------------------------------

    async def _create(
        self,
        request: web.BaseRequest,
        path: Path,
        query: Query,
        kind: Kind,
        version: Version,
        form: Form,
        caller: Caller,
    ) -> web.Response:
        raw = await self._body(request)
        body = parse(raw, content_type(request.headers.get("Content-Type", "")))
        context = self._context(query, caller, raw, _manager(request))
        if kind.verbs == ("create",):
            return respond.json(review(kind, body, caller, self._authorizer, self._tokens), 201)
        data = await self._objects.create(kind, version, path.namespace, body, context, dry=query.dry)
        return self._one(kind, version, data, form, query, 201, context.warnings)

    async def _update(
        self, request: web.BaseRequest, target: Target, query: Query, form: Form, caller: Caller
    ) -> web.Response:
        raw = await self._body(request)
        body = parse(raw, content_type(request.headers.get("Content-Type", "")))
        context = self._context(query, caller, raw, _manager(request))
        data, created = await self._objects.update(target, body, context, dry=query.dry)
        return self._one(target.kind, target.version, data, form, query, 201 if created else 200, context.warnings)

    async def _patch(
        self, request: web.BaseRequest, target: Target, query: Query, form: Form, caller: Caller
    ) -> web.Response:
        raw = await self._body(request)
        media = content_type(request.headers.get("Content-Type", ""))
        context = self._context(query, caller, raw, _manager(request))
        if media == _APPLY:
            return await self._apply(raw, target, query, form, context)
        data = await self._objects.patch(
            target, patcher(media, raw, target.kind, target.version), context, dry=query.dry
        )
        return self._one(target.kind, target.version, data, form, query, 200, context.warnings)

    async def _apply(self, raw: bytes, target: Target, query: Query, form: Form, context: Context) -> web.Response:
        if not query.text("fieldManager"):
            missing = status.required("fieldManager", "is required for apply patch")
            raise status.invalid("PatchOptions", "meta.k8s.io", "", [missing])
        data, created = await self._objects.apply(
            target, parse(raw, "application/yaml"), context, force=query.flag("force"), dry=query.dry
        )
        return self._one(target.kind, target.version, data, form, query, 201 if created else 200, context.warnings)

    async def _delete_options(self, request: web.BaseRequest, query: Query) -> Json:
        raw = await self._body(request)
        options = parse(raw, content_type(request.headers.get("Content-Type", ""))) if raw.strip() else {}
        if not isinstance(options, dict) or not isinstance(options.get("preconditions") or {}, dict):
            raise bad_request("the body of a deletion must be DeleteOptions")
        if query.text("propagationPolicy"):
            options["propagationPolicy"] = query.text("propagationPolicy")
        if query.text("dryRun"):
            options["dryRun"] = [query.text("dryRun")]
        orphan = options.get("orphanDependents")
        policy = options.get("propagationPolicy") or ("Orphan" if orphan else "Background" if orphan is False else "")
        if policy not in ("", "Orphan", "Background", "Foreground"):
            raise bad_request(
                f'propagationPolicy: Unsupported value: "{policy}": supported values: '
                '"Background", "Foreground", "Orphan"'
            )
        grace = (
            query.number("gracePeriodSeconds")
            if query.text("gracePeriodSeconds")
            else options.get("gracePeriodSeconds")
        )
        if options.get("dryRun") not in (None, [], ["All"]):
            raise bad_request('dryRun: Unsupported value: supported values: "All"')
        return {
            "propagation": policy, "grace": grace if isinstance(grace, int) else None,
            "preconditions": options.get("preconditions"), "dry": bool(options.get("dryRun")),
        }  # fmt: skip

    async def _delete(
        self, request: web.BaseRequest, target: Target, query: Query, form: Form, caller: Caller
    ) -> web.Response:
        options = await self._delete_options(request, query)
        data, outcome = await self._objects.delete(target, self._context(query, caller), **options)
        if outcome.removed:
            uid = outcome.obj["metadata"]["uid"]
            return respond.json(status.success(target.name, target.kind.group, target.kind.plural, uid))
        return self._one(
            target.kind, target.version, data, form, query, 202 if options["propagation"] == "Foreground" else 200
        )

    async def _delete_collection(
        self, request: web.BaseRequest, path: Path, query: Query, kind: Kind, version: Version, caller: Caller
    ) -> web.StreamResponse:
        options = await self._delete_options(request, query)
        page = await self._objects.page(kind, self._filter(path, query, kind))
        context = self._context(query, caller)
        removed = []
        for entry in page.entries:
            _, _, namespace, name = entry.key.split("/", 3)
            try:
                data, _ = await self._objects.delete(Target(kind, version, namespace, name), context, **options)
            except status.Refused as error:
                if error.code != 404:
                    raise
                continue
            removed.append(data)
        metadata = respond.list_metadata(self._objects.store.revision, "", None)
        return respond.answer(b"".join(respond.many(kind, version, removed, metadata, "object", "")))

    # -- subresources --------------------------------------------------------------------------------------------

    async def _subresource(
        self,
        request: web.BaseRequest,
        path: Path,
        query: Query,
        kind: Kind,
        version: Version,
        form: Form,
        caller: Caller,
    ) -> web.StreamResponse:
        name, method = path.subresource, request.method
        target = Target(kind, version, path.namespace, path.name, name)
        if name == "scale" and version.scale:
            return await self._scale(request, target, query, caller)
        if name == "token" and name in kind.extra_subresources:
            if method != "POST":
                raise status.method_not_allowed()
            return await self._token(request, target)
        if not ((name == "status" and version.status) or name in kind.extra_subresources):
            raise status.no_such_resource()
        match method:
            case "GET" | "HEAD":
                entry = await self._objects.get(target)
                return self._one(kind, version, self._objects.shown(kind, version, entry.data), form, query)
            case "PUT":
                return await self._update(request, target, query, form, caller)
            case "PATCH":
                return await self._patch(request, target, query, form, caller)
        raise status.method_not_allowed()

    async def _scale(self, request: web.BaseRequest, target: Target, query: Query, caller: Caller) -> web.Response:
        assert target.version.scale
        scale, main = target.version.scale, Target(target.kind, target.version, target.namespace, target.name)
        if request.method in ("GET", "HEAD"):
            entry = await self._objects.get(main)
            return respond.json(read_scale(decode(entry.data), scale))
        raw = await self._body(request)
        media = content_type(request.headers.get("Content-Type", ""))
        if request.method == "PUT":
            value = parse(raw, media)
            change: Callable[[Any], Any] = lambda old: value  # noqa: E731
        elif request.method == "PATCH":
            change = patcher(media, raw, target.kind, target.version)
        else:
            raise status.method_not_allowed()
        data = await self._objects.patch(
            main, lambda old: write_scale(old, scale, change(read_scale(old, scale)), main),
            self._context(query, caller),
            dry=query.dry,
        )  # fmt: skip
        return respond.json(read_scale(decode(data), scale))

    async def _token(self, request: web.BaseRequest, target: Target) -> web.Response:
        entry = await self._objects.get(target)
        raw = await self._body(request)
        body = parse(raw, content_type(request.headers.get("Content-Type", ""))) if raw.strip() else {}
        spec = body.get("spec") if isinstance(body, dict) else None
        spec = spec if isinstance(spec, dict) else {}
        seconds = spec.get("expirationSeconds") or 3600
        audiences = spec.get("audiences") or []
        if type(seconds) is not int or not 600 <= seconds <= 2**32 or not isinstance(audiences, list):
            raise bad_request("spec.expirationSeconds: may not specify a duration less than 10 minutes")
        token, expires = self._tokens.issue(decode(entry.data), [str(a) for a in audiences], seconds)
        return respond.json(
            {
                "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
                "metadata": {"name": target.name, "namespace": target.namespace, "creationTimestamp": now()},
                "spec": {"audiences": audiences, "expirationSeconds": seconds},
                "status": {"token": token, "expirationTimestamp": expires},
            },
            201,
        )  # fmt: skip


def _manager(request: web.BaseRequest) -> str:
    """Who writes, where the request does not say: the program's name."""
    return request.headers.get("User-Agent", "").partition("/")[0][:128] or "unknown"


async def _all_of(request: web.BaseRequest) -> bytes:
    return await request.content.read(LIMIT + 1) if request.body_exists else b""


def patcher(media: str, raw: bytes, kind: Kind, version: Version) -> Callable[[Json], Any]:
    """The function a patch is."""
    if media not in _PATCHES:
        raise status.unsupported_media_type(_PATCHES)
    patch = parse_json(raw)
    if media == "application/json-patch+json":
        return lambda old: json_patch.apply(old, patch)
    if not isinstance(patch, dict):
        raise bad_request("the patch must be an object")
    if media == "application/merge-patch+json":
        return lambda old: decode(encode(merge_patch.merge(old, patch)))
    if media == "application/strategic-merge-patch+json":
        if kind.custom:
            raise status.unsupported_media_type(tuple(p for p in _PATCHES if "strategic" not in p))
        schema = {**version.schema, "properties": {**version.schema.get("properties", {}), "metadata": OBJECT_META}}
        return lambda old: strategic.merge(old, patch, schema)
    raise status.unsupported_media_type(tuple(p for p in _PATCHES if "apply" not in p))


def _verb(method: str, path: Path, query: Query) -> str:
    match method:
        case "GET" | "HEAD":
            if path.name:
                return "get"
            return "watch" if query.flag("watch") else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
        case "DELETE":
            return "delete" if path.name else "deletecollection"
    raise status.method_not_allowed()
