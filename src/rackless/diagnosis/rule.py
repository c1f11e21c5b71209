"""A rule says what is wrong, why, and what to do, from evidence that somebody collected. Pure: a rule never looks for itself.

Rules are data, one tuple for each family in `rules/`; `explain` runs them over one kind of evidence, worst first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, TypeVar

from rackless.diagnosis.remedy import Cure, Remedy

Seen = TypeVar("Seen")
"""The kind of evidence that rules of a family are about."""


class Depth(IntEnum):
    """How near to the root a cause is: what stands on something broken is told after it."""

    HYPERVISOR = 0
    DAEMON = 1
    NETWORK = 2
    BMC = 3
    HOST = 4
    CLUSTER = 5
    MACHINE = 6
    PERSON = 7
    """Somebody did it on purpose; nothing is broken."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that was seen: where, when (empty where nobody wrote it down), and the words."""

    source: str
    text: str
    at: str = ""


@dataclass(frozen=True, slots=True)
class RootCause:
    """What a rule found: one sentence about one subject, what it rests on, and what to do."""

    subject: str
    message: str
    evidence: tuple[Evidence, ...]
    remedy: str
    change: str = ""
    """What must be different before a cure is tried again; the message, where nothing better is known."""
    curable: bool = True
    """False where this time the rule's cure would be in vain, or is not ours to take."""


@dataclass(frozen=True, slots=True)
class CauseRule(Generic[Seen]):
    name: str
    """`family/what-is-wrong`."""
    symptom: str
    """What a person notices, for the reference."""
    depth: Depth
    find: Callable[[Seen], Iterable[RootCause]]
    untried: str = ""
    """Why the fault was never planted here, where it was not."""
    cure: Cure | None = None
    """What the lab can do about it by itself, where that is safe."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    rule: str
    depth: Depth
    cause: RootCause
    cure: Cure | None = None

    @property
    def fix(self) -> Remedy | None:
        """What we can do about it."""
        if self.cure is None or not self.cause.curable:
            return None
        return Remedy(self.rule, self.cause.subject, self.cure, self.cause.change or self.cause.message)

    def as_json(self) -> dict[str, Any]:
        return {
            "subject": self.cause.subject,
            "rule": self.rule,
            "message": self.cause.message,
            "evidence": [
                {"source": one.source, "text": one.text} | ({"at": one.at} if one.at else {})
                for one in self.cause.evidence
            ],
            "remedy": self.cause.remedy,
            "fix": self.fix.cure.value if self.fix is not None else None,
        }


def explain(rules: Sequence[CauseRule[Seen]], seen: Seen, subject: str = "") -> list[Diagnosis]:
    """Every cause that is there, the deepest first; of one subject when it is named (`host/ctrl-0`, or `ctrl-0`)."""
    found = [Diagnosis(rule.name, rule.depth, cause, rule.cure) for rule in rules for cause in rule.find(seen)]
    found = [one for one in found if not subject or subject in (one.cause.subject, one.cause.subject.partition("/")[2])]
    return sorted(found, key=lambda one: one.depth)
