"""`rackless expose`: port forwards from the hypervisor into a lab. They are written into the ledger, then the holder opens them;
`unexpose` is the reverse.

Other tools reach BMCs, APIs and nodes through them: on this computer's loopback, or on an address that the person named.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from rackless.codec import BadValue, decode, encode
from rackless.errors import InputError, LabError
from rackless.lab.api_forward import read_port
from rackless.lab.forwards import Followed, FollowLedger, listed, own, strike
from rackless.operations.access import unknown_server
from rackless.operations.lab_registry import current_plan, locked, require_lab, require_root
from rackless.plan.exposure import LOOPBACK, Forward, InnerPlace, What, forwards, places
from rackless.plan.model import LabPlan
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
        plan = current_plan(paths)
        _refuse_unknown(name, what, servers, plan)
        wanted = [place for place in places(plan, what) if not servers or place.name in servers]
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
            if followed is not None and followed.failed[failed[0].id] == os.strerror(errno.EADDRNOTAVAIL):
                raise InputError(
                    f"{address} is no address of this computer",
                    why=followed.failed[failed[0].id],
                    hint="`ip -brief address` shows this computer's",
                )
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
    known = {one.name for one in exposed(name, roots)}
    _refuse_unknown(name, what, [server for server in servers if server not in known], current_plan(paths))
    with locked(paths, drivers.processes):
        ledger = Ledger(paths.ledger)
        gone = [one for one in listed(ledger) if what in (None, one.what) and (not servers or one.name in servers)]
        await _close(paths, ledger, gone)
        return gone


def exposed(name: str, roots: Roots, *, what: What | None = None, servers: Sequence[str] = ()) -> list[Forward]:
    """What is exposed of the lab, or of these things and servers of it."""
    known = listed(Ledger(require_lab(name, roots).ledger))
    return [one for one in known if what in (None, one.what) and (not servers or one.name in servers)]


def names_to_resolve(name: str, roots: Roots) -> list[Forward]:
    """What is exposed under a DNS name. Raises LabError where there is none: a resolver that is told of no names in particular
    may ask for all of them."""
    if found := [one for one in exposed(name, roots) if one.host]:
        return found
    raise LabError(
        "nothing is exposed that has a name",
        why="the lab's own API is reached by its address",
        hint="`rackless expose bmc`, `cluster`, `apps` or `ssh` first; --undo takes away what an earlier script made",
    )


def _refuse_unknown(name: str, what: What | None, servers: Sequence[str], plan: LabPlan) -> None:
    if servers and what not in ("bmc", "ssh"):
        raise InputError(
            f"{what} is not exposed by server",
            why="BMCs and nodes' ssh are",
            hint=f"leave {', '.join(servers)} out",
        )
    known = [server.name for server in plan.servers]
    if missing := [server for server in servers if server not in known]:
        raise unknown_server(name, missing, known)


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
        found = ip_address(address)
    except ValueError as error:
        raise InputError(f"{address} is no address", hint="`ip -brief address` shows this computer's") from error
    if found.is_unspecified:
        raise InputError(
            f"{address} is every address of this computer, and none that others could be told",
            hint="name one: `ip -brief address` shows them; expose it again for a second one",
        )
    return str(found)


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
