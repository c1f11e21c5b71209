"""What a person can ask of a lab's hosts and their BMCs, from the host's side."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rackless.daemon.control_client import ControlClient
from rackless.daemon.known import locked, require_lab, require_root
from rackless.errors import InputError
from rackless.events import Bus
from rackless.run.paths import Roots

CONTROL = "control"
"""The control socket of `rackless bmc serve`, in its folder."""


async def hosts(name: str, roots: Roots) -> list[dict[str, Any]]:
    paths = require_lab(name, roots)
    found: list[dict[str, Any]] = await ControlClient(paths.socket).look("hosts")
    return found


async def deprovision(name: str, host: str, roots: Roots, bus: Bus) -> None:
    paths = require_lab(name, roots)
    require_root("change a host")
    with locked(paths), bus.step(f"deprovision {host}") as step:
        await ControlClient(paths.socket).work("deprovision", bus, host=host, step=step.id)


def lab_socket(name: str, roots: Roots, *, change: bool = False) -> Path:
    paths = require_lab(name, roots)
    if change:
        require_root("change how BMCs behave")
    return paths.socket


async def served_socket(folder: Path) -> Path:
    """Of a `rackless bmc serve` with this folder."""
    socket = folder / CONTROL
    if not await ControlClient(socket).alive():
        raise InputError(
            "no `rackless bmc serve` runs there",
            why=f"{socket} does not answer",
            hint="say --serving ADDRESS:PORT as it was started with, or its --state folder",
        )
    return socket


async def faults(socket: Path) -> list[dict[str, Any]]:
    """What goes wrong at BMCs because somebody asked for it."""
    found: list[dict[str, Any]] = await ControlClient(socket).look("faults")
    return found


async def add_fault(socket: Path, **wish: Any) -> dict[str, Any]:
    added: dict[str, Any] = await ControlClient(socket).work("add-fault", Bus(), **wish)
    return added


async def clear_faults(socket: Path, ids: Iterable[int]) -> int:
    gone: int = await ControlClient(socket).work("clear-faults", Bus(), ids=list(ids))
    return gone
