"""The holder: a small process that owns a lab's namespaces and its doors on the host, and keeps labd running in them.

`python -m rackless.daemon.holder LAB`, started by `up` and detached. It ends when labd ends by itself (asked to stop), or on
SIGTERM. When it is killed, labd ends with it; the servers run on, and the next `up` starts a new holder around them.

libvirtd leaves its servers to whoever adopts orphans, and calls a server off only when that one has taken note of its end.
In a container that may be nobody, or somebody slow: so the holder adopts them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence

from rackless.daemon import furnish
from rackless.daemon.doorstep import API_PORT, Doorkeeper, open_door
from rackless.drivers.process import LocalProcesses, adopt_orphans, bury, identity
from rackless.plan.addressing import plan_lab
from rackless.run.files import write
from rackless.run.paths import LabPaths, Roots
from rackless.spec.lab import LabSpec

ENDED = "labd ended"
"""What our log says of every end that nobody asked for."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
STEADY = 60.0
"""After this many seconds labd counts as having started well, and the pause starts small again."""


def main() -> None:
    paths = LabPaths(Roots.from_environment(), sys.argv[1])
    plan = plan_lab(LabSpec.model_validate_json(paths.spec.read_text()))
    os.umask(0o022)
    # on the host's side, so before we leave it
    doors = [(open_door(paths, paths.api_port), str(plan.gateway.ip))]
    if plan.control_planes:
        doors.append((open_door(paths, paths.cluster_port), str(plan.api_vip)))
    furnish.enter_network(paths)
    furnish.furnish(paths, str(plan.gateway.ip), plan.domain)
    write(paths.holder_pid, identity(os.getpid()))
    adopt_orphans()
    sys.exit(asyncio.run(keep_open(paths, doors)))


async def keep_open(paths: LabPaths, doors: Sequence[tuple[socket.socket | None, str]]) -> int:
    """Keep labd running, and the doors to the APIs open; each with the address that it leads to."""
    keepers = [Doorkeeper(door, address, API_PORT) for door, address in doors if door is not None]
    for keeper in keepers:
        keeper.start()
    try:
        return await keep(paths)
    finally:
        for keeper in keepers:
            await keeper.close()


async def keep(paths: LabPaths) -> int:
    """Run labd, and run it again when it dies."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    pause = FIRST_PAUSE
    while True:
        started = loop.time()
        labd = await LocalProcesses().start(
            [sys.executable, "-P", "-m", "rackless.daemon.labd", paths.name],
            log=paths.logs / "labd.log",
            env=paths.roots.as_environment(),
        )
        loop.add_signal_handler(signal.SIGCHLD, bury, labd.pid)
        bury(labd.pid)
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
        sys.stderr.write(f"{ENDED} with {code}\n")
        if loop.time() - started > STEADY:
            pause = FIRST_PAUSE
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


if __name__ == "__main__":
    main()
