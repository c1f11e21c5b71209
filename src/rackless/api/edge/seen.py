"""One request as the metrics see it: its verb and resource, once they are known, and whether it counts as in flight.

As on the real server the number of requests in flight is limited; one more is answered with 429. Watches do not count:
they wait, and cost little while they do. One caller takes a share of all that at most, so that who sends half a body two hundred
times, or reads a list slowly, keeps out nobody else; administrators may take all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rackless.api.access.rbac import MASTERS
from rackless.api.kinds.kind import Caller
from rackless.api.metrics import Metrics, RequestSubject
from rackless.api.status import too_many

MOST_READING, MOST_WRITING = 400, 200
MOST_WATCHING_EACH = 1000
"""Watches of one caller. Each is a connection of its own."""
_SHARE = 4
"""One caller has one of so many requests in flight at most."""
_OTHER = RequestSubject("")
_READING = ("get", "list")


class SeenRequest:
    __slots__ = ("_kind", "_who", "asked")

    def __init__(self) -> None:
        self.asked = _OTHER
        self._kind = ""
        self._who = ""

    def enter(self, metrics: Metrics, caller: Caller) -> Callable[[RequestSubject], None]:
        """To be called with what is asked when that is known and allowed. Raises Refused when too many are at it."""

        def entered(asked: RequestSubject) -> None:
            self.asked = asked
            kind, most, each = _bounds(asked.verb)
            own = metrics.of_callers[kind, caller.name]
            if (own >= each and MASTERS not in caller.groups) or metrics.inflight.get(kind, 0) >= most:
                metrics.refused += 1
                raise too_many()
            self._kind, self._who = kind, caller.name
            metrics.of_callers[kind, caller.name] += 1
            if kind == "watch":
                metrics.watches[asked] = metrics.watches.get(asked, 0) + 1
            else:
                metrics.inflight[kind] += 1

        return entered

    def leave(self, metrics: Metrics) -> None:
        if not self._kind:
            return
        metrics.of_callers[self._kind, self._who] -= 1
        if not metrics.of_callers[self._kind, self._who]:
            del metrics.of_callers[self._kind, self._who]
        if self._kind == "watch":
            metrics.watches[self.asked] -= 1
        else:
            metrics.inflight[self._kind] -= 1


def _bounds(verb: str) -> tuple[str, float, int]:
    """What a verb counts as, how many of these there may be, and how many of one caller."""
    if verb == "watch":
        return "watch", math.inf, MOST_WATCHING_EACH
    kind, most = ("readOnly", MOST_READING) if verb in _READING else ("mutating", MOST_WRITING)
    return kind, most, max(1, most // _SHARE)
