"""What a person can ask of a lab, from the host's side: up, status, destroy. The CLI calls these and shows their events."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rackless.daemon import prepare, teardown
from rackless.daemon.control import ControlClient
from rackless.daemon.stages import STAGES, TITLES
from rackless.drivers.clock import SystemClock
from rackless.drivers.process import LocalProcesses
from rackless.errors import LabError, MachineError
from rackless.events import Bus
from rackless.run.files import write
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots
from rackless.run.waiting import until
from rackless.spec.lab import LabSpec


async def up(spec: LabSpec, roots: Roots, bus: Bus, *, goal: str = STAGES[-1], install: bool = True) -> None:
    """Make the lab what its spec says, as far as `goal`; go on where an earlier run stopped."""
    require_root("make a lab")
    paths = LabPaths(roots, spec.name)
    with locked(paths):
        _refuse_changes(spec, paths)
        stages = STAGES[: STAGES.index(goal) + 1]
        supplies = await prepare.prepare_machine(roots, bus, install=install, images="engine" in stages)
        for stage in stages:
            with bus.step(TITLES[stage]) as step:
                if stage == "lab":
                    await _ensure_labd(spec, paths, bus)
                    if supplies is not None and not paths.supplies.exists():
                        prepare.save_supplies(paths.supplies, supplies)
                await ControlClient(paths.socket).work("stage", bus, stage=stage, step=step.id)


async def status(name: str, roots: Roots) -> dict[str, Any]:
    paths = require_lab(name, roots)
    client = ControlClient(paths.socket)
    if not await client.alive():
        return {"lab": name, "daemon": "not running"}
    found: dict[str, Any] = await client.look("status")
    return found


async def hosts(name: str, roots: Roots) -> list[dict[str, Any]]:
    paths = require_lab(name, roots)
    found: list[dict[str, Any]] = await ControlClient(paths.socket).look("hosts")
    return found


async def deprovision(name: str, host: str, roots: Roots, bus: Bus) -> None:
    paths = require_lab(name, roots)
    require_root("change a host")
    with locked(paths), bus.step(f"deprovision {host}") as step:
        await ControlClient(paths.socket).work("deprovision", bus, host=host, step=step.id)


async def faults(name: str, roots: Roots) -> list[dict[str, Any]]:
    """What goes wrong at the lab's BMCs because somebody asked for it."""
    found: list[dict[str, Any]] = await ControlClient(require_lab(name, roots).socket).look("faults")
    return found


async def add_fault(name: str, roots: Roots, **wish: Any) -> dict[str, Any]:
    paths = require_lab(name, roots)
    require_root("make BMCs fail")
    added: dict[str, Any] = await ControlClient(paths.socket).work("add-fault", Bus(), **wish)
    return added


async def clear_faults(name: str, roots: Roots, ids: Iterable[int]) -> int:
    paths = require_lab(name, roots)
    require_root("heal BMCs")
    gone: int = await ControlClient(paths.socket).work("clear-faults", Bus(), ids=list(ids))
    return gone


async def destroy(name: str, roots: Roots, bus: Bus) -> bool:
    """Remove the lab and everything of it; False when there was none."""
    require_root("remove a lab")
    paths = LabPaths(roots, name)
    if not Ledger(paths.ledger).exists:
        return False
    with locked(paths):
        with bus.step(f"destroy {name}"):
            await teardown.teardown(paths, bus)
    return True


async def _ensure_labd(spec: LabSpec, paths: LabPaths, bus: Bus) -> None:
    with bus.step("namespaces and daemon") as step:
        client = ControlClient(paths.socket)
        if await client.alive():
            step.unchanged()
            return
        ledger = Ledger(paths.ledger)
        ledger.own("folder", paths.state)
        ledger.own("folder", paths.run)
        ledger.own("network-namespace", paths.netns)
        paths.state.mkdir(parents=True, exist_ok=True)
        for folder in paths.private:
            folder.mkdir(exist_ok=True, mode=0o700)
        paths.run.mkdir(parents=True, exist_ok=True, mode=0o700)
        paths.capabilities.mkdir(parents=True, exist_ok=True)
        write(paths.spec, spec.model_dump_json(indent=2) + "\n")
        await teardown.end_daemon(paths)
        log = paths.logs / "holder.log"
        holder = await LocalProcesses().launch(
            [sys.executable, "-P", "-m", "rackless.daemon.holder", paths.name],
            log=log,
            env=paths.roots.as_environment(),
        )

        async def answers() -> tuple[bool, str]:
            if holder.returncode is not None:
                words = log.read_text(errors="replace").strip().splitlines()
                raise LabError("the lab's daemon ended while starting", why="\n".join(words[-6:]), log=log)
            return await client.alive(), "starting"

        hint = f"read {paths.logs / 'labd.log'}"
        await until(answers, what="labd to answer", within=30, every=0.05, clock=SystemClock(), hint=hint)


def _refuse_changes(spec: LabSpec, paths: LabPaths) -> None:
    try:
        current = LabSpec.model_validate_json(paths.spec.read_text())
    except FileNotFoundError:
        return
    if current != spec:
        changed = [name for name in LabSpec.model_fields if getattr(current, name) != getattr(spec, name)]
        raise LabError(
            f"the lab {spec.name} exists and was made from a different description",
            why=f"changed since: {', '.join(changed)}",
            hint=f"`rackless destroy --name {spec.name}` first, or give this one another --name",
        )


@contextmanager
def locked(paths: LabPaths) -> Iterator[None]:
    """One at a time: two commands that change the same lab do not meet."""
    paths.lock.parent.mkdir(parents=True, exist_ok=True)
    with paths.lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise LabError(
                f"another rackless is working on the lab {paths.name}",
                why=f"process {file.read().strip() or 'unknown'} holds {paths.lock}",
                hint="wait until it is done, or stop it",
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            if not Ledger(paths.ledger).exists:
                paths.lock.unlink(missing_ok=True)
                teardown.remove_empty(paths.roots)


def require_lab(name: str, roots: Roots) -> LabPaths:
    paths = LabPaths(roots, name)
    if not Ledger(paths.ledger).exists:
        others = ", ".join(roots.labs())
        raise LabError(
            f"there is no lab named {name}",
            why=f"on this machine: {others}" if others else "no lab is on this machine",
            hint="`rackless up` makes one",
        )
    return paths


def require_root(purpose: str) -> None:
    if os.geteuid() != 0:
        raise MachineError(
            f"only root can {purpose}",
            why="namespaces, bridges and mounts need it; nothing outside the lab is changed",
            hint=f"sudo {' '.join(sys.argv)}",
        )
