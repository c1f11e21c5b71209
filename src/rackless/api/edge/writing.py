"""Writes over HTTP: create, update, the four kinds of patch; bodies to operations, and what they answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from rackless.api import status
from rackless.api.edge.body import parse, parse_json
from rackless.api.edge.call import ResourceCall
from rackless.api.encoding import decode, encode
from rackless.api.kinds.kind import Kind, Version
from rackless.api.objects.operations import Objects
from rackless.api.objects.patches import json_patch, strategic
from rackless.api.objects.patches import merge as merge_patch
from rackless.api.objects.writes import Context
from rackless.api.schema.metadata import OBJECT_META
from rackless.api.status import Json, bad_request

_APPLY = "application/apply-patch+yaml"
_PATCHES = (
    "application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
)  # fmt: skip


async def create(objects: Objects, call: ResourceCall) -> web.Response:
    body, context = await _read(call)
    data = await objects.create(call.kind, call.version, call.path.namespace, body, context, dry=call.query.dry)
    return await call.answer(data, 201, context.warnings)


async def _read(call: ResourceCall) -> tuple[Any, Context]:
    raw = await call.body()
    return await call.heavy(raw, lambda: (parse(raw, call.media), call.context(raw)))


async def update(objects: Objects, call: ResourceCall) -> web.Response:
    body, context = await _read(call)
    data, created = await objects.update(call.target, body, context, dry=call.query.dry)
    return await call.answer(data, 201 if created else 200, context.warnings)


async def patch(objects: Objects, call: ResourceCall) -> web.Response:
    raw = await call.body()
    context = await call.heavy(raw, lambda: call.context(raw), "application/json")
    if call.media == _APPLY:
        return await _apply(objects, call, raw, context)
    change = await call.heavy(raw, lambda: patcher(call.media, raw, call.kind, call.version))
    data = await objects.patch(call.target, change, context, dry=call.query.dry)
    return await call.answer(data, 200, context.warnings)


async def _apply(objects: Objects, call: ResourceCall, raw: bytes, context: Context) -> web.Response:
    if not call.query.text("fieldManager"):
        missing = status.required("fieldManager", "is required for apply patch")
        raise status.invalid("PatchOptions", "meta.k8s.io", "", [missing])
    config = await call.heavy(raw, lambda: parse(raw, "application/yaml"))
    force = call.query.flag("force")
    data, created = await objects.apply(call.target, config, context, force=force, dry=call.query.dry)
    return await call.answer(data, 201 if created else 200, context.warnings)


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
