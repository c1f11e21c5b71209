"""Remedies that labd may apply to a cause by itself: what a person would do by hand anyway, and what deletes nothing. Pure.

A rule names its cure; tries are recorded in a file of the lab, and a cure is not tried again until the state that it was tried on
has changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from rackless.codec import BadValue, decode, encode


class Cure(StrEnum):
    START_DAEMON = "start-daemon"
    """The lab's daemon, by whoever asks: nobody else is there."""
    START_PARTS = "start-parts"
    """Programs of the lab that ended, without waiting for their turn."""
    RESTART_SERVER = "restart-server"
    """Off, and its host tried again, which switches it on."""
    RETRY_HOST = "retry-host"
    APPROVE_REQUEST = "approve-request"
    """A certificate for a node that is one of the lab's servers."""


OFFERS: dict[Cure, str] = {
    Cure.START_DAEMON: "start the lab's daemon",
    Cure.START_PARTS: "start {name} now",
    Cure.RESTART_SERVER: "switch {name} off and try its host again",
    Cure.RETRY_HOST: "try the host {name} again",
    Cure.APPROVE_REQUEST: "approve the request {name}",
}
"""What a person is asked, and what is written down."""


@dataclass(frozen=True, slots=True)
class Remedy:
    rule: str
    subject: str
    cure: Cure
    change: str
    """What it is tried on: as long as this is the same, it is not tried again."""

    @property
    def name(self) -> str:
        """Of the host, part or request."""
        return self.subject.partition("/")[2]

    @property
    def offer(self) -> str:
        return OFFERS[self.cure].format(name=self.name)


@dataclass(frozen=True, slots=True)
class TriedRemedy:
    remedy: Remedy
    at: float
    """Seconds since the epoch."""
    by: str
    """`person`, or `lab` when it did so by itself."""

    def to_line(self) -> str:
        return json.dumps(encode(self)) + "\n"


def read_tried(text: str) -> list[TriedRemedy]:
    """Lines of a newer version, or cut short, are passed over."""
    found = []
    for line in text.splitlines():
        with suppress(ValueError, BadValue):
            found.append(decode(TriedRemedy, json.loads(line)))
    return found


def tried_before(remedy: Remedy, tried: Iterable[TriedRemedy]) -> TriedRemedy | None:
    """The last try of the same, on the same."""
    return next((one for one in reversed(list(tried)) if one.remedy == remedy), None)
