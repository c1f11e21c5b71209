"""Who changed what at a BMC: one line for every request that may change something, whatever became of it.

Lines go to a private JSON-lines file in the lab's logs and, as a passing remark, to the lab's events. What a client sent is
not written down, but for a few words that are known to be harmless (which reset, which boot device, which image without
its credentials): passwords and tokens cannot end up here.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from yarl import URL

from rackless.events import Bus, Note

_HARMLESS = {"ResetType", "BootSourceOverrideEnabled", "BootSourceOverrideTarget", "Inserted", "ResetKeysType"}
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Entry:
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


class Audit:
    def __init__(self, file: Path | None, bus: Bus) -> None:
        self._bus = bus
        self._out: TextIO | None = None
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            self._out = os.fdopen(handle, "a", encoding="utf-8", buffering=1)

    def record(self, entry: Entry) -> None:
        line = {
            "at": round(time.time(), 3),
            **{name: getattr(entry, name) for name in ("protocol", "bmc", "server", "client", "user", "action")},
            "outcome": entry.outcome,
            "ok": entry.ok,
            **({"details": dict(entry.details)} if entry.details else {}),
        }
        if self._out is not None:
            self._out.write(json.dumps(line) + "\n")
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
            self._out.close()


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
