"""Query parameters of a GET ($select, $expand, $top, $skip, `only`), applied to what was rendered.

The size of an expansion is limited, and other requests are served while it is made: an aggregate has hundreds of systems.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from rackless.bmc.redfish.messages import Json, Refusal, message

MAX_LEVELS = 3
MAX_RESOURCES = 2500
"""In one answer: some 3 MB. Whoever wants more asks for pages, with $top and $skip."""
_AT_ONCE = 8
"""Resources rendered before others get their turn."""
_MOST_NAMES = 64
_EXPAND = re.compile(r"([.*~])(?:\(\$levels=(\d{1,6})\))?")
_KNOWN = {"$select", "$expand", "$top", "$skip", "only"}

Fetch = Callable[[str], Json | None]
"""The resource at a URI, or None when it cannot be rendered."""


@dataclass(frozen=True, slots=True)
class QueryOptions:
    select: tuple[str, ...] = ()
    expand: str = ""
    levels: int = 1
    top: int | None = None
    skip: int = 0
    only: bool = False


NONE = QueryOptions()


def read(parameters: Mapping[str, str]) -> QueryOptions:
    for name in parameters:
        if name.startswith("$") and name not in _KNOWN:
            raise Refusal(501, message("QueryParameterUnsupported", name))
    if parameters.get("only"):
        raise Refusal(400, message("QueryParameterValueFormatError", parameters["only"], "only"))
    if "only" in parameters and parameters.keys() & {"$select", "$expand", "$top", "$skip"}:
        raise Refusal(400, message("QueryParameterValueFormatError", "only", "only"))
    select = tuple(part.strip() for part in parameters.get("$select", "").split(",") if part.strip())
    if "$select" in parameters and not 1 <= len(select) <= _MOST_NAMES:
        raise Refusal(400, message("QueryParameterValueFormatError", parameters["$select"][:64], "$select"))
    expand, levels = "", 1
    if "$expand" in parameters:
        found = _EXPAND.fullmatch(parameters["$expand"])
        if not found:
            raise Refusal(400, message("QueryParameterValueFormatError", parameters["$expand"][:64], "$expand"))
        expand, levels = found[1], int(found[2] or 1)
        if not 1 <= levels <= MAX_LEVELS:
            raise Refusal(400, message("QueryParameterOutOfRange", levels, "$levels", f"1 to {MAX_LEVELS}"))
    return QueryOptions(
        select, expand, levels, _count(parameters, "$top"), _count(parameters, "$skip") or 0, "only" in parameters
    )


def _count(parameters: Mapping[str, str], name: str) -> int | None:
    if name not in parameters:
        return None
    if not re.fullmatch(r"-?\d{1,9}", parameters[name]):
        raise Refusal(400, message("QueryParameterValueTypeError", parameters[name], name))
    value = int(parameters[name])
    if value < 0:
        raise Refusal(400, message("QueryParameterOutOfRange", value, name, "0 or more"))
    return value


async def apply(query: QueryOptions, resource: Json, path: str, fetch: Fetch) -> Json:
    if query.top is not None or query.skip or query.only:
        members = resource.get("Members")
        if not isinstance(members, list):
            raise Refusal(400, message("QueryNotSupportedOnResource"))
        if query.only:
            single = fetch(members[0]["@odata.id"]) if len(members) == 1 else None
            return single if single is not None else resource
        resource = _page(query, resource, members, path)
    if query.expand:
        resource = await _expanded(resource, query, fetch, resource.get("@odata.id", path))
    if query.select:
        resource = _selected(resource, query.select)
    return resource


def _page(query: QueryOptions, resource: Json, members: list[Any], path: str) -> Json:
    end = len(members) if query.top is None else query.skip + query.top
    page = {**resource, "Members": members[query.skip : end]}
    if query.top and end < len(members):
        page["Members@odata.nextLink"] = f"{path}?$skip={end}&$top={query.top}"
    return page


@dataclass(frozen=True, slots=True)
class _Reference:
    """A place in the answer where a resource shall stand instead of the reference to it."""

    container: Any
    key: Any
    uri: str
    levels: int


async def _expanded(resource: Json, query: QueryOptions, fetch: Fetch, base: str) -> Json:
    waiting: deque[_Reference] = deque()
    top: Json = _copied(resource, query.expand, query.levels, base, waiting)
    count = 0
    while waiting:
        one = waiting.popleft()
        count += 1
        if count > MAX_RESOURCES:
            raise Refusal(507, message("InsufficientStorage", note="Ask for less, or for pages with $top and $skip."))
        if count % _AT_ONCE == 0:
            await asyncio.sleep(0)
        found = fetch(one.uri)
        if found is None:
            continue
        if one.levels > 1:
            one.container[one.key] = _copied(found, query.expand, one.levels - 1, one.uri, waiting)
        else:  # nobody looks into it again, unless something is selected: as text it is smaller and is no work for the collector
            one.container[one.key] = found if query.select else orjson.Fragment(orjson.dumps(found))
    return top


def _copied(
    value: Any, how: str, levels: int, base: str, waiting: deque[_Reference], inside_links: bool = False
) -> Any:
    """A copy in which references can be replaced; `waiting` gets those that shall be."""
    if isinstance(value, list):
        items: list[tuple[Any, Any]] = list(enumerate(value))
        copy: Any = list(value)
    elif isinstance(value, dict):
        items = [(key, item) for key, item in value.items() if key != "Actions" and not key.startswith("@")]
        copy = dict(value)
    else:
        return value
    for key, item in items:
        inside = inside_links or key == "Links"
        if isinstance(item, dict) and item.keys() == {"@odata.id"}:
            uri = item["@odata.id"]
            if (how == "*" or inside == (how == "~")) and uri != base and "#" not in uri:
                waiting.append(_Reference(copy, key, uri, levels))
        elif isinstance(item, list | dict):
            copy[key] = _copied(item, how, levels, base, waiting, inside)
    return copy


def _selected(resource: Json, select: tuple[str, ...]) -> Json:
    kept: Json = {key: value for key, value in resource.items() if key.startswith(("@odata.", "@Message."))}
    for name in select:
        source: Any = resource
        target = kept
        *parents, last = name.split("/")
        for parent in parents:
            source = source.get(parent) if isinstance(source, dict) else None
            if not isinstance(source, dict):
                break
            target = target.setdefault(parent, {})
        if isinstance(source, dict):
            target.update({key: value for key, value in source.items() if key == last or key.startswith(f"{last}@")})
    return kept
