"""Starting a lab's holder and labd from outside the lab, and deciding when a running labd must be replaced."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rackless.errors import LabError
from rackless.events import Bus
from rackless.operations import teardown
from rackless.operations.attachment import ensure_attachment, observe_attachment
from rackless.operations.lab_registry import recorded_spec
from rackless.operations.orphans import refuse_orphan
from rackless.operations.uplink import ensure_uplink, observe_uplink
from rackless.plan.actions import Action, Observed
from rackless.ports.drivers import Drivers
from rackless.protocol.build import fingerprint
from rackless.protocol.client import ControlClient
from rackless.protocol.messages import Daemon
from rackless.run.files import write
from rackless.run.journal import Unwritten
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths
from rackless.run.runner import Runner
from rackless.run.stage import stage
from rackless.run.supervise import ENDED
from rackless.run.waiting import until
from rackless.spec.lab import LabSpec
from rackless.spec.uplink import Uplink

TRIES = 3
"""How often labd is started before `up` gives up."""
START_WITHIN = 120.0
"""Seconds. labd starts in one or two; on a computer that was itself emulated, and busy, it took 40 to 100."""


def host_stages(spec: LabSpec, paths: LabPaths, bus: Bus, drivers: Drivers, write_needs: Callable[[], None]) -> Runner:
    """The stages that `up` does itself, outside the lab: namespaces, holder and labd, the uplink, the attached device. The ledger
    says which of them were made."""

    async def observe() -> Observed:
        return await observe_daemon(paths, drivers, spec)

    async def daemon(work: Sequence[Action]) -> None:
        await start_labd(spec, paths, bus, drivers, write_needs, "; ".join(action.reason for action in work))

    async def uplink(_: Sequence[Action]) -> None:
        await ensure_uplink(spec, paths, bus, drivers)

    async def attachment(_: Sequence[Action]) -> None:
        await ensure_attachment(spec, paths, bus, drivers)

    stages = [
        stage("daemon", "namespaces and daemon", observe=observe, ensure=daemon),
        stage("uplink", "uplink", observe=observe, ensure=uplink),
        stage("attachment", "attachment", observe=observe, ensure=attachment),
    ]
    return Runner(spec, stages, Unwritten(), bus)


async def observe_daemon(paths: LabPaths, drivers: Drivers, wanted: LabSpec | None = None) -> Observed:
    """Which of holder, labd and uplink are there; given the wanted description, also whether the uplink is as it says."""
    spec = recorded_spec(paths)
    if spec is None:
        return Observed()
    # a labd whose holder is gone ends within seconds
    kept = drivers.processes.find(paths.holder_pid) is not None
    daemon = await ControlClient(paths.socket).daemon() if kept else None
    uplink, moved = await observe_uplink(paths, drivers, wanted)
    attached, loose = await observe_attachment(paths, drivers, wanted)
    differing = {"network/uplink": moved, "network/attached": loose}
    return Observed(
        spec,
        daemon is not None,
        networks=frozenset([*(["uplink"] if uplink else []), *(["attached"] if attached else [])]),
        differing={subject: why for subject, why in differing.items() if why},
        outdated=outdated(daemon) if daemon is not None else "",
    )


async def ensure_labd(
    spec: LabSpec, paths: LabPaths, bus: Bus, drivers: Drivers, write_needs: Callable[[], None] = lambda: None
) -> None:
    """Have a labd of this description and this version running; `write_needs` writes what labd reads when it starts."""
    await host_stages(spec, paths, bus, drivers, write_needs).run(["daemon"])


async def start_labd(
    spec: LabSpec, paths: LabPaths, bus: Bus, drivers: Drivers, write_needs: Callable[[], None], why: str
) -> None:
    with bus.step("namespaces and daemon") as step:
        client = ControlClient(paths.socket)
        if await client.alive():
            step.detail = f"started anew: {why}"
            await teardown.stop_daemon(paths, bus, drivers)
        ledger = Ledger(paths.ledger)
        if spec.storage is not None:
            for missing in reversed([place for place in (spec.storage, *spec.storage.parents) if not place.exists()]):
                ledger.own("folder-when-empty", missing)
        for folder in _folders(spec, paths):
            ledger.own("folder", folder)
        ledger.own("network-namespace", paths.netns)
        paths.state.mkdir(parents=True, exist_ok=True)
        for folder in paths.private:
            folder.mkdir(exist_ok=True, mode=0o700)
        paths.run.mkdir(parents=True, exist_ok=True)
        paths.run.chmod(0o711)  # the owner passes through to the socket, and sees nothing else
        if spec.networks.uplink.mode is Uplink.NAT and not spec.networks.dns.forward:
            write(paths.upstream, "\n".join(map(str, drivers.network.nameservers())))
        else:
            paths.upstream.unlink(missing_ok=True)
        if owner := os.environ.get("SUDO_UID"):
            write(paths.owner, owner)
        paths.capabilities.mkdir(parents=True, exist_ok=True)
        write(paths.spec, spec.model_dump_json(indent=2) + "\n")
        write_needs()
        await teardown.end_daemon(paths, drivers)
        await refuse_orphan(paths, drivers)
        log, labd_log = paths.logs / "holder.log", paths.logs / "labd.log"
        written = log.stat().st_size if log.exists() else 0
        holder = await drivers.processes.launch(
            [sys.executable, "-P", "-m", "rackless.holder.main", paths.name],
            log=log,
            env=paths.roots.as_environment(),
        )
        write(paths.launched_pid, drivers.processes.identity(holder.pid))

        async def answers() -> tuple[bool, str]:
            if holder.poll() is not None:
                raise LabError("the lab's daemon ended while starting", why=_last_words(log), log=log)
            ends = log.read_bytes()[written:].decode(errors="replace").splitlines()
            if sum(line.startswith(ENDED) for line in ends) >= TRIES:
                raise LabError("the lab's daemon ends whenever it starts", why=_last_words(labd_log), log=labd_log)
            return await client.alive(), ends[-1] if ends else "starting"

        hint = f"read {labd_log}"
        await until(answers, what="labd to answer", within=START_WITHIN, every=0.05, clock=drivers.clock, hint=hint)


def _last_words(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").strip().splitlines()[-6:])


def refuse_taken(spec: LabSpec, paths: LabPaths) -> None:
    """Refuse a lab whose folders hold files of others: `destroy` would delete them."""
    ours = {entry.id for entry in Ledger(paths.ledger).entries()}
    for folder in _folders(spec, paths):
        if str(folder) not in ours and folder.exists() and any(folder.iterdir()):
            raise LabError(
                f"the name {spec.name} is taken",
                why=f"{folder} is there, and no lab's",
                hint="give the lab another --name, or look at that folder and move it away",
            )


def _folders(spec: LabSpec, paths: LabPaths) -> list[Path]:
    """The folders that only this lab uses; `destroy` deletes them."""
    disks = [spec.storage / spec.name] if spec.storage is not None else []
    return [paths.state, *disks, paths.run]


def outdated(daemon: Daemon) -> str:
    """Why a labd that answers must be replaced; empty when it need not be."""
    if daemon.build != fingerprint():
        return "it is of another version than this command"
    return ""
