"""Subresources that are no plain part of their object: scale, and tokens of service accounts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aiohttp import web

from rackless.api import status
from rackless.api.access.authentication import Tokens
from rackless.api.edge import respond
from rackless.api.edge.body import parse
from rackless.api.edge.call import ResourceCall
from rackless.api.edge.scale import read_scale, write_scale
from rackless.api.edge.writing import patcher
from rackless.api.encoding import decode
from rackless.api.objects.operations import Objects, now
from rackless.api.status import bad_request, forbidden_field


async def scale(objects: Objects, call: ResourceCall) -> web.Response:
    paths, main = call.version.scale, replace(call.target, subresource="")
    assert paths
    if call.request.method in ("GET", "HEAD"):
        entry = await objects.get(main)
        return respond.json(read_scale(decode(entry.data), paths))
    if call.request.method not in ("PUT", "PATCH"):
        raise status.method_not_allowed()
    raw = await call.body()
    change, context = await call.heavy(raw, lambda: (_change(call, raw), call.context(raw)))
    data = await objects.patch(
        main,
        lambda old: write_scale(old, paths, change(read_scale(old, paths)), main),
        context,
        dry=call.query.dry,
    )
    return respond.json(read_scale(decode(data), paths))


def _change(call: ResourceCall, raw: bytes) -> Callable[[Any], Any]:
    if call.request.method == "PATCH":
        return patcher(call.media, raw, call.kind, call.version)
    value = parse(raw, call.media)
    return lambda old: value


async def token(objects: Objects, call: ResourceCall, tokens: Tokens) -> web.Response:
    if call.request.method != "POST":
        raise status.method_not_allowed()
    target = call.target
    entry = await objects.get(target)
    body = await call.value(when_empty={})
    spec = (body.get("spec") or {}) if isinstance(body, dict) else None
    if not isinstance(spec, dict):
        raise bad_request("the body must be a TokenRequest")
    if spec.get("boundObjectRef"):
        why = "tokens are bound to their service account and to nothing else here"
        raise status.invalid("TokenRequest", "authentication.k8s.io", "", [forbidden_field("spec.boundObjectRef", why)])
    seconds = spec.get("expirationSeconds") or 3600
    audiences = spec.get("audiences") or []
    if not isinstance(audiences, list) or not all(isinstance(each, str) for each in audiences):
        raise bad_request("spec.audiences must be a list of names")
    if type(seconds) is not int or not 600 <= seconds <= 2**32:
        raise bad_request("spec.expirationSeconds: may not specify a duration less than 10 minutes")
    issued, expires = tokens.issue(decode(entry.data), audiences, seconds)
    return respond.json(
        {
            "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": target.name, "namespace": target.namespace, "creationTimestamp": now()},
            "spec": {"audiences": audiences, "expirationSeconds": seconds},
            "status": {"token": issued, "expirationTimestamp": expires},
        },
        201,
    )  # fmt: skip
