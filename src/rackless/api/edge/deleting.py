"""Deletions over HTTP: the options of a request, of one object or of a collection."""

from __future__ import annotations

from aiohttp import web

from rackless.api import status
from rackless.api.edge import respond
from rackless.api.edge.call import ResourceCall
from rackless.api.objects.operations import Objects, ObjectTarget
from rackless.api.status import Json, bad_request

_POLICIES = ("", "Orphan", "Background", "Foreground")


async def delete(objects: Objects, call: ResourceCall) -> web.Response:
    options = await _options(call)
    target = call.target
    data, outcome = await objects.delete(target, call.context(), **options)
    if outcome.removed:
        uid = outcome.obj["metadata"]["uid"]
        return respond.json(status.success(target.name, target.kind.group, target.kind.plural, uid))
    return await call.answer(data, 202 if options["propagation"] == "Foreground" else 200)


async def delete_collection(objects: Objects, call: ResourceCall) -> web.Response:
    options = await _options(call)
    page = await objects.page(call.kind, call.filter())
    context = call.context()
    removed = []
    for entry in page.entries:
        _, _, namespace, name = entry.key.split("/", 3)
        try:
            data, _ = await objects.delete(ObjectTarget(call.kind, call.version, namespace, name), context, **options)
        except status.RequestRefused as error:
            if error.code != 404:
                raise
            continue
        removed.append(data)
    metadata = respond.list_metadata(objects.store.revision, "", None)
    return respond.answer(b"".join(respond.many(call.kind, call.version, removed, metadata, "object", "")))


async def _options(call: ResourceCall) -> Json:
    """DeleteOptions from the body, where the query does not say otherwise."""
    query, options = call.query, await call.value(when_empty={})
    if not isinstance(options, dict) or not isinstance(options.get("preconditions") or {}, dict):
        raise bad_request("the body of a deletion must be DeleteOptions")
    if query.text("propagationPolicy"):
        options["propagationPolicy"] = query.text("propagationPolicy")
    if query.text("dryRun"):
        options["dryRun"] = [query.text("dryRun")]
    orphan = options.get("orphanDependents")
    policy = options.get("propagationPolicy") or ("Orphan" if orphan else "Background" if orphan is False else "")
    if policy not in _POLICIES:
        raise bad_request(
            f'propagationPolicy: Unsupported value: "{policy}": supported values: "Background", "Foreground", "Orphan"'
        )
    grace = (
        query.number("gracePeriodSeconds") if query.text("gracePeriodSeconds") else options.get("gracePeriodSeconds")
    )
    if options.get("dryRun") not in (None, [], ["All"]):
        raise bad_request('dryRun: Unsupported value: supported values: "All"')
    return {
        "propagation": policy, "grace": grace if isinstance(grace, int) else None,
        "preconditions": options.get("preconditions"), "dry": bool(options.get("dryRun")),
    }  # fmt: skip
