"""`rackless compare`: which steps took longer in one run of `up` than in another."""

from __future__ import annotations

from dataclasses import dataclass

from rackless.diagnosis.runs import Run

NOTICED_SECONDS = 1.0
NOTICED_PART = 0.1
"""A difference counts when it is more than a second and more than a tenth of the longer one: less is chance."""


@dataclass(frozen=True, slots=True)
class Difference:
    subject: str
    phase: str
    before: float | None
    """Seconds in the first run; None when it was not done in it."""
    after: float | None

    @property
    def seconds(self) -> float:
        return (self.after or 0.0) - (self.before or 0.0)

    @property
    def noticed(self) -> bool:
        longer = max(self.before or 0.0, self.after or 0.0)
        return abs(self.seconds) > NOTICED_SECONDS and abs(self.seconds) > NOTICED_PART * longer


def compare(before: Run, after: Run) -> list[Difference]:
    """Every step that either did, what became slower first, what became faster last."""
    first, second = _spent(before), _spent(after)
    found = [Difference(*key, first.get(key), second.get(key)) for key in first | second]
    return sorted(found, key=lambda one: (-one.seconds, one.subject, one.phase))


def _spent(run: Run) -> dict[tuple[str, str], float]:
    """Seconds by subject and phase; tries of the same are added up. Steps made of others are left out: those are counted."""
    spent: dict[tuple[str, str], float] = {}
    for span in run.leaves():
        if span.outcome != "unchanged" and span.ended is not None:
            key = span.subject, span.phase
            spent[key] = spent.get(key, 0.0) + span.ended - span.began
    return spent
