"""What `openshift-install` wrote about its last run: the lines of its log. Only read; secrets in them are blotted out.

The installer appends to one log, and a run begins where it says how it was called. The last that installed counts, or that failed.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rackless.errors import InputError

LOG = ".openshift_install.log"
_LINE = re.compile(r'^(?:time="?(?P<at>[^" ]+)"? )?level=(?P<level>\w+) msg=(?P<message>".*"|.*)$')
_SECRETS = (
    re.compile(r"(?i)(password: *\\*\")(?:\\.|[^\"\\])+"),  # of kubeadmin, at the end of a run
    re.compile(
        r"(?i)((?:password|pullSecret): Invalid value: ).*(?=: )"
    ),  # the installer shows the value that it refuses
    re.compile(r"(?i)(\\*\"auth\\*\": *\\*\")[^\"\\]+"),
    re.compile(r"(://[^/\s:@]+:)[^@/\s]+(?=@)"),
)
_MOST_BYTES = 16 << 20
_LONGEST = 8192
"""Letters of a line; nobody reads more, and every rule looks at every line."""
_BEGINNING = "Running: "
_INSTALLING = re.compile(r" (create cluster|wait-for)\b")
_GATHERING = re.compile(r" (gather|analyze)\b")


@dataclass(frozen=True, slots=True)
class InstallerLine:
    at: str
    level: str
    message: str


@dataclass(frozen=True, slots=True)
class InstallerRun:
    source: str
    """The log's name, for evidence."""
    lines: tuple[InstallerLine, ...]

    def matches(self, pattern: str, *levels: str) -> Iterator[tuple[InstallerLine, re.Match[str]]]:
        """Lines whose message fits, in order."""
        for line in self.lines:
            if (not levels or line.level in levels) and (found := re.search(pattern, line.message)):
                yield line, found

    def last(self, pattern: str, *levels: str) -> tuple[InstallerLine, re.Match[str]] | None:
        return next(iter(reversed(list(self.matches(pattern, *levels)))), None)

    @property
    def complete(self) -> bool:
        return self.last(r"^Install complete!") is not None

    @property
    def failed(self) -> bool:
        """Whether the run ended by an error of the installer's own."""
        return any(line.level in ("error", "fatal") for line in self.lines)


def parse_run(source: str, text: str) -> InstallerRun:
    runs: list[list[InstallerLine]] = [[]]
    for raw in text.splitlines():
        if (found := _LINE.match(raw)) is None:
            continue
        message = found["message"]
        if message.startswith('"'):
            if not message.endswith('"') or len(message) == 1:  # half a line, where the log was cut off
                continue
            message = message[1:-1].replace('\\"', '"')
        if message.startswith(_BEGINNING) and not (runs[-1] and _GATHERING.search(message)):
            runs.append([])  # what is gathered after a failure, or cannot be, belongs to it
        runs[-1].append(InstallerLine(found["at"] or "", found["level"], _without_secrets(message.strip()[:_LONGEST])))
    return InstallerRun(source, tuple(next((run for run in reversed(runs) if _tells(run)), ())))


def _without_secrets(message: str) -> str:
    for secret in _SECRETS:
        message = secret.sub(r"\1…", message)
    return message


def _tells(run: list[InstallerLine]) -> bool:
    """Whether a run says how the installation stands: cleaning up after a failure that went well does not undo the failure."""
    if not run:
        return False
    called = run[0].message
    return not called.startswith(_BEGINNING) or bool(_INSTALLING.search(called)) or run[-1].level in ("error", "fatal")


def read_run(folder: Path) -> InstallerRun:
    """Raises InputError where no installer has run."""
    log = folder / LOG
    try:
        if log.exists() and not log.is_file():  # a pipe would be waited for
            raise OSError(errno.EINVAL, "it is no file")
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _MOST_BYTES))
            text = file.read().decode(errors="replace")
        text = text[: text.rfind("\n") + 1]  # half a line may be written
    except OSError as error:
        raise InputError(
            f"there is no run of openshift-install in {folder}",
            why=f"{log}: {error.strerror}",
            hint="name the folder that was given to the installer with --dir",
        ) from error
    return parse_run(LOG, text)
