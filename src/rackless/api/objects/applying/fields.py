"""Sets of fields: the paths of an object as its schema divides it, and their stored form (FieldsV1).

A path is a tuple of steps; a step is `f:name` of a map, `k:{…}` of a list with keys, `v:…` of a set. Atomic lists and maps
are one field. Lists without a type are atomic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rackless.api.encoding import decode, encode
from rackless.api.schema.metadata import OBJECT_META
from rackless.api.status import Json

Path = tuple[str, ...]
Fields = frozenset[Path]

# What is the server's, or the object's identity, is nobody's.
_NOBODYS = frozenset(
    [("f:apiVersion",), ("f:kind",)]
    + [("f:metadata", f"f:{name}") for name in (
        "name", "namespace", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "uid",
        "generation", "managedFields", "resourceVersion", "generateName",
    )]
)  # fmt: skip


def whole_schema(schema: Json) -> Json:
    return {**schema, "properties": {**(schema.get("properties") or {}), "metadata": OBJECT_META}}


def child(schema: Json, name: str) -> Json:
    found = (schema.get("properties") or {}).get(name)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, dict) else {}


def is_map(schema: Json, value: Any) -> bool:
    """Whether a value is merged field by field."""
    return isinstance(value, dict) and schema.get("x-kubernetes-map-type") != "atomic"


def list_steps(schema: Json, value: Any) -> list[tuple[str, Any]] | None:
    """The step and the value of each item of a list that merges; None for an atomic one."""
    if not isinstance(value, list):
        return None
    kind = schema.get("x-kubernetes-list-type", "atomic")
    if kind == "set":
        return [("v:" + encode(each).decode(), each) for each in value]
    if kind == "map" and all(isinstance(each, dict) for each in value):
        return [(_key_step(schema, each), each) for each in value]
    return None


def _key_step(schema: Json, item: Json) -> str:
    defaults = (schema.get("items") or {}).get("properties") or {}
    keys = {}
    for key in sorted(schema.get("x-kubernetes-list-map-keys") or ()):
        keys[key] = item.get(key, (defaults.get(key) or {}).get("default"))
    return "k:" + encode(keys).decode()


def _walk(schema: Json, value: Any, path: Path) -> Iterator[Path]:
    if is_map(schema, value):
        if not value and path:
            yield path
        for name, each in value.items():
            yield from _walk(child(schema, name), each, (*path, f"f:{name}"))
    elif (steps := list_steps(schema, value)) is not None:
        if not steps:
            yield path
        for step, each in steps:
            yield (*path, step)
            if step[0] == "k":
                yield from _walk(schema.get("items") or {}, each, (*path, step))
    else:
        yield path


def fields_of(schema: Json, obj: Json, without: tuple[str, ...] = ()) -> Fields:
    """The fields an object sets; `without` names top-level fields that do not count."""
    kept = {name: value for name, value in obj.items() if name not in without}
    return frozenset(path for path in _walk(schema, kept, ()) if path not in _NOBODYS and path[:1] not in _NOBODYS)


_ABSENT = object()


class View:
    """An object in which fields are looked up. The steps of a list are made once, not for every field in it; so the
    object must stay as it is.
    """

    def __init__(self, schema: Json, obj: Any) -> None:
        self._schema = schema
        self._obj = obj
        self._lists: dict[int, dict[str, Any]] = {}

    def at(self, path: Path) -> Any:
        """The value of a field, or a mark that it is not there."""
        schema, obj = self._schema, self._obj
        for step in path:
            if step[:2] == "f:":
                if not isinstance(obj, dict) or step[2:] not in obj:
                    return _ABSENT
                obj, schema = obj[step[2:]], child(schema, step[2:])
            else:
                found = self._lists.get(id(obj))
                if found is None:
                    found = self._lists[id(obj)] = dict(list_steps(schema, obj) or ())
                if step not in found:
                    return _ABSENT
                obj, schema = found[step], schema.get("items") or {}
        return obj


def same_at(one: View, other: View, path: Path) -> bool:
    """Whether two objects agree on a field; of an item of a list only whether it is there."""
    a, b = one.at(path), other.at(path)
    if a is _ABSENT or b is _ABSENT:
        return a is b
    return path[-1][:2] == "k:" or (a == b and isinstance(a, bool) is isinstance(b, bool))


def removed(schema: Json, obj: Json, paths: Fields) -> Json:
    """The object without these fields; what becomes empty by it goes too."""
    tree: Json = {}
    for path in sorted(paths, key=len):  # an item before its fields: without it they are gone
        node = tree
        for step in path[:-1]:
            node = node.setdefault(step, {})
            if node is _ALL:
                break
        else:
            node[path[-1]] = _ALL
    result: Json = _without(schema, obj, tree)
    return result


_ALL: Json = {}
"""Marks, by its identity, that nothing is left of a field."""


def _without(schema: Json, value: Any, tree: Json) -> Any:
    if isinstance(value, dict):
        copy = dict(value)
        for step, inner in tree.items():
            name = step[2:]
            if step[:2] != "f:" or name not in copy:
                continue
            left = _without(child(schema, name), copy[name], inner) if inner is not _ALL else None
            if inner is _ALL or (left in ({}, []) and copy[name] not in ({}, [])):
                copy.pop(name)
            else:
                copy[name] = left
        return copy
    steps = list_steps(schema, value)
    if steps is None:
        return value
    items = schema.get("items") or {}
    return [
        _without(items, each, tree[step]) if step in tree else each
        for step, each in steps
        if tree.get(step) is not _ALL
    ]


def to_stored(fields: Fields) -> Json:
    tree: Json = {}
    for path in sorted(fields):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        if path[-1][:2] == "k:":
            node["."] = {}
    return tree


def from_stored(tree: Any, path: Path = ()) -> Fields:
    if not isinstance(tree, dict):
        return frozenset()
    if not tree and path:
        return frozenset([path])
    found: set[Path] = set()
    for step, inner in tree.items():
        if step == ".":
            found.add(path)
        elif isinstance(step, str) and step[:2] in ("f:", "k:", "v:"):
            found |= from_stored(inner, (*path, _canonical(step)))
    return frozenset(found)


def _canonical(step: str) -> str:
    """Keys as we write them, whoever wrote them."""
    if step[:2] == "k:":
        try:
            keys = decode(step[2:].encode())
            return "k:" + encode({key: keys[key] for key in sorted(keys)}).decode()
        except (ValueError, TypeError, AttributeError):
            return step
    return step


def shown(path: Path) -> str:
    """A path as conflicts name it."""
    text = ""
    for step in path:
        if step[:2] == "f:":
            text += f".{step[2:]}"
        elif step[:2] == "k:":
            inner = ",".join(f"{k}={encode(v).decode()}" for k, v in decode(step[2:].encode()).items())
            text += f"[{inner}]"
        else:
            text += f"[={step[2:]}]"
    return text
