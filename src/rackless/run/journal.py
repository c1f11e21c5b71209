"""The journal of a lab: which stages are done and which actions were begun, a line for each. After a kill it says where `up` was.

A stage that was done once counts as reached until the lab is destroyed; an action that was begun and neither done nor failed was
cut off. Each run begins a new file with what was reached before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rackless.plan.actions import Action, Verb
from rackless.plan.stages import GOALS, reached_goal, stages_of, upto
from rackless.run.files import write

_VERBS = frozenset(verb.value for verb in Verb)
"""The verbs that this version knows; a line of a newer version may have another, and is passed over."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a journal says."""

    reached: frozenset[str] = frozenset()
    """Stages that were done at least once."""
    cut_off: tuple[Action, ...] = ()
    """Actions that were begun and have not ended; when no `up` runs now, they were interrupted."""
    failed: str = ""
    """How the last run ended, if not well."""

    @property
    def goal(self) -> str | None:
        return reached_goal(self.reached)


class Journal:
    def __init__(self, path: Path, old: Path) -> None:
        """`old` is the file `goal`, in which earlier versions kept how far the lab is."""
        self.path = path
        self._old = old

    def read(self) -> Told:
        lines = list(self._lines())
        if not lines:
            return Told(self._of_before())
        reached: set[str] = set()
        begun: dict[str, Action] = {}
        failed = ""
        for line in lines:
            match line:
                case {"reached": list(stages)}:
                    reached.update(map(str, stages))
                case {"begun": str(subject), "verb": str(verb), "reason": str(reason)} if verb in _VERBS:
                    begun[subject] = Action(subject, Verb(verb), reason)
                    failed = ""
                case {"ended": str(subject)}:
                    begun.pop(subject, None)
                case {"failed": str(why)}:
                    failed = why
        return Told(frozenset(reached), tuple(begun.values()), failed)

    def begin(self) -> None:
        """A run begins: what was reached before is kept, the story of the last run is not."""
        reached = sorted(self.read().reached)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write(self.path, json.dumps({"reached": reached}) + "\n")

    def reach(self, stage: str) -> None:
        """Written once: in a lab that is whole, an `up` writes nothing and waits for no disk."""
        if stage not in self.read().reached:
            self._append({"reached": [stage]}, sync=True)

    @contextmanager
    def carrying_out(self, actions: Sequence[Action]) -> Iterator[None]:
        for action in actions:
            self._append({"begun": action.subject, "verb": action.verb.value, "reason": action.reason})
        try:
            yield
        except Exception as error:
            self._append({"failed": str(error).partition("\n")[0]})
            raise
        finally:
            for action in actions:
                self._append({"ended": action.subject})

    def _of_before(self) -> frozenset[str]:
        with suppress(FileNotFoundError):
            if (goal := self._old.read_text().strip()) in GOALS:
                return frozenset(stages_of(upto(goal)))
        return frozenset()

    def _lines(self) -> Iterator[dict[str, Any]]:
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return
        for line in text.splitlines():
            with suppress(ValueError):  # the last one, when the computer went off while it was written
                if isinstance(found := json.loads(line), dict):
                    yield found

    @staticmethod
    def _ends_a_line(file: BinaryIO) -> bool:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"

    def _append(self, line: dict[str, Any], *, sync: bool = False) -> None:
        with self.path.open("a+b") as file:
            if file.seek(0, os.SEEK_END) and not self._ends_a_line(file):
                file.write(b"\n")
            file.write(json.dumps(line).encode() + b"\n")
            if sync:
                file.flush()
                os.fsync(file.fileno())


class Unwritten(Journal):
    """A journal that writes nothing: for the stages on the hypervisor's side, whose state is in the ledger."""

    def __init__(self) -> None:
        super().__init__(Path("/dev/null"), Path("/dev/null"))

    def read(self) -> Told:
        return Told()

    def begin(self) -> None: ...

    def _append(self, line: dict[str, Any], *, sync: bool = False) -> None: ...
