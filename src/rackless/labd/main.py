"""labd: the daemon of one lab, inside its namespaces. `python -m rackless.labd.main LAB`, kept running by the holder."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys

from rackless import events
from rackless.drivers import open_drivers
from rackless.errors import RacklessError
from rackless.lab.folder_watch import FolderWatch
from rackless.labd.answers import answers
from rackless.labd.running_lab import RunningLab
from rackless.labd.stages import lab_stages
from rackless.ports.drivers import Drivers
from rackless.protocol.event_log import EventLog
from rackless.protocol.server import ControlServer
from rackless.run.connections import allow_many_files
from rackless.run.files import write
from rackless.run.paths import LabPaths, Roots
from rackless.run.watching import go_on
from rackless.spec.lab import LabSpec


async def serve(paths: LabPaths, drivers: Drivers) -> None:
    own = drivers.processes.own
    write(paths.labd_pid, drivers.processes.identity(own))
    spec = LabSpec.model_validate_json(paths.spec.read_text())
    # ids of steps are unique over restarts, so that a screen never mistakes one for another
    bus = events.Bus(prefix=f"d{own}.")
    told = EventLog(paths.events)
    bus.subscribe(told.append)
    lab = RunningLab(paths, spec, bus, drivers, lab_stages)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)

    async def stop() -> None:
        await lab.stop()
        stopping.set()

    control = ControlServer(
        paths.socket,
        bus,
        log=paths.logs / "labd.log",
        owner=int(paths.owner.read_text()) if paths.owner.exists() else 0,
        serves=answers(lab, lambda: folders, own, stop),
        console=lab.console,
        take=lab.take_file,
        events_log=told,
        metrics=lab.metrics,
    )
    await control.start()
    folders = FolderWatch(paths, control.listen, lab.clock, bus, drivers.computer.kernel_log())
    watches = (
        _restore(lab, bus),
        go_on(lab.disk_watch.watch, "looking for room on the disk", bus, lab.clock),
        go_on(lab.log_watch.watch, "looking after the size of logs", bus, lab.clock),
        go_on(folders.watch, "looking after the lab's folders", bus, lab.clock),
    )
    besides = [asyncio.create_task(watch) for watch in watches]
    await stopping.wait()
    for task in besides:
        task.cancel()
    await asyncio.gather(*besides, return_exceptions=True)
    await control.stop()
    await lab.stop()


async def _restore(lab: RunningLab, bus: events.Bus) -> None:
    try:
        await lab.restore()
    except RacklessError as error:
        bus.tell("restore-failed", why=str(error))


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    os.umask(0o022)
    allow_many_files()
    paths = LabPaths(Roots.from_environment(), sys.argv[1])
    gc.freeze()  # modules stay: a garbage collection over them would block every BMC for 20 ms and more
    asyncio.run(serve(paths, open_drivers()))


if __name__ == "__main__":
    main()
