"""What a person does with one server: power, screenshot, serial console, packet capture. Run on the hypervisor."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rackless.errors import InputError, LabError
from rackless.events import Bus
from rackless.lab.capture import listener, record
from rackless.lab.screen import ppm_to_png
from rackless.operations.access import find_server, inside_command
from rackless.operations.lab_registry import current_plan, require_lab
from rackless.operations.output_files import open_output, write_output
from rackless.operations.several import side_by_side
from rackless.plan.model import PlannedNic, PlannedServer
from rackless.ports.console import Write
from rackless.ports.drivers import Drivers
from rackless.protocol import entrance
from rackless.protocol.client import ControlClient
from rackless.protocol.entrance import RecordInside
from rackless.protocol.messages import (
    CONSOLE,
    POWER,
    SCREEN,
    STATUS,
    ConsoleSeen,
    LookAt,
    PowerAction,
    PowerState,
    PressPower,
)
from rackless.run.paths import LabPaths, Roots

CAPTURE_STARTS_WITHIN = 60.0
"""Seconds for a process of its own to start and to end, on a computer that is busy."""


async def power(lab: str, server: str, action: PowerAction, roots: Roots) -> PowerState:
    paths = require_lab(lab, roots)
    return await ControlClient(paths.socket).work(POWER, PressPower(server, action), Bus())


async def power_all(lab: str, servers: Sequence[str], action: PowerAction, roots: Roots) -> list[PowerState]:
    """Switch the power of several servers in parallel. An unknown name is refused before any server is switched."""
    paths = require_lab(lab, roots)
    for server in servers:
        find_server(lab, server, paths)
    pressed = (power(lab, server, action, roots) for server in servers)
    return [done for _, done in await side_by_side(dict(zip(servers, pressed, strict=True)))]


def server_names(lab: str, roots: Roots) -> list[str]:
    return [server.name for server in current_plan(require_lab(lab, roots)).servers]


async def screenshot(lab: str, server: str, output: Path | None, roots: Roots, drivers: Drivers) -> dict[str, Any]:
    """Write a picture of the screen (PNG) into `output`. For an owner who is not root, labd takes it."""
    paths = require_lab(lab, roots)
    find_server(lab, server, paths)
    target = output or Path(f"{server}.png")
    if not drivers.computer.root():
        shown = await ControlClient(paths.socket).work(SCREEN, LookAt(server), Bus())
        return _kept(server, target, base64.b64decode(shown.png))
    scratch = paths.run / f"{server}.screen"
    command = inside_command(lab, ["virsh", "--quiet", "screenshot", server, str(scratch)], roots, drivers)
    done = await drivers.processes.run(command, check=False, within=30)
    if done.code:
        raise LabError(
            f"{server} shows no picture", why=done.stderr.strip(), hint=f"`rackless power {server} on` first"
        )
    data = scratch.read_bytes()
    scratch.unlink()
    return _kept(server, target, data if data.startswith(b"\x89PNG") else ppm_to_png(data))


def _kept(server: str, target: Path, picture: bytes) -> dict[str, Any]:
    write_output(target, picture, mode=0o644)
    return {"server": server, "file": str(target), "bytes": len(picture)}


@dataclass(frozen=True, slots=True)
class Seat:
    """An open console of a server. Without labd it shows the log, and nothing can be typed (`write` is None)."""

    on: bool
    heard: AsyncIterator[bytes]
    write: Write | None


@asynccontextmanager
async def console(lab: str, server: str, lines: int, roots: Roots, drivers: Drivers) -> AsyncIterator[Seat]:
    """Open a server's serial console, with its last lines; of a lab that is down, its log."""
    paths = require_lab(lab, roots)
    client = ControlClient(paths.socket)
    if await client.alive():
        async with client.console(server, lines) as (heard, write):
            found = (await client.look(STATUS)).servers
            yield Seat(any(one.name == server and one.power == "on" for one in found), heard, write)
        return
    find_server(lab, server, paths)
    heard, _ = drivers.open_consoles(paths.console).attach(server, lines)
    async with aclosing(heard):
        yield Seat(False, heard, None)


async def look_at_console(lab: str, server: str, lines: int, roots: Roots) -> ConsoleSeen:
    """Look at a console once, by asking labd, which an owner who is not root may do: its log, the terminal to type at while the
    server is on, its last lines."""
    paths = require_lab(lab, roots)
    return await ControlClient(paths.socket).work(CONSOLE, LookAt(server, lines), Bus())


async def find_terminal(lab: str, server: str, roots: Roots, drivers: Drivers) -> tuple[Path, Path | None]:
    """A server's console: its log, and the terminal to type at while it is on."""
    paths = require_lab(lab, roots)
    find_server(lab, server, paths)
    command = inside_command(lab, ["virsh", "--quiet", "ttyconsole", server], roots, drivers)
    done = await drivers.processes.run(command, check=False, within=30)
    terminal = done.stdout.strip()
    return paths.console(server), Path(terminal) if done.code == 0 and terminal else None


@dataclass(frozen=True, slots=True)
class CaptureWanted:
    seconds: float | None = None
    """None is until an interrupt."""
    network: str | None = None
    """Only at the NICs in this network; None is at all of them."""
    most_mib: int | None = None
    """The capture ends when the file has this size."""


def capture(
    lab: str, server: str, output: Path, wanted: CaptureWanted, cycle: bool, roots: Roots, drivers: Drivers
) -> dict[str, Any]:
    """Record a server's packets (pcap). Root enters the lab's network namespace for that, for the rest of the process; for an
    owner who is not root, a process inside the lab records into a file that the owner has opened."""
    paths = require_lab(lab, roots)
    nics = _nics(find_server(lab, server, paths), wanted.network)
    output = output.absolute()
    bridges, macs = tuple(dict.fromkeys(nic.bridge for nic in nics)), tuple(nic.mac for nic in nics)
    if cycle:
        asyncio.run(power(lab, server, "cycle", roots))
    most = wanted.most_mib << 20 if wanted.most_mib is not None else None
    asked = RecordInside(bridges, macs, wanted.seconds, most)
    with open_output(output) as file:
        if drivers.computer.root():
            count = _record(file, asked, paths, drivers)
        else:
            count = _have_recorded(file, asked, paths)
    return {"server": server, "file": str(output), "packets": count, "bytes": output.stat().st_size}


def _record(file: BinaryIO, asked: RecordInside, paths: LabPaths, drivers: Drivers) -> int:
    drivers.namespaces.visit(paths.netns)
    listeners, count = [listener() for _ in asked.bridges], [0]
    for one, bridge in zip(listeners, asked.bridges, strict=True):
        one.bind((bridge, 0))
    with suppress(KeyboardInterrupt):
        record(
            file, listeners, asked.macs, asked.seconds,
            told=lambda now: count.__setitem__(0, now), most_bytes=asked.most_bytes,
        )  # fmt: skip
    return count[0]


def _have_recorded(file: BinaryIO, asked: RecordInside, paths: LabPaths) -> int:
    with entrance.knock(paths.entrance, entrance.RECORD) as connection:
        entrance.ask(connection, asked, [file.fileno()])
        with suppress(KeyboardInterrupt):
            return entrance.read_end(connection)[0].packets
        connection.sendall(b"\0")  # that is enough
        return entrance.read_end(connection)[0].packets


async def capture_apart(
    lab: str, server: str, output: Path, wanted: CaptureWanted, roots: Roots, drivers: Drivers
) -> dict[str, Any]:
    """Record packets in a process of its own, `rackless capture`, for a caller that must stay in its own network namespace.
    Bounded in time."""
    paths = require_lab(lab, roots)
    _nics(find_server(lab, server, paths), wanted.network)
    assert wanted.seconds is not None
    command = [
        sys.executable,
        "-P",
        "-m",
        "rackless",
        "capture",
        server,
        "--name",
        lab,
        "--output",
        str(output),
        "--json",
    ]
    command += ["--seconds", str(wanted.seconds)]
    command += ["--network", wanted.network] if wanted.network is not None else []
    command += ["--most-mib", str(wanted.most_mib)] if wanted.most_mib is not None else []
    within = wanted.seconds + CAPTURE_STARTS_WITHIN
    done = await drivers.processes.run(command, env=roots.as_environment(), check=False, within=within)
    if done.code:
        raise LabError(f"the packets of {server} cannot be recorded", why=done.stderr.strip()[-500:])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _nics(server: PlannedServer, network: str | None) -> list[PlannedNic]:
    found = [nic for nic in server.nics if network is None or nic.network == network]
    if not found:
        known = ", ".join(dict.fromkeys(nic.network for nic in server.nics))
        raise InputError(f"{server.name} has no NIC in {network}", why=f"it is in {known}", hint="name one of those")
    return found
