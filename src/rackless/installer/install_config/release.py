"""Releases of the installer, as far as they matter here: which rules and fields exist in which."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rackless.errors import InputError


@dataclass(frozen=True, slots=True, order=True)
class Release:
    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


FIRST = Release(4, 6)
"""The first release whose bare-metal fields are the ones of today (provisioningNetwork, bootMode)."""
NEWEST = Release(5, 1)
RELEASES = (*(Release(4, minor) for minor in range(6, 24)), Release(5, 0), NEWEST)

STRICT_KEYS = Release(4, 22)
"""Unknown keys are rejected from here on; before, they are ignored with a warning."""


def parse(text: str) -> Release:
    """`4.19`, `v4.19`, `4.19.3` and `4.19.0-rc.1` are all 4.19."""
    found = re.match(r"v?(\d+)\.(\d+)(?:[.\-+].*)?$", text.strip())
    if not found:
        raise InputError(
            f"{text!r} is not a version of the installer",
            hint=f"say it as in `--version 4.19`; known: {FIRST} to {NEWEST}",
        )
    release = Release(int(found[1]), int(found[2]))
    if release < FIRST:
        raise InputError(
            f"version {release} is older than what is known here",
            why=f"bare metal before {FIRST} had other fields",
            hint=f"known: {FIRST} to {NEWEST}",
        )
    return release
