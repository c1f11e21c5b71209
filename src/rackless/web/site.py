"""What one `rackless web` serves: which labs, with which drivers, in whose words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from rackless.errors import LabError
from rackless.events import Event
from rackless.operations.lab_registry import recorded_spec, require_lab
from rackless.plan.addressing import plan_lab
from rackless.plan.model import LabPlan
from rackless.ports.drivers import Drivers
from rackless.run.ledger import Ledger
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
    plans: dict[str, tuple[object, LabPlan | None]] = field(default_factory=dict)
    """By lab: of which version of its files, and the plan."""
    pictures: Pictures = field(default_factory=Pictures)
    captures: set[str] = field(default_factory=set)
    """The labs in which somebody records packets now."""

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

    def plan(self, lab: str) -> LabPlan | None:
        """What follows from its description; worked out again when that changes or servers were made on demand."""
        paths = self.paths(lab)
        version = (_changed(paths.spec), _changed(paths.grown))
        if (known := self.plans.get(lab)) is not None and known[0] == version:
            return known[1]
        spec = recorded_spec(paths)
        grown = [entry.id for entry in Ledger(paths.grown).entries()]
        plan = plan_lab(spec).grown(grown) if spec is not None else None
        self.plans[lab] = (version, plan)
        return plan


def _changed(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size


class UnknownLab(LabError):
    """A lab that is not served."""


SITE = web.AppKey("site", WebSite)
