"""labd: the daemon of one lab, inside its namespaces. `python -m rackless.daemon.labd LAB`, kept running by the holder."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

from rackless import __version__, events
from rackless.daemon.build import fingerprint
from rackless.daemon.control import ControlServer
from rackless.daemon.engine import Engine
from rackless.daemon.local import allow_many_files
from rackless.drivers.process import identity
from rackless.errors import RacklessError
from rackless.run.files import write
from rackless.run.paths import LabPaths, Roots
from rackless.spec.lab import LabSpec


def journal(path: Path) -> events.Subscriber:
    """Events as JSON lines in a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a", encoding="utf-8", buffering=1)
    return lambda event: print(json.dumps(events.to_json(event)), file=file)


async def serve(paths: LabPaths) -> None:
    spec = LabSpec.model_validate_json(paths.spec.read_text())
    # ids of steps are unique over restarts, so that a screen never mistakes one for another
    bus = events.Bus(prefix=f"d{os.getpid()}.")
    bus.subscribe(journal(paths.logs / "events.jsonl"))
    engine = Engine(paths, spec, bus)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)

    async def stop(_: dict[str, Any]) -> None:
        await engine.stop()
        stopping.set()

    async def stage(arguments: dict[str, Any]) -> None:
        await engine.run_stage(arguments["stage"])

    async def wish(arguments: dict[str, Any]) -> dict[str, Any]:
        return await engine.hosts.wish(arguments.pop("verb"), arguments.pop("host"), arguments)

    async def forget_nodes(_: dict[str, Any]) -> list[str]:
        return await engine.hosts.forget_nodes()

    async def faults() -> list[dict[str, Any]]:
        return engine.bmcs.faults()

    async def add_fault(arguments: dict[str, Any]) -> dict[str, Any]:
        return engine.bmcs.add_fault(arguments)

    async def clear_faults(arguments: dict[str, Any]) -> int:
        return engine.bmcs.clear_faults(arguments["ids"])

    async def rest(arguments: dict[str, Any]) -> list[str]:
        return await engine.rest(force=arguments["force"])

    async def retire(arguments: dict[str, Any]) -> None:
        await engine.retire(arguments["servers"])

    async def power(arguments: dict[str, Any]) -> dict[str, Any]:
        return await engine.power(arguments["server"], arguments["action"])

    build = fingerprint()

    async def health() -> dict[str, Any]:
        return {"pid": os.getpid(), "version": __version__, "build": build}

    control = ControlServer(
        paths.socket,
        bus,
        log=paths.logs / "labd.log",
        owner=int(paths.owner.read_text()) if paths.owner.exists() else 0,
        looks={
            "health": health,
            "status": engine.status,
            "hosts": engine.hosts.records,
            "observe": engine.observe,
            "faults": faults,
        },
        works={
            "stage": stage,
            "host": wish,
            "forget-nodes": forget_nodes,
            "rest": rest,
            "retire": retire,
            "power": power,
            "add-fault": add_fault,
            "clear-faults": clear_faults,
            "stop": stop,
        },
        console=engine.console,
    )
    await control.start()
    besides = [asyncio.create_task(_restore(engine, bus)), asyncio.create_task(engine.disk_watch.watch())]
    await stopping.wait()
    for task in besides:
        task.cancel()
    await asyncio.gather(*besides, return_exceptions=True)
    await control.stop()
    await engine.stop()


async def _restore(engine: Engine, bus: events.Bus) -> None:
    try:
        await engine.restore()
    except RacklessError as error:
        bus.warn(f"could not restore the lab: {error}")


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    os.umask(0o022)
    allow_many_files()
    paths = LabPaths(Roots.from_environment(), sys.argv[1])
    write(paths.labd_pid, identity(os.getpid()))
    asyncio.run(serve(paths))


if __name__ == "__main__":
    main()
