"""What is known of an install that its bootstrap machine goes through: consoles, objects of its API, what it did not answer.

From an archive of `rackless install gather bootstrap`, or, of a lab whose install goes on, from the consoles alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from rackless.protocol.messages import Record

MARK = "BOOTSTRAP "
"""Before what the parts of a bootstrap machine tell, one JSON object a line (`cluster/bootstrap/telling.py`)."""
BOOTSTRAP = "-bootstrap"
"""The end of the machine's name."""


@dataclass(frozen=True, slots=True)
class BootstrapEvidence:
    name: str
    """Of the install."""
    told: Mapping[str, Sequence[Mapping[str, Any]]]
    """By machine, what it told on its console, in order."""
    ended: bool
    """Whether it was given up: what is only not yet done is wrong then."""
    hosts: Sequence[Record] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """What the machine answered: `journal.txt`, `ironic.log`, `addresses.txt`."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """What could not be had, and why."""

    @property
    def machine(self) -> str:
        return next((name for name in self.told if name.endswith(BOOTSTRAP)), f"{self.name}{BOOTSTRAP}")

    @property
    def own(self) -> Sequence[Mapping[str, Any]]:
        """What the bootstrap machine itself told."""
        return self.told.get(self.machine, ())

    def phase(self, name: str, machine: str = "") -> Mapping[str, Any] | None:
        """The last time that it came there."""
        lines = self.told.get(machine, ()) if machine else self.own
        return next((each for each in reversed(lines) if each.get("phase") == name), None)

    @property
    def failed(self) -> str:
        """What it said last of why it cannot go on."""
        return next((str(each["failed"]).strip() for each in reversed(self.own) if "failed" in each), "")


def read_console(text: str) -> list[dict[str, Any]]:
    """Whatever is not ours, or was cut in two by the kernel, is passed over."""
    found = []
    for line in text.splitlines():
        _, mark, told = line.partition(MARK)
        try:
            value = json.loads(told) if mark else None
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def read_archive(name: str, files: Mapping[str, bytes]) -> BootstrapEvidence:
    """Raises ValueError where a file is not what it should be."""
    texts = {path: data.decode(errors="replace") for path, data in files.items()}
    told = {
        PurePath(path).stem: read_console(text) for path, text in sorted(texts.items()) if path.startswith("console/")
    }
    return BootstrapEvidence(
        name=name,
        told=told,
        ended=True,
        hosts=tuple(json.loads(texts.get("objects/BareMetalHost.json", "[]"))),
        files={path.removeprefix("machine/"): text for path, text in texts.items() if path.startswith("machine/")},
        absent=json.loads(texts.get("absent.json", "{}")),
    )
