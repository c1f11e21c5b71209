"""Automatic remediation: labd diagnoses the lab as `rackless why` does, and applies a safe remedy, once for each finding.

With `remediation: auto` labd does so regularly; else only when a person runs `rackless why --fix`. A try is written down before
it is begun, so that neither a restart of labd nor the next diagnosis repeats it for the same finding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rackless.diagnosis.lab_evidence import LabEvidence
from rackless.diagnosis.lab_rules import LAB_RULES
from rackless.diagnosis.remedy import Cure, Remedy, TriedRemedy, read_tried, tried_before
from rackless.diagnosis.rule import Diagnosis, explain
from rackless.errors import InputError, LabError, RacklessError
from rackless.events import Bus
from rackless.ports.clock import Clock
from rackless.protocol.messages import RemedyOutcome
from rackless.run.files import write
from rackless.spec.remediation import Remediation

LOOK_SECONDS = 30.0
KEPT = 200
"""How many tries the file keeps."""


class Repairs(Protocol):
    """The repairs that a running lab offers to remedies."""

    async def evidence(self) -> LabEvidence: ...

    async def start_parts(self) -> None: ...

    async def restart_server(self, name: str) -> None: ...

    async def retry_host(self, name: str) -> None: ...

    async def approve_request(self, name: str) -> None: ...


@dataclass
class LabRemedies:
    repairs: Repairs
    allowed: Remediation
    written: Path
    clock: Clock
    bus: Bus
    now: Callable[[], float] = lambda: time.time()
    _told: set[Remedy] = field(default_factory=set)
    """Remedies of which an event already said that they are not tried again."""

    async def watch(self) -> None:
        """Diagnose and apply remedies until cancelled; only with `remediation: auto`."""
        while self.allowed is Remediation.AUTO:
            await self.clock.sleep(LOOK_SECONDS)
            with suppress(RacklessError):  # what cannot be looked at now is looked at next time
                for found in await self._look():
                    if found.fix is not None:
                        await self._try(found, found.fix, "lab")

    async def apply(self, rule: str, subject: str) -> RemedyOutcome:
        """Apply the remedy that a person asked for, if the finding still holds."""
        if self.allowed is Remediation.OFF:
            raise LabError(
                "this lab does nothing about what is wrong with it",
                why="its description says remediation: off",
                hint="say `remediation: ask`, then `rackless up`",
            )
        found = [one for one in await self._look() if (one.rule, one.cause.subject) == (rule, subject)]
        if not found:
            return RemedyOutcome(False, "it is no longer so")
        if found[0].fix is None:
            raise InputError(f"nothing can be done for {subject} by itself", why=found[0].cause.message)
        return await self._try(found[0], found[0].fix, "person")

    async def _look(self) -> list[Diagnosis]:
        return explain(LAB_RULES, await self.repairs.evidence())

    async def _try(self, found: Diagnosis, remedy: Remedy, by: str) -> RemedyOutcome:
        tried = self._tried()
        if (before := tried_before(remedy, tried)) is not None:
            at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(before.at))
            why = f"it was tried at {at}, and nothing has changed since"
            if remedy not in self._told:
                self._told.add(remedy)
                self.bus.tell("remedy-in-vain", subject=remedy.subject, did=remedy.offer, why=why, rule=remedy.rule)
            return RemedyOutcome(False, why)
        did = remedy.offer
        try:
            self._write([*tried, TriedRemedy(remedy, self.now(), by)])
        except OSError as error:  # a full disk, which may well be what is wrong
            raise LabError(
                f"not done: {did}", why=f"it cannot be written down before: {error.strerror}", hint="make room first"
            ) from error
        try:
            with self.bus.step(remedy.cure.value, subject=remedy.subject):
                await self._carry_out(remedy)
        except RacklessError as error:
            self.bus.tell("remedy-failed", subject=remedy.subject, did=did, why=error.what, rule=remedy.rule)
            raise
        self.bus.tell(
            "remedy-applied",
            level="info",
            subject=remedy.subject,
            did=did,
            why=found.cause.message,
            by=by,
            rule=remedy.rule,
        )
        return RemedyOutcome(True, did)

    async def _carry_out(self, remedy: Remedy) -> None:
        match remedy.cure:
            case Cure.START_PARTS:
                await self.repairs.start_parts()
            case Cure.RESTART_SERVER:
                await self.repairs.restart_server(remedy.name)
            case Cure.RETRY_HOST:
                await self.repairs.retry_host(remedy.name)
            case Cure.APPROVE_REQUEST:
                await self.repairs.approve_request(remedy.name)
            case Cure.START_DAEMON:
                raise LabError("the lab's daemon runs: it cannot start itself")

    def _tried(self) -> list[TriedRemedy]:
        return read_tried(self.written.read_text()) if self.written.exists() else []

    def _write(self, tried: Sequence[TriedRemedy]) -> None:
        write(self.written, "".join(one.to_line() for one in tried[-KEPT:]))
