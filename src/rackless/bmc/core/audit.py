"""The audit log of a BMC: one line for every request that may change something, with its client and its outcome.

Lines go to a private JSON-lines file in the lab's logs and, as notes, to the lab's events. A request's body is not logged,
but for a few words that are harmless (which reset, which boot device, which image without its credentials): passwords and
tokens cannot end up here.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from yarl import URL

from rackless.events import Bus, Note

_HARMLESS = {"ResetType", "BootSourceOverrideEnabled", "BootSourceOverrideTarget", "Inserted", "ResetKeysType"}
_LONGEST = 200
_LARGEST = 16 << 20
"""Bytes of the file; one older file is kept."""
_KNOCKS, _KNOCKS_PER_SECOND = 50, 2.0
"""Refusals of unknown clients that are written down: at once, and in the long run."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    protocol: str
    bmc: str
    client: str
    user: str | None
    action: str
    """A method and a path, or the name of a command."""
    outcome: str
    """The protocol's own code."""
    ok: bool
    server: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_of_a_stranger(self) -> bool:
        """Whether the entry is about an unauthenticated client."""
        return not self.ok and (self.user is None or self.action == "login")


class Audit:
    """The audit log. Refusals of unauthenticated clients are rate limited, and a large file is rotated: nobody can fill the disk
    by trying passwords."""

    def __init__(self, file: Path | None, bus: Bus, *, now: Callable[[], float] = lambda: time.monotonic()) -> None:
        self._bus = bus
        self._file = file
        self._now = now
        self._out: TextIO | None = None
        self._knocks = float(_KNOCKS)
        self._counted_at = now()
        self._left_out = 0
        self._failed = False
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._out = _open(file)

    def record(self, entry: AuditEntry) -> None:
        if entry.is_of_a_stranger and not self._may_knock():
            self._left_out += 1
            return
        line = {
            "at": round(time.time(), 3),
            **{name: getattr(entry, name) for name in ("protocol", "bmc", "server", "client", "user", "action")},
            "outcome": entry.outcome,
            "ok": entry.ok,
            **({"details": dict(entry.details)} if entry.details else {}),
            **({"left_out": self._left_out} if self._left_out else {}),
        }
        self._left_out = 0
        self._write(json.dumps(line) + "\n")
        what = " ".join(str(value) for value in entry.details.values())
        self._bus.publish(
            Note(
                None,
                f"{entry.server or entry.bmc}: {entry.action}{f' ({what})' if what else ''} by "
                f"{entry.user or 'nobody'} from {entry.client}: {entry.outcome}",
                time.time(),
                "progress",
            )
        )

    def close(self) -> None:
        if self._out is not None:
            with suppress(OSError):
                self._out.close()

    def _may_knock(self) -> bool:
        now = self._now()
        self._knocks = min(float(_KNOCKS), self._knocks + (now - self._counted_at) * _KNOCKS_PER_SECOND)
        self._counted_at = now
        if self._knocks < 1:
            return False
        self._knocks -= 1
        return True

    def _write(self, line: str) -> None:
        """A full disk is told once; the request was done, and its client hears so."""
        if self._out is None or self._file is None:
            return
        try:
            self._out.write(line)
            if self._out.tell() > _LARGEST:
                self._out.close()
                self._file.replace(self._file.with_name(self._file.name + ".1"))
                self._out = _open(self._file)
            self._failed = False
        except OSError as error:
            if not self._failed:
                self._bus.tell("audit-unwritten", file=str(self._file), why=str(error))
            self._failed = True


def _open(file: Path) -> TextIO:
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return os.fdopen(handle, "a", encoding="utf-8", buffering=1)


def harmless(body: object) -> dict[str, Any]:
    """The words of a request's body that may be written down."""
    found: dict[str, Any] = {}
    if not isinstance(body, dict):
        return found
    for name, value in body.items():
        if name == "Boot":
            found |= harmless(value)
        elif name == "Image" and isinstance(value, str):
            found[name] = _without_credentials(value)
        elif name in _HARMLESS and isinstance(value, str | bool):
            found[name] = value[:_LONGEST] if isinstance(value, str) else value
    return found


def _without_credentials(url: str) -> str:
    """Signed URLs carry their secret in the query."""
    try:
        return str(URL(url).with_user(None).with_query(None).with_fragment(None))[:_LONGEST]
    except ValueError:
        return "?"
