"""What happened in a story, in order: who did what, when. Read by people, and hashed: the same seed gives the same trace."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

FAULT, WRONG = "FAULT", "WRONG"
"""Who, in a trace, when something was planted and when a demand is not met."""


class TraceLine(NamedTuple):
    at: float
    who: str
    what: str
    notable: bool = False
    """Told to people also when the rest is not."""

    def __str__(self) -> str:
        return f"{self.at:>10.3f} s  {self.who:<12} {self.what}"


@dataclass
class StoryTrace:
    folder: Path
    """Not named in the trace: another computer has another."""
    now: Callable[[], float] = lambda: 0.0
    lines: list[TraceLine] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._hidden = ((str(self.folder), "~"), (sys.executable, "python"))

    def note(self, who: str, what: str, *, notable: bool = False) -> None:
        for here, everywhere in self._hidden:
            what = what.replace(here, everywhere)
        self.lines.append(TraceLine(round(self.now(), 6), who, what, notable))

    def digest(self) -> str:
        whole = hashlib.sha256()
        for line in self.lines:
            whole.update(f"{line.at} {line.who} {line.what}\n".encode())
        return whole.hexdigest()[:16]

    def told(self, around: int = 3) -> Iterator[str]:
        """For a person, up to the first thing that was wrong: what people did, each fault and what was wrong with the calls right
        before it, and how many steps are left out between."""
        end = next((index for index, line in enumerate(self.lines) if line.who == WRONG), len(self.lines) - 1)
        shown: set[int] = set()
        for index, line in enumerate(self.lines[: end + 1]):
            if line.notable:
                before = {FAULT: around, WRONG: 2 * around}.get(line.who, 0)
                shown.update(range(max(0, index - before), index + 1))
        last = -1
        for index in sorted(shown):
            if index > last + 1:
                yield f"{'':>12}  … {index - last - 1} steps"
            yield str(self.lines[index])
            last = index
        if last + 1 < len(self.lines):
            yield f"{'':>12}  … {len(self.lines) - last - 1} steps until the end, {self.lines[-1].at:.0f} s"
