"""What a person can ask of a lab's hosts and their BMCs, from the host's side."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rackless.daemon.control_client import ControlClient
from rackless.daemon.fault_desk import CONTROL
from rackless.daemon.known import require_lab, require_root
from rackless.daemon.user_images import UserImages, read_user_data
from rackless.errors import InputError
from rackless.events import Bus
from rackless.run.paths import Roots
from rackless.spec.images import ImageSpec, image_problems


async def hosts(name: str, roots: Roots) -> list[dict[str, Any]]:
    paths = require_lab(name, roots)
    found: list[dict[str, Any]] = await ControlClient(paths.socket).look("hosts")
    return found


async def wish(name: str, verb: str, host: str, roots: Roots, bus: Bus, **arguments: Any) -> dict[str, Any]:
    """Ask something of one host; `wait` among the arguments says whether to wait for it."""
    paths = require_lab(name, roots)
    require_root("change a host")
    with bus.step(f"{verb} {host}") as step:
        client = ControlClient(paths.socket)
        done: dict[str, Any] = await client.work("host", bus, verb=verb, host=host, step=step.id, **arguments)
        if not done["changed"]:
            step.unchanged(f"it is {done['state']}")
        else:
            step.detail = f"it is {done['state'] or 'new'}"
    return done


async def provision(
    name: str,
    host: str,
    image: ImageSpec,
    roots: Roots,
    bus: Bus,
    *,
    user_data: Path | None,
    replace: bool,
    wait: bool,
) -> dict[str, Any]:
    """Put an image of one's own on a host; a file is offered to the lab first."""
    text = read_user_data(user_data) if user_data is not None else ""
    given = await _offer(name, image, roots, bus)
    return await wish(
        name, "provision", host, roots, bus, image=given, user_data=text, replace=replace, wait=wait
    )  # fmt: skip


async def adopt(name: str, host: str, image: ImageSpec | None, roots: Roots, bus: Bus, *, wait: bool) -> dict[str, Any]:
    given = await _offer(name, image, roots, bus) if image is not None else None
    return await wish(name, "adopt", host, roots, bus, image=given, wait=wait)


async def _offer(name: str, image: ImageSpec, roots: Roots, bus: Bus) -> dict[str, Any]:
    paths = require_lab(name, roots)
    require_root("change a host")
    if problems := list(image_problems(image, "image")):
        raise InputError(problems[0].message, hint=problems[0].hint or "give it with --checksum")
    with bus.step("your image") as step:
        step.progress("computing its checksum" if image.is_path else "")
        await UserImages(paths).offer(image)
    return image.model_dump(mode="json")


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
