"""One request as the metrics see it: its verb and resource, once they are known, and whether it counts as in flight.

As on the real server the number of requests in flight is limited; one more is answered with 429. Watches do not count:
they wait, and cost little while they do.
"""

from __future__ import annotations

from collections.abc import Callable

from rackless.api.metrics import Metrics, RequestSubject
from rackless.api.status import too_many

MOST_READING, MOST_WRITING = 400, 200
_OTHER = RequestSubject("")
_READING = ("get", "list")


class SeenRequest:
    __slots__ = ("_kind", "asked")

    def __init__(self) -> None:
        self.asked = _OTHER
        self._kind = ""

    def enter(self, metrics: Metrics) -> Callable[[RequestSubject], None]:
        """To be called with what is asked when that is known and allowed. Raises Refused when too many are at it."""

        def entered(asked: RequestSubject) -> None:
            self.asked = asked
            if asked.verb == "watch":
                self._kind = "watch"
                metrics.watches[asked] = metrics.watches.get(asked, 0) + 1
                return
            kind, most = ("readOnly", MOST_READING) if asked.verb in _READING else ("mutating", MOST_WRITING)
            if metrics.inflight[kind] >= most:
                metrics.refused += 1
                raise too_many()
            self._kind = kind
            metrics.inflight[kind] += 1

        return entered

    def leave(self, metrics: Metrics) -> None:
        if self._kind == "watch":
            metrics.watches[self.asked] -= 1
        elif self._kind:
            metrics.inflight[self._kind] -= 1
