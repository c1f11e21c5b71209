"""Lists: what a request means by resource version, limit and continue, and the answer in pieces."""

from __future__ import annotations

import asyncio

from aiohttp import web

from rackless.api.edge import respond
from rackless.api.edge.call import ResourceCall
from rackless.api.objects.operations import Objects, Page
from rackless.api.status import bad_request

_IN_ONE_PIECE = 200
_BYTES_IN_ONE_PIECE = 256 * 1024


async def list_objects(objects: Objects, call: ResourceCall) -> web.StreamResponse:
    page = await _page(objects, call)
    if call.request.method == "HEAD":  # pieces would be taken for the next answer
        return respond.answer(b"")
    kind, version, form = call.kind, call.version, call.form
    metadata = respond.list_metadata(page.revision, page.token, page.remaining)
    plain = kind.from_stored is None and version is kind.storage
    items = (entry.data if plain else objects.shown(kind, version, entry.data) for entry in page.entries)
    pieces = respond.many(kind, version, items, metadata, form.shape, call.query.text("includeObject"))
    if len(page.entries) < _IN_ONE_PIECE and sum(len(entry.data) for entry in page.entries) < _BYTES_IN_ONE_PIECE:
        return respond.answer(b"".join(pieces))
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
    response.content_length = None
    response.enable_chunked_encoding()
    await response.prepare(call.request)
    for piece in pieces:
        await response.write(piece)
        await asyncio.sleep(0)  # a client that reads quickly would otherwise have the loop to itself
    await response.write_eof()
    return response


async def _page(objects: Objects, call: ResourceCall) -> Page:
    query = call.query
    match_rule = query.one_of("resourceVersionMatch", ("Exact", "NotOlderThan"))
    revision, token, limit = query.text("resourceVersion"), query.text("continue"), query.number("limit") or 0
    if match_rule and not revision:
        raise bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match_rule == "Exact" and (revision == "0"):
        raise bad_request('resourceVersionMatch "Exact" is forbidden for resourceVersion "0"')
    if token and revision not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    if limit < 0:
        raise bad_request("limit must not be negative")
    return await objects.page(call.kind, call.filter(), limit=limit, token=token, revision=revision, match=match_rule)
