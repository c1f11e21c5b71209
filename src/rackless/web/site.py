"""What one `rackless web` serves: which labs, with which drivers, in whose words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from rackless.errors import LabError
from rackless.events import Event
from rackless.operations.lab_registry import require_lab
from rackless.ports.drivers import Drivers
from rackless.run.paths import LabPaths, Roots
from rackless.web.access import WebAccess
from rackless.web.live import LabWatch

Wording = Callable[[Event], Mapping[str, Any]]
"""An event for a program, with its title or message in words."""


@dataclass
class Pictures:
    """Of screens. One of a lab is taken at a time: each is a start of virsh."""

    kept: dict[tuple[str, str], tuple[float, bytes]] = field(default_factory=dict)
    """By lab and server: when it was taken, and the picture."""
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)

    def lock(self, lab: str) -> asyncio.Lock:
        return self._locks.setdefault(lab, asyncio.Lock())


@dataclass
class WebSite:
    roots: Roots
    drivers: Drivers
    access: WebAccess
    wording: Wording
    only: str | None = None
    """The one lab that is shown; without it all that this computer has."""
    first: str | None = None
    """The lab that is shown first."""
    names: frozenset[str] = frozenset()
    """What a browser may call this host."""
    cookie: str = "rackless"
    tls: bool = False
    watches: dict[str, LabWatch] = field(default_factory=dict)
    pictures: Pictures = field(default_factory=Pictures)

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"

    def labs(self) -> list[str]:
        found = self.roots.labs()
        return [name for name in found if self.only is None or name == self.only]

    def paths(self, lab: str) -> LabPaths:
        """Raises UnknownLab, also for a lab that is there and not shown."""
        if lab not in self.labs():
            raise UnknownLab(f"there is no lab named {lab} here", hint="`rackless list` says which labs there are")
        return require_lab(lab, self.roots)


class UnknownLab(LabError):
    """A lab that is not served."""


SITE = web.AppKey("site", WebSite)
