"""`/openapi/v2` and `/openapi/v3`: made when they are asked for; nobody asks often."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from rackless.api import openapi, openapi_proto
from rackless.api.edge import respond
from rackless.api.registry import Registry


def serve(registry: Registry, rest: Sequence[str], accept: str) -> web.Response | None:
    """None when there is no such document."""
    match rest:
        case ["v2"]:
            document = openapi.document_v2(registry)
            if "proto-openapi.spec.v2" in accept and "application/json" not in accept.partition("proto-openapi")[0]:
                response = respond.answer(openapi_proto.encoded(document))
                response.headers["Content-Type"] = openapi_proto.MEDIA
                return response
            return respond.json(document)
        case ["v3"]:
            return respond.json(openapi.index_v3(registry))
        case ["v3", "api", version]:
            return _document(registry, "", version)
        case ["v3", "apis", group, version]:
            return _document(registry, group, version)
    return None


def _document(registry: Registry, group: str, version: str) -> web.Response | None:
    document = openapi.document_v3(registry, group, version)
    return respond.json(document) if document else None
