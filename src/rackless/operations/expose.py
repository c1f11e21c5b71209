"""`rackless expose`: port forwards from the hypervisor into a lab. They are written into the ledger, then the holder opens them;
`unexpose` is the reverse.

Other tools reach BMCs, APIs and nodes through them: on this computer's loopback, or on an address that the person named.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from rackless.codec import BadValue, decode, encode
from rackless.errors import InputError, LabError
from rackless.lab.api_forward import read_port
from rackless.lab.forwards import Followed, FollowLedger, listed, own, strike
from rackless.operations.lab_registry import current_plan, locked, require_lab, require_root
from rackless.plan.exposure import LOOPBACK, Forward, InnerPlace, What, forwards, places
from rackless.ports.drivers import Drivers
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots

TRIES = 8
"""How often other ports are chosen when another program listens on one."""
ANSWER_WITHIN = 20.0
_OPENING = "what is behind them is reached by everybody on this computer then, or by others"
"""Seconds for the holder to open or close some ports."""


@dataclass(frozen=True, slots=True)
class Exposed:
    forwards: tuple[Forward, ...]
    open: bool
    """False when the lab does not run: the holder opens its ports when it starts."""


async def expose(
    name: str,
    what: What,
    roots: Roots,
    drivers: Drivers,
    *,
    servers: Sequence[str] = (),
    address: str = LOOPBACK,
    port: int | None = None,
) -> Exposed:
    """Have ports of the hypervisor lead to `what` of the lab; of BMCs and nodes to some `servers`, else to all."""
    paths = require_lab(name, roots)
    require_root("open ports of this computer", drivers.computer, why=_OPENING)
    address = _checked(address)
    with locked(paths, drivers.processes):
        ledger = Ledger(paths.ledger)
        known = listed(ledger)
        wanted = [place for place in places(current_plan(paths), what) if not servers or place.name in servers]
        if missing := set(servers) - {place.name for place in wanted}:
            there = ", ".join(place.name for place in places(current_plan(paths), what))
            raise InputError(f"there is no {', '.join(sorted(missing))} to expose", why=f"there is {there}")
        taken = _taken(roots)
        for _ in range(TRIES):
            made = _choose(wanted, address, port, taken, known)
            _refuse_taken(made, paths)
            new = [one for one in made if one not in known]
            for one in new:
                own(ledger, one)
            followed = await _tell_holder(paths, FollowLedger())
            failed = [one for one in new if followed is not None and one.id in followed.failed]
            if not failed:
                return Exposed(tuple(made), open=followed is not None)
            await _close(paths, ledger, new)
            if port is not None:
                break
            taken |= {one.port for one in failed}  # another program's: the next ones are tried
        assert followed is not None
        raise LabError(
            f"{failed[0].place} cannot be listened at",
            why=followed.failed[failed[0].id],
            hint="choose another --port or --address; `ss -lntup` shows who has it",
        )


def _choose(
    wanted: Sequence[InnerPlace], address: str, port: int | None, taken: Collection[int], known: Sequence[Forward]
) -> list[Forward]:
    try:
        return forwards(wanted, address, port, taken, known)
    except LookupError as error:
        raise LabError(str(error), hint="say --port, or `rackless unexpose` what nobody needs") from error


async def unexpose(
    name: str, roots: Roots, drivers: Drivers, *, what: What | None = None, servers: Sequence[str] = ()
) -> list[Forward]:
    """Close these ports, or all; returns those that were closed."""
    paths = require_lab(name, roots)
    require_root("close ports of this computer", drivers.computer, why=_OPENING)
    with locked(paths, drivers.processes):
        ledger = Ledger(paths.ledger)
        gone = [one for one in listed(ledger) if what in (None, one.what) and (not servers or one.name in servers)]
        await _close(paths, ledger, gone)
        return gone


def exposed(name: str, roots: Roots) -> list[Forward]:
    return listed(Ledger(require_lab(name, roots).ledger))


async def _close(paths: LabPaths, ledger: Ledger, gone: Sequence[Forward]) -> None:
    """Strike forwards from the ledger once they are closed: a port that is open is always in the ledger."""
    await _tell_holder(paths, FollowLedger(tuple(one.id for one in gone)))
    for one in gone:
        strike(ledger, one)


async def _tell_holder(paths: LabPaths, asked: FollowLedger) -> Followed | None:
    """None when no holder runs."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            reader, writer = await asyncio.open_unix_connection(str(paths.doors_socket))
            try:
                writer.write(json.dumps(encode(asked)).encode() + b"\n")
                await writer.drain()
                return decode(Followed, json.loads(await reader.readline()))
            finally:
                writer.close()
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    except (OSError, TimeoutError, ValueError, BadValue) as error:
        raise LabError(
            "the lab's holder does not open or close ports",
            why=str(error) or "it did not answer",
            hint="`rackless up` starts it again; it opens what the ledger lists",
        ) from error


def _checked(address: str) -> str:
    try:
        return str(ip_address(address))
    except ValueError as error:
        raise InputError(f"{address} is no address", hint="`ip -brief address` shows this computer's") from error


def _taken(roots: Roots) -> set[int]:
    """Ports in the ledgers of all labs of this computer, running or not."""
    found: set[int | None] = set()
    for lab in roots.labs():
        paths = LabPaths(roots, lab)
        found |= {one.port for one in listed(Ledger(paths.ledger))}
        found |= {_port(door) for door in paths.doors}
    return {port for port in found if port is not None}


def _port(door: Path) -> int | None:
    try:
        return read_port(door)
    except PermissionError:
        return None


def _refuse_taken(made: Sequence[Forward], paths: LabPaths) -> None:
    for lab in paths.roots.labs():
        for one in listed(Ledger(LabPaths(paths.roots, lab).ledger)):
            for new in made:
                same = (one.what, one.name) == (new.what, new.name)
                if one.id == new.id and (lab != paths.name or not same):
                    raise LabError(
                        f"{new.place} is taken",
                        why=f"it leads to {one.what} {one.name} of the lab {lab}",
                        hint="choose another --port, or `rackless unexpose` that one",
                    )
