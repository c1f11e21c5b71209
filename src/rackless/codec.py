"""Typed values to JSON and back: for what crosses the control socket and for lines of journals.

A value is a frozen dataclass of strings, numbers, enumerations, tuples, mappings and other such dataclasses. Reading one ignores
fields that it does not know, which a newer rackless may have written, and says in words where one is missing or of another
type. `Mapping[str, object]` is JSON that is passed on as it is. Nothing heavy is loaded: commands import this to ask one question.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
_Reader = Callable[[object, str], object]
_PLAIN = frozenset({str, int, float, bool, types.NoneType})


class BadValue(ValueError):
    """JSON that is not the value that was to come: where, and what was expected there."""


def encode(value: object) -> Any:
    """What `json.dumps` takes."""
    if type(value) in _PLAIN:  # most of a large value: the rack of 200 servers is read and written twice a second
        return value
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {name: encode(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(encode(item) for item in value)
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    return value


def decode(kind: type[T], value: object) -> T:
    """Raises BadValue."""
    return cast(T, _reader(cast(Any, kind))(value, ""))


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _reader(kind: Any) -> _Reader:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is object or kind is Any:
        return lambda value, _: value
    if kind in (Union, types.UnionType) or origin in (Union, types.UnionType):
        return _read_union(inner)
    if origin is Literal:
        return _read_one_of(inner, lambda value: value)
    if origin in (tuple, frozenset):
        return _read_list(origin, _reader(inner[0]))
    if origin is not None and issubclass(origin, Mapping):
        return _read_mapping(_reader(inner[1]))
    if is_dataclass(kind):
        return _read_dataclass(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _read_one_of([item.value for item in kind], kind)
    return _read_plain(kind)


def _read_plain(kind: type) -> _Reader:
    def read(value: object, where: str) -> object:
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:
            raise _other(where, "nothing" if kind is types.NoneType else kind.__name__, value)
        return value

    return read


def _read_one_of(known: Any, make: Callable[[Any], object]) -> _Reader:
    def read(value: object, where: str) -> object:
        if value not in known:
            raise _other(where, " or ".join(map(str, known)), value)
        return make(value)

    return read


def _read_union(kinds: tuple[Any, ...]) -> _Reader:
    optional = types.NoneType in kinds

    def read(value: object, where: str) -> object:
        if value is None and optional:
            return None
        last: BadValue | None = None
        for kind in kinds:
            try:
                return _reader(kind)(value, where)
            except BadValue as error:
                # what is said of a value that is there is said by the kind it was meant to be
                last = error if kind is not types.NoneType or last is None else last
        assert last is not None
        raise last

    return read


def _read_list(make: Callable[[list[object]], object], item: _Reader) -> _Reader:
    def read(value: object, where: str) -> object:
        if not isinstance(value, list):
            raise _other(where, "a list", value)
        return make([item(one, f"{where}[{number}]") for number, one in enumerate(value)])

    return read


def _read_mapping(item: _Reader) -> _Reader:
    def read(value: object, where: str) -> object:
        if not isinstance(value, dict):
            raise _other(where, "an object", value)
        return {key: item(one, f"{where}.{key}".lstrip(".")) for key, one in value.items()}

    return read


def _read_dataclass(kind: Any) -> _Reader:
    hints = get_type_hints(kind)
    known = {field.name: hints[field.name] for field in fields(kind)}
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}

    def read(value: object, where: str) -> object:
        if not isinstance(value, dict):
            raise _other(where, f"an object ({kind.__name__})", value)
        if missing := sorted(needed - value.keys()):
            raise BadValue(f"{f'{where}.{missing[0]}'.lstrip('.')} is missing")
        above = f"{where}." if where else ""
        return kind(**{name: _reader(hint)(value[name], above + name) for name, hint in known.items() if name in value})

    return read


def _other(where: str, wanted: str, value: object) -> BadValue:
    found = repr(value)
    return BadValue(f"{where or 'it'} is {found if len(found) < 60 else found[:57] + '...'}, and not {wanted}")
