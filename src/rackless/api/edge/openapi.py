"""`/openapi/v2` and `/openapi/v3`: made when they are first asked for, kept until the kinds change."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from rackless.api.edge import openapi_documents as openapi
from rackless.api.edge import respond
from rackless.api.edge.documents import Documents
from rackless.api.encoding import encode
from rackless.api.objects.registry import Registry
from rackless.api.schema import openapi_proto


async def serve(documents: Documents, rest: Sequence[str], accept: str) -> web.Response | None:
    """None when there is no such document."""
    match rest:
        case ["v2"]:
            if "proto-openapi.spec.v2" in accept and "application/json" not in accept.partition("proto-openapi")[0]:
                response = respond.answer(await documents.get("openapi/v2/proto", _v2_proto))
                response.headers["Content-Type"] = openapi_proto.MEDIA
                return response
            return respond.answer(await documents.get("openapi/v2", lambda kinds: encode(openapi.document_v2(kinds))))
        case ["v3"]:
            return respond.answer(await documents.get("openapi/v3", lambda kinds: encode(openapi.index_v3(kinds))))
        case ["v3", "api", version]:
            return await _document(documents, "", version)
        case ["v3", "apis", group, version]:
            return await _document(documents, group, version)
    return None


def _v2_proto(kinds: Registry) -> bytes:
    return openapi_proto.encoded(openapi.document_v2(kinds))


async def _document(documents: Documents, group: str, version: str) -> web.Response | None:
    if not documents.knows(group, version):
        return None

    def made(kinds: Registry) -> bytes:
        found = openapi.document_v3(kinds, group, version)
        return encode(found) if found else b""

    body = await documents.get(("openapi/v3", group, version), made)
    return respond.answer(body) if body else None
