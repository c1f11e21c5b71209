"""The holder: a small process that owns a lab's namespaces and its port forwards on the hypervisor, and restarts labd in them.

`python -m rackless.holder.main LAB`, started by `up` and detached. It ends when labd ends by itself (asked to stop), or on
SIGTERM. When it is killed, labd ends with it; the servers run on, and the next `up` starts a new holder around them.

libvirtd does not reap its QEMUs: the process that adopts orphans does, and libvirtd reports a server as off only after that.
In a container the init may not reap, or reap late: so the holder adopts them (PR_SET_CHILD_SUBREAPER).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass

from rackless.codec import BadValue, decode, encode
from rackless.drivers import open_drivers
from rackless.holder.mounts import ensure_mounts
from rackless.holder.owner import owner_of
from rackless.lab.api_forward import API_PORT, Doorkeeper, open_door
from rackless.lab.forwards import FollowLedger, Forwards
from rackless.lab.mark import render_mark
from rackless.lab.servers import mounts as shown_folders
from rackless.plan.addressing import plan_lab
from rackless.ports.drivers import Drivers
from rackless.ports.mounts import Mounts
from rackless.ports.namespaces import Room
from rackless.run.files import write
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots
from rackless.run.supervise import ENDED
from rackless.spec.lab import LabSpec

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
MOST_VISITORS = 64
"""Connections at the entrance socket at once: programs, packet captures, forwarded connections."""
STEADY = 60.0
"""Seconds after which labd counts as having started well, and the pause before a restart is short again."""


def main() -> None:
    os.umask(0o022)
    paths, drivers = LabPaths(Roots.from_environment(), sys.argv[1]), open_drivers()
    hypervisor_side = enter(paths, drivers)
    sys.exit(asyncio.run(keep_open(paths, hypervisor_side, drivers)))


@dataclass(frozen=True, slots=True)
class HypervisorSide:
    """What the holder keeps open outside the lab's network namespace."""

    doors: Sequence[tuple[socket.socket | None, str]]
    """Listening sockets on the hypervisor's loopback, each with the address inside the lab that it forwards to."""
    outside: Room
    """A thread in the hypervisor's network namespace, which opens the ports of `rackless expose`."""


def enter(paths: LabPaths, drivers: Drivers) -> HypervisorSide:
    """Listen on the lab's ports on the hypervisor's loopback, enter the lab's namespaces, and write the pid file."""
    plan = plan_lab(LabSpec.model_validate_json(paths.spec.read_text()))
    make = drivers.namespaces.socket
    # in the hypervisor's network namespace, so before the holder leaves it
    doors = [(open_door(paths, paths.api_port, make), str(plan.gateway.ip))]
    if plan.control_planes:
        doors.append((open_door(paths, paths.cluster_port, make), str(plan.api_vip)))
    outside = drivers.namespaces.stay("outside")
    namespaces = drivers.namespaces
    home = namespaces.home()

    def make_mounts(mounts: Mounts) -> None:
        ensure_mounts(mounts, paths, str(plan.gateway.ip), plan.domain, shown_folders(plan, paths))
        if (mark := render_mark(paths, home, namespaces.home().mnt)) is not None:
            namespaces.write_mark(mark)

    namespaces.enter(paths.netns, make_mounts)
    write(paths.holder_pid, drivers.processes.identity(drivers.processes.own))
    drivers.processes.adopt_orphans()
    return HypervisorSide(doors, outside)


async def keep_open(paths: LabPaths, hypervisor_side: HypervisorSide, drivers: Drivers) -> int:
    """Keep labd running, and forward the ports to the APIs and the exposed ports that the ledger lists."""
    keepers = [Doorkeeper(door, address, API_PORT) for door, address in hypervisor_side.doors if door is not None]
    for keeper in keepers:
        keeper.start()
    try:
        async with _exposed(paths, hypervisor_side.outside, drivers):
            with _open_to_owner(paths, drivers):
                return await keep(paths, drivers)
    finally:
        for keeper in keepers:
            await keeper.close()


@contextmanager
def _open_to_owner(paths: LabPaths, drivers: Drivers) -> Iterator[None]:
    """Listen on the entrance socket for the lab's owner: for each connection a visitor process is started, which becomes that
    user."""
    if (owner := owner_of(paths)) is None:
        yield
        return
    argv = [sys.executable, "-P", "-m", "rackless.holder.visitor", paths.name]
    environment = paths.roots.as_environment()
    entrance = drivers.namespaces.open_entrance(paths.entrance, owner, argv, environment, MOST_VISITORS)
    try:
        yield
    finally:
        entrance.close()


@asynccontextmanager
async def _exposed(paths: LabPaths, outside: Room, drivers: Drivers) -> AsyncIterator[None]:
    """Open the port forwards that the ledger lists, and read it again whenever `rackless expose` connects to the socket."""

    def listen(family: int, kind: int, address: str, port: int) -> socket.socket:
        listener = outside.call(lambda: drivers.namespaces.socket(family, kind, 0))
        try:
            if kind == socket.SOCK_STREAM:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            if kind == socket.SOCK_STREAM:
                listener.listen(128)
        except OSError:
            listener.close()
            raise
        return listener

    forwards, turn = Forwards(Ledger(paths.ledger), listen), asyncio.Lock()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, BadValue):
            asked = decode(FollowLedger, json.loads(await reader.readline()))
            async with turn:
                done = await forwards.follow(asked.close)
            writer.write(json.dumps(encode(done)).encode() + b"\n")
            await writer.drain()
        writer.close()

    async with turn:
        for id, why in (await forwards.follow()).failed.items():
            sys.stderr.write(f"{id} is not exposed: {why}\n")
    paths.doors_socket.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(answer, str(paths.doors_socket))
    paths.doors_socket.chmod(0o600)
    try:
        yield
    finally:
        server.close()
        await forwards.close()
        paths.doors_socket.unlink(missing_ok=True)


async def keep(paths: LabPaths, drivers: Drivers) -> int:
    """Run labd, and restart it when it dies."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    pause = FIRST_PAUSE
    while True:
        started = loop.time()
        labd = await drivers.processes.start(
            [sys.executable, "-P", "-m", "rackless.labd.main", paths.name],
            log=paths.logs / "labd.log",
            env=paths.roots.as_environment(),
        )
        loop.add_signal_handler(signal.SIGCHLD, drivers.processes.bury, labd.pid)
        drivers.processes.bury(labd.pid)
        ended = asyncio.create_task(labd.wait())
        asked = asyncio.create_task(stopping.wait())
        await asyncio.wait({ended, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        loop.remove_signal_handler(signal.SIGCHLD)
        if stopping.is_set():
            await labd.stop(within=30)
            return 0
        if (code := ended.result()) == 0:
            return 0
        with (paths.logs / "holder.log").open("a") as log:
            log.write(f"{ENDED} with {code}\n")
        if loop.time() - started > STEADY:
            pause = FIRST_PAUSE
        await drivers.clock.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


if __name__ == "__main__":
    main()
