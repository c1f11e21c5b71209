"""What a person can ask of a lab's hosts and their BMCs, from the host's side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rackless.daemon.control_client import ControlClient
from rackless.daemon.known import locked, require_lab, require_root
from rackless.events import Bus
from rackless.run.paths import Roots


async def hosts(name: str, roots: Roots) -> list[dict[str, Any]]:
    paths = require_lab(name, roots)
    found: list[dict[str, Any]] = await ControlClient(paths.socket).look("hosts")
    return found


async def deprovision(name: str, host: str, roots: Roots, bus: Bus) -> None:
    paths = require_lab(name, roots)
    require_root("change a host")
    with locked(paths), bus.step(f"deprovision {host}") as step:
        await ControlClient(paths.socket).work("deprovision", bus, host=host, step=step.id)


async def faults(name: str, roots: Roots) -> list[dict[str, Any]]:
    """What goes wrong at the lab's BMCs because somebody asked for it."""
    found: list[dict[str, Any]] = await ControlClient(require_lab(name, roots).socket).look("faults")
    return found


async def add_fault(name: str, roots: Roots, **wish: Any) -> dict[str, Any]:
    paths = require_lab(name, roots)
    require_root("make BMCs fail")
    added: dict[str, Any] = await ControlClient(paths.socket).work("add-fault", Bus(), **wish)
    return added


async def clear_faults(name: str, roots: Roots, ids: Iterable[int]) -> int:
    paths = require_lab(name, roots)
    require_root("heal BMCs")
    gone: int = await ControlClient(paths.socket).work("clear-faults", Bus(), ids=list(ids))
    return gone
