"""`GET /events`: the stream of a lab's events, from a number on, of the subjects that are named. What its lines are.

The first line says after which number the stream begins. Then there is a line for each event, with its number, and one where events
are no longer kept that the asker has not heard. Who loses the connection asks again with the last number they have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from rackless import events
from rackless.codec import BadValue, decode, encode
from rackless.protocol.event_log import Missed, Numbered


@dataclass(frozen=True, slots=True)
class Began:
    """The first line: after which number the stream begins."""

    since: int


@dataclass(frozen=True, slots=True)
class Gap:
    missed: Missed


@dataclass(frozen=True, slots=True)
class EventsWanted:
    since: int = 0
    """Events after this number; below zero, the last so many."""
    hear: tuple[str, ...] = ("*",)
    """About these subjects: `host/ctrl-0`, `host/*`, `*`."""
    follow: bool = True
    """Also those that are still to come."""

    def to_query(self) -> str:
        return urlencode([("since", self.since), *(("hear", one) for one in self.hear), ("follow", int(self.follow))])

    @classmethod
    def from_query(cls, query: Iterable[tuple[str, str]]) -> EventsWanted:
        """Raises BadValue. What is not known is ignored."""
        pairs = list(query)
        since = [value for key, value in pairs if key == "since"] or ["0"]
        follow = [value for key, value in pairs if key == "follow"] or ["1"]
        hear = tuple(value for key, value in pairs if key == "hear")
        try:
            return cls(int(since[-1]), hear or ("*",), bool(int(follow[-1])))
        except ValueError as error:
            raise BadValue(f"since and follow are numbers: {error}") from error


def to_line(one: Began | Numbered | Missed) -> object:
    match one:
        case Numbered():
            return one.to_json()
        case Missed():
            return encode(Gap(one))
    return encode(one)


def from_line(value: object) -> Began | Numbered | Missed | None:
    """None for a line of a newer rackless. Raises BadValue for what is no line of a stream."""
    if not isinstance(value, dict):
        raise BadValue(f"{value!r} is no line of a stream of events")
    if "since" in value:
        return decode(Began, value)
    if "missed" in value:
        return decode(Gap, value).missed
    try:
        return Numbered(int(value["seq"]), events.from_json(value))
    except (BadValue, KeyError):
        return None
