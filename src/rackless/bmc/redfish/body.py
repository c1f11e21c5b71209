"""Request bodies, distrusted: a `Shape` says which properties are taken and what values they may have.

`read` gives the values that may be written and the messages about those that may not. All problems are told at once.
Values that are wrong refuse the whole request; properties that cannot be written are left out, and told, when others
can be (Redfish wants it so).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rackless.bmc.redfish.messages import Json, Refusal, message


@dataclass(frozen=True, slots=True)
class Text:
    longest: int = 255
    null: bool = False
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Flag:
    null: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class OneOf:
    values: tuple[str, ...]
    null: bool = False


@dataclass(frozen=True, slots=True)
class ListOf:
    of: Kind
    most: int = 64


@dataclass(frozen=True, slots=True)
class Anything:
    """Taken as it is; whoever takes it looks at it."""


@dataclass(frozen=True, slots=True)
class Needed:
    """A property that must be there."""

    of: Kind


Kind = Text | Flag | Number | OneOf | ListOf | Anything | Needed | Mapping[str, "Kind"]
Shape = Mapping[str, Kind]
_SHOWN = 255
_MOST_TOLD = 32
"""Problems told of one request; who made more of them learns of the others next time."""


@dataclass(frozen=True, slots=True)
class Speech:
    """How to complain: about properties of a resource, or about parameters of an action."""

    action: str = ""

    def wrong(self, how: str, value: object, path: str, note: str = "") -> Json:
        shown = value[:_SHOWN] if isinstance(value, str) else "null" if value is None else _short(value)
        path = path[:_SHOWN]
        if self.action:
            return message(f"ActionParameterValue{how}", shown, path, self.action, about=[f"#/{path}"], note=note)
        return message(f"PropertyValue{how}", shown, path, about=[f"#/{path}"], note=note)

    def unknown(self, path: str) -> Json:
        path = path[:_SHOWN]
        if self.action:
            return message("ActionParameterUnknown", self.action, path, about=[f"#/{path}"])
        return message("PropertyUnknown", path, about=[f"#/{path}"])

    def missing(self, path: str) -> Json:
        if self.action:
            return message("ActionParameterMissing", self.action, path, about=[f"#/{path}"])
        return message("PropertyMissing", path, about=[f"#/{path}"])


def _short(value: object) -> str:
    """A list or an object may be as large as the body."""
    return repr(value) if isinstance(value, bool | int | float) else type(value).__name__


@dataclass(frozen=True, slots=True)
class Taken:
    values: Json
    left_out: Sequence[Json]


def read(body: object, shape: Shape, *, action: str = "", current: Json | None = None) -> Taken:
    """The values of `body` that fit `shape`. `current` is the resource, to tell read-only from unknown properties."""
    if not isinstance(body, dict):
        raise Refusal(400, message("UnrecognizedRequestBody"))
    wrong: list[Json] = []
    left_out: list[Json] = []
    values = _fields(body, shape, Speech(action), current, "", wrong, left_out)
    if wrong:
        raise Refusal(400, *wrong[:_MOST_TOLD])
    if left_out and (action or not values):
        raise Refusal(400, *left_out[:_MOST_TOLD])
    return Taken(values, left_out)


def _fields(
    body: Json, shape: Shape, speech: Speech, current: Json | None, at: str, wrong: list[Json], left_out: list[Json]
) -> Json:
    values: Json = {}
    for name, value in body.items():
        path = f"{at}{name}"
        if name.startswith("@") or name == "Oem":
            continue
        kind = shape.get(name)
        if kind is None:
            if len(left_out) >= _MOST_TOLD:
                continue
            if current is not None and name in current:
                left_out.append(message("PropertyNotWritable", path, about=[f"#/{path}"]))
            else:
                left_out.append(speech.unknown(path))
            continue
        if isinstance(kind, Needed):
            kind = kind.of
        if isinstance(kind, Mapping):
            if not isinstance(value, dict):
                wrong.append(speech.wrong("TypeError", value, path))
                continue
            inner = (current or {}).get(name)
            below = _fields(
                value, kind, speech, inner if isinstance(inner, dict) else None, f"{path}/", wrong, left_out
            )
            if below or not value:
                values[name] = below
            continue
        if problem := _problem(value, kind, speech, path):
            wrong.append(problem)
        else:
            values[name] = value
    for name, kind in shape.items():
        if isinstance(kind, Needed) and name not in body:
            wrong.append(speech.missing(f"{at}{name}"))
    return values


def _problem(value: Any, kind: Kind, speech: Speech, path: str) -> Json | None:
    match kind:
        case Text():
            if value is None and kind.null:
                return None
            if not isinstance(value, str):
                return speech.wrong("TypeError", value, path)
            if len(value) > kind.longest:
                return message("StringValueTooLong", value[:64], kind.longest, about=[f"#/{path}"])
            if kind.pattern and not re.fullmatch(kind.pattern, value):
                return speech.wrong("FormatError", value, path)
        case Flag():
            if not (isinstance(value, bool) or (value is None and kind.null)):
                return speech.wrong("TypeError", value, path)
        case Number():
            if isinstance(value, bool) or not isinstance(value, int):
                return speech.wrong("TypeError", value, path)
            if not kind.least <= value <= kind.most:
                return speech.wrong("OutOfRange", value, path, f"It is between {kind.least} and {kind.most}.")
        case OneOf():
            if value is None and kind.null:
                return None
            if not isinstance(value, str):
                return speech.wrong("TypeError", value, path)
            if value not in kind.values:
                return speech.wrong("NotInList", value, path, f"The acceptable values are: {', '.join(kind.values)}.")
        case ListOf():
            if not isinstance(value, list) or len(value) > kind.most:
                return speech.wrong("TypeError", value, path)
            for number, item in enumerate(value):
                if problem := _problem(item, kind.of, speech, f"{path}/{number}"):
                    return problem
        case Needed() | Anything():
            return None
        case _:
            if not isinstance(value, dict):
                return speech.wrong("TypeError", value, path)
    return None


def shape_of(shape: Shape | Callable[[Any], Shape] | None, scope: object) -> Shape:
    return shape(scope) if callable(shape) else shape or {}
