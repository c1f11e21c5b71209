"""What a live check says: what it did, what it saw, what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProbeOutcome(StrEnum):
    OK = "ok"
    FAILED = "failed"
    WARNING = "warning"
    UNKNOWN = "unknown"
    """It could not be tried; `saw` says why."""


@dataclass(frozen=True, slots=True)
class Probe:
    subject: str
    outcome: ProbeOutcome
    did: str
    saw: str
    fix: str = ""
    path: str = ""
    """The field of the install-config this is about."""


def ok(subject: str, did: str, saw: str, path: str = "") -> Probe:
    return Probe(subject, ProbeOutcome.OK, did, saw, "", path)


def failed(subject: str, did: str, saw: str, fix: str, path: str = "") -> Probe:
    return Probe(subject, ProbeOutcome.FAILED, did, saw, fix, path)


def warning(subject: str, did: str, saw: str, fix: str, path: str = "") -> Probe:
    return Probe(subject, ProbeOutcome.WARNING, did, saw, fix, path)


def unknown(subject: str, did: str, saw: str, fix: str = "", path: str = "") -> Probe:
    return Probe(subject, ProbeOutcome.UNKNOWN, did, saw, fix, path)
