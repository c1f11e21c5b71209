"""Strategic merge patch for built-in kinds: lists merge by the key their schema names.

`$patch: delete|replace|merge`, `$deleteFromPrimitiveList/…`, `$setElementOrder/…` and `$retainKeys` are understood.
"""

from __future__ import annotations

import copy
from typing import Any

import orjson

from rackless.api.status import Json, bad_request, shown

_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def merge(target: Any, patch: Any, schema: Json) -> Any:
    """`schema` is the kind's, with `x-kubernetes-patch-strategy` and `-merge-key` where lists merge."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"Unknown patch type: {directive}")
    result = dict(target) if isinstance(target, dict) else {}
    if (retained := patch.get("$retainKeys")) is not None:
        if not isinstance(retained, list) or not all(isinstance(key, str) for key in retained):
            raise bad_request("$retainKeys must be a list of names")
        kept = set(retained)
        result = {key: value for key, value in result.items() if key in kept}
    for key, value in patch.items():
        if key in ("$patch", "$retainKeys") or key.startswith(_ORDER):
            continue
        if key.startswith(_DELETE_FROM):
            name = key[len(_DELETE_FROM) :]
            there = result.get(name) or []
            if not isinstance(value, list) or not isinstance(there, list):
                raise bad_request(f"{key} must be a list, of what shall leave a list")
            gone = {_mark(each) for each in value}
            result[name] = [each for each in there if _mark(each) not in gone]
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = _field(result.get(key), value, _under(schema, key))
    for key, value in patch.items():
        if key.startswith(_ORDER):
            name = key[len(_ORDER) :]
            if isinstance(result.get(name), list):
                result[name] = _ordered(result[name], value, _under(schema, name).get("x-kubernetes-patch-merge-key"))
    return result


def _under(schema: Json, key: str) -> Json:
    found = (schema.get("properties") or {}).get(key)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, dict) else {}


def _field(old: Any, value: Any, schema: Json) -> Any:
    if isinstance(value, dict):
        return merge(old, value, schema)
    if isinstance(value, list) and "merge" in schema.get("x-kubernetes-patch-strategy", ""):
        key = schema.get("x-kubernetes-patch-merge-key")
        if key:
            return _merge_maps(old if isinstance(old, list) else [], value, key, schema.get("items") or {})
        there = {_mark(each) for each in old or []}
        return [*(old or []), *(each for each in value if _mark(each) not in there)]
    return copy.deepcopy(value)


def _merge_maps(old: list[Any], patch: list[Any], key: str, items: Json) -> list[Any]:
    if not all(isinstance(each, dict) for each in (*old, *patch)):
        raise bad_request(f"a list merged by {key} must hold objects")
    if any(each.get("$patch") == "replace" for each in patch):
        return [copy.deepcopy(each) for each in patch if "$patch" not in each]
    result: dict[int, Any] = dict(enumerate(old))
    places: dict[bytes, list[int]] = {}
    last = len(old) - 1
    for place, found in result.items():
        if key in found:
            places.setdefault(_mark(found[key]), []).append(place)
    for each in patch:
        if key not in each:
            raise bad_request(f"map: {shown(each)[:512]} does not contain declared merge key: {key}")
        mark = _mark(each[key])
        if each.get("$patch") == "delete":
            for place in places.pop(mark, ()):
                del result[place]
        elif mark not in places:
            places[mark] = [last := last + 1]
            result[last] = merge({}, each, items)
        else:
            result[places[mark][0]] = merge(result[places[mark][0]], each, items)
    return list(result.values())


def _mark(value: Any) -> bytes:
    """What stands for a value when many are compared."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _ordered(values: list[Any], order: Any, key: str | None) -> list[Any]:
    """Those that the order names, in that order; the others keep their place relative to each other, at the end."""
    if not isinstance(order, list):
        raise bad_request("$setElementOrder must be a list")

    def mark(each: Any) -> Any:
        return str(each.get(key) if key and isinstance(each, dict) else each)

    rank = {mark(each): index for index, each in enumerate(order)}
    return sorted(values, key=lambda each: rank.get(mark(each), len(rank)))
