"""The error family: every failure a person can meet, with what they need to act on it.

    RacklessError                 exit code
    ├── InputError            2   what we were given is wrong (arguments, lab.yaml)
    │   └── SpecError         2   … every problem of a spec at once
    ├── HypervisorError       3   this computer lacks something: root, a package, space, memory
    ├── LabError              4   the lab is not in a state where this can be done
    ├── CommandFailed         5   a program of someone else failed
    ├── ProvisioningFailed    6   a host could not be brought to where it was wanted
    ├── GaveUp                7   we waited for something and it did not come
    └── Interrupted         130   a person stopped us

A command that looks for trouble and finds some (`check`, `doctor`, `why`) ends with 10: nothing went wrong, something is.

An error says what is wrong, why it matters, and what to do. It is raised where the facts are known and
shown once, by `rackless.cli.failure`. This module knows nothing of the rest of the package.
"""

from __future__ import annotations

import errno
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FINDINGS = 10
"""The exit code of a look that found something."""

EXIT_CODES = {
    0: "done; nothing found",
    1: "a mistake in rackless itself; please report it",
    2: "the input is wrong: arguments, options or a file that was given",
    3: "this computer lacks something: root, a package, space, memory",
    4: "the lab is not in a state where this can be done",
    5: "a program of someone else failed",
    6: "a host could not be provisioned",
    7: "something was waited for and did not come",
    FINDINGS: "findings: `check`, `doctor`, `why` or `rehearse` looked and found something",
    130: "interrupted",
}


class RacklessError(Exception):
    """A failure for a person: `what` is one sentence, `why` the facts behind it, `hint` what to do next."""

    exit_code = 1

    def __init__(self, what: str, *, why: str = "", hint: str = "", log: Path | str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.hint = hint
        self.log = str(log) if log else ""

    def __str__(self) -> str:
        return f"{self.what}: {self.why}" if self.why else self.what


class InputError(RacklessError):
    exit_code = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a file: where it is, by path and by line, and what would be right."""

    path: str
    message: str
    line: int | None = None
    hint: str = ""


class SpecError(InputError):
    """A spec with problems; all of them, so that a person mends the file once."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        count = len(problems)
        super().__init__(
            f"{source} has {count} problem{'s' if count != 1 else ''}",
            why="\n".join(
                f"{source}{f':{p.line}' if p.line else ''}: {p.path or '(top)'}: {p.message}"
                + (f" ({p.hint})" if p.hint else "")
                for p in problems
            ),
            hint="mend the file and run the same command again; nothing was changed",
        )
        self.source = source
        self.problems = tuple(problems)


class HypervisorError(RacklessError):
    exit_code = 3


MachineError = HypervisorError
"""Deprecated: its name in what a labd of an earlier version answers, and in programs that catch it."""


class LabError(RacklessError):
    exit_code = 4


class CommandFailed(RacklessError):
    """A program failed. Carries the line that replays it and the last thing it said."""

    exit_code = 5

    def __init__(self, argv: Sequence[str], code: int, output: str, *, hint: str = "") -> None:
        ended = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        tail = "\n".join(output.strip().splitlines()[-12:])
        super().__init__(
            f"{Path(argv[0]).name} {ended}",
            why=tail or "it printed nothing",
            hint=hint or f"to replay: {shlex.join(argv)}",
        )
        self.argv = tuple(argv)
        self.code = code
        self.output = output


class ProvisioningFailed(RacklessError):
    exit_code = 6


class GaveUp(RacklessError):
    """A wait that ended without what it waited for; `last` is what was seen last."""

    exit_code = 7

    def __init__(self, what: str, seconds: float, last: str = "", *, hint: str = "") -> None:
        super().__init__(
            f"gave up waiting for {what} after {seconds:.0f} s",
            why=f"last seen: {last}" if last else "",
            hint=hint,
        )


class Interrupted(RacklessError):
    exit_code = 130


_DISKS = {
    errno.ENOSPC: "there is no room left on the disk",
    errno.EDQUOT: "there is no room left on the disk for this user",
    errno.EROFS: "the disk is read-only",
    errno.EIO: "the disk does not read or write what it is told to",
}


def known(error: BaseException) -> RacklessError | None:
    """The error itself when it is one of ours, or the first of ours in a group of parallel failures; a disk that refuses is
    this computer's lack, whoever met it."""
    if isinstance(error, RacklessError):
        return error
    if isinstance(error, OSError) and error.errno in _DISKS:
        return HypervisorError(
            _DISKS[error.errno],
            why=f"{error.filename or 'a file'} could not be written",
            hint="mend that and run the same command again: it goes on where it was",
        )
    if isinstance(error, BaseExceptionGroup):
        return next((found for inner in error.exceptions if (found := known(inner)) is not None), None)
    return None
