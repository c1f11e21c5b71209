"""Query parameters of a GET: $select, $expand, $top and $skip, and `only`, on what was rendered already."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rackless.bmc.redfish.messages import Json, Refusal, message

MAX_LEVELS = 6
_EXPAND = re.compile(r"([.*~])(?:\(\$levels=(\d{1,6})\))?")
_KNOWN = {"$select", "$expand", "$top", "$skip", "only"}

Fetch = Callable[[str], Json | None]
"""The resource at a URI, or None when it cannot be rendered."""


@dataclass(frozen=True, slots=True)
class Query:
    select: tuple[str, ...] = ()
    expand: str = ""
    levels: int = 1
    top: int | None = None
    skip: int = 0
    only: bool = False


def read(parameters: Mapping[str, str]) -> Query:
    for name in parameters:
        if name.startswith("$") and name not in _KNOWN:
            raise Refusal(501, message("QueryParameterUnsupported", name))
    if "only" in parameters and parameters.keys() & {"$select", "$expand", "$top", "$skip"}:
        raise Refusal(400, message("QueryParameterValueFormatError", "only", "only"))
    select = tuple(part.strip() for part in parameters.get("$select", "").split(",") if part.strip())
    if "$select" in parameters and not select:
        raise Refusal(400, message("QueryParameterValueFormatError", parameters["$select"], "$select"))
    expand, levels = "", 1
    if "$expand" in parameters:
        found = _EXPAND.fullmatch(parameters["$expand"])
        if not found:
            raise Refusal(400, message("QueryParameterValueFormatError", parameters["$expand"], "$expand"))
        expand, levels = found[1], int(found[2] or 1)
        if not 1 <= levels <= MAX_LEVELS:
            raise Refusal(400, message("QueryParameterOutOfRange", levels, "$levels", f"1 to {MAX_LEVELS}"))
    return Query(
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


def apply(query: Query, resource: Json, path: str, fetch: Fetch) -> Json:
    if query.top is not None or query.skip or query.only:
        members = resource.get("Members")
        if not isinstance(members, list):
            raise Refusal(400, message("QueryNotSupportedOnResource"))
        if query.only:
            single = fetch(members[0]["@odata.id"]) if len(members) == 1 else None
            return single if single is not None else resource
        resource = _page(query, resource, members, path)
    if query.expand:
        resource = _expanded(resource, query.expand, query.levels, fetch, resource.get("@odata.id", path))
    if query.select:
        resource = _selected(resource, query.select)
    return resource


def _page(query: Query, resource: Json, members: list[Any], path: str) -> Json:
    end = len(members) if query.top is None else query.skip + query.top
    page = {**resource, "Members": members[query.skip : end]}
    if query.top and end < len(members):
        page["Members@odata.nextLink"] = f"{path}?$skip={end}&$top={query.top}"
    return page


def _expanded(value: Any, how: str, levels: int, fetch: Fetch, base: str, inside_links: bool = False) -> Any:
    if isinstance(value, list):
        return [_expanded(item, how, levels, fetch, base, inside_links) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"@odata.id"}:
        uri = value["@odata.id"]
        wanted = how == "*" or inside_links == (how == "~")
        if not wanted or uri == base or "#" in uri:
            return value
        found = fetch(uri)
        if found is None:
            return value
        return _expanded(found, how, levels - 1, fetch, uri) if levels > 1 else found
    return {
        key: item
        if key == "Actions" or key.startswith("@")
        else _expanded(item, how, levels, fetch, base, inside_links or key == "Links")
        for key, item in value.items()
    }


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
