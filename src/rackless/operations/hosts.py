"""What a person can ask of a lab's hosts and their BMCs, from outside the lab."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rackless.bmc.fault_desk import CONTROL
from rackless.errors import InputError
from rackless.events import Bus
from rackless.lab.user_images import read_user_data
from rackless.operations.lab_registry import require_lab
from rackless.operations.offering import offer
from rackless.operations.several import side_by_side
from rackless.protocol import messages as say
from rackless.protocol.client import ControlClient
from rackless.protocol.messages import FaultStatus, FaultWish, HostDone, HostWish, Record, WishedImage
from rackless.run.paths import Roots
from rackless.spec.images import ImageSpec, image_problems


async def hosts(name: str, roots: Roots) -> tuple[Record, ...]:
    paths = require_lab(name, roots)
    return (await ControlClient(paths.socket).look(say.HOSTS)).hosts


async def object_events(name: str, kind: str, object_name: str, roots: Roots) -> tuple[Record, ...]:
    """Kubernetes Events of the lab's APIs about one object, or about all where none is named; the latest first."""
    client = ControlClient(require_lab(name, roots).socket)
    return (await client.work(say.OBJECT_EVENTS, say.WantObjectEvents(kind, object_name), Bus())).events


async def wish(name: str, asked: HostWish, roots: Roots, bus: Bus) -> HostDone:
    """Ask something of one host, and wait for it if that is wished."""
    paths = require_lab(name, roots)
    with bus.step(f"{asked.verb} {asked.host}") as step:
        client = ControlClient(paths.socket)
        done = await client.work(say.HOST, asked, bus, step=step.id, hear=[f"host/{asked.host}"])
        if not done.changed:
            step.unchanged(f"it is {done.state}")
        else:
            step.detail = f"it is {done.state or 'new'}"
    return done


async def wish_all(name: str, wishes: Sequence[HostWish], roots: Roots, bus: Bus) -> list[HostDone]:
    """Ask something of several hosts, side by side."""
    done = await side_by_side({asked.host: wish(name, asked, roots, bus) for asked in wishes})
    return [one for _, one in done]


async def provision(
    name: str,
    hosts: Sequence[str],
    image: ImageSpec,
    roots: Roots,
    bus: Bus,
    *,
    user_data: Path | None,
    replace: bool,
    wait: bool,
) -> list[HostDone]:
    """Put an image of one's own on hosts; a file is offered to the lab first."""
    text = read_user_data(user_data) if user_data is not None else ""
    given = await _offer(name, image, roots, bus)
    wishes = [HostWish("provision", host, wait, image=given, user_data=text, replace=replace) for host in hosts]
    return await wish_all(name, wishes, roots, bus)


async def adopt(
    name: str, hosts: Sequence[str], image: ImageSpec | None, roots: Roots, bus: Bus, *, wait: bool
) -> list[HostDone]:
    given = await _offer(name, image, roots, bus) if image is not None else None
    return await wish_all(name, [HostWish("adopt", host, wait, image=given) for host in hosts], roots, bus)


async def _offer(name: str, image: ImageSpec, roots: Roots, bus: Bus) -> WishedImage:
    paths = require_lab(name, roots)
    if problems := list(image_problems(image, "image")):
        raise InputError(problems[0].message, hint=problems[0].hint or "give it with --checksum")
    if image.is_path:
        with bus.step("your image") as step:
            step.progress("computing its checksum")
            image = await offer(image, paths)
    return WishedImage(image.url, image.checksum, image.format.value if image.format is not None else None)


def lab_socket(name: str, roots: Roots) -> Path:
    return require_lab(name, roots).socket


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


async def faults(socket: Path) -> tuple[FaultStatus, ...]:
    """What goes wrong at BMCs because somebody asked for it."""
    return (await ControlClient(socket).look(say.FAULTS)).faults


async def add_fault(socket: Path, asked: FaultWish) -> FaultStatus:
    return await ControlClient(socket).work(say.ADD_FAULT, asked, Bus())


async def clear_faults(socket: Path, ids: Iterable[int]) -> int:
    return (await ControlClient(socket).work(say.CLEAR_FAULTS, say.ClearFaults(tuple(ids)), Bus())).cleared
