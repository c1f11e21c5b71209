"""Starting the daemon of a lab from the host's side, and knowing when the one that runs cannot stay."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rackless.daemon import teardown
from rackless.daemon.build import fingerprint
from rackless.daemon.control_client import ControlClient
from rackless.daemon.holder import ENDED
from rackless.daemon.known import recorded_spec
from rackless.daemon.uplink import host_nameservers
from rackless.drivers.clock import SystemClock
from rackless.drivers.process import LocalProcesses, find, identity
from rackless.errors import LabError
from rackless.events import Bus
from rackless.run.files import write
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths
from rackless.run.waiting import until
from rackless.spec.lab import LabSpec
from rackless.spec.networks import Uplink

TRIES = 3
"""Starts of labd that may fail before it is given up."""
START_WITHIN = 120.0
"""Seconds. labd starts in one or two; on a machine that was itself emulated, and busy, it took 40 to 100."""


async def ensure_labd(spec: LabSpec, paths: LabPaths, bus: Bus) -> None:
    with bus.step("namespaces and daemon") as step:
        client = ControlClient(paths.socket)
        if find(paths.holder_pid) is not None and await client.alive():  # without its keeper it is about to end
            why = await _outdated(spec, paths, client)
            if not why:
                step.unchanged()
                return
            step.detail = f"started anew: {why}"
            await teardown.stop_daemon(paths, bus)
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
        if spec.networks.uplink is Uplink.NAT and not spec.networks.dns.forward:
            write(paths.upstream, "\n".join(map(str, host_nameservers())))
        else:
            paths.upstream.unlink(missing_ok=True)
        if owner := os.environ.get("SUDO_UID"):
            write(paths.owner, owner)
        paths.capabilities.mkdir(parents=True, exist_ok=True)
        write(paths.spec, spec.model_dump_json(indent=2) + "\n")
        await teardown.end_daemon(paths)
        log, labd_log = paths.logs / "holder.log", paths.logs / "labd.log"
        written = log.stat().st_size if log.exists() else 0
        holder = await LocalProcesses().launch(
            [sys.executable, "-P", "-m", "rackless.daemon.holder", paths.name],
            log=log,
            env=paths.roots.as_environment(),
        )
        write(paths.launched_pid, identity(holder.pid))

        async def answers() -> tuple[bool, str]:
            if holder.poll() is not None:
                raise LabError("the lab's daemon ended while starting", why=_last_words(log), log=log)
            ends = log.read_bytes()[written:].decode(errors="replace").splitlines()
            if sum(line.startswith(ENDED) for line in ends) >= TRIES:
                raise LabError("the lab's daemon ends whenever it starts", why=_last_words(labd_log), log=labd_log)
            return await client.alive(), ends[-1] if ends else "starting"

        hint = f"read {labd_log}"
        await until(answers, what="labd to answer", within=START_WITHIN, every=0.05, clock=SystemClock(), hint=hint)


def _last_words(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").strip().splitlines()[-6:])


def refuse_taken(spec: LabSpec, paths: LabPaths) -> None:
    """What is in a lab's folders goes with the lab; so it must not be somebody else's."""
    ours = {entry.id for entry in Ledger(paths.ledger).entries()}
    for folder in _folders(spec, paths):
        if str(folder) not in ours and folder.exists() and any(folder.iterdir()):
            raise LabError(
                f"the name {spec.name} is taken",
                why=f"{folder} is there, and no lab's",
                hint="give the lab another --name, or look at that folder and move it away",
            )


def _folders(spec: LabSpec, paths: LabPaths) -> list[Path]:
    """What belongs to a lab alone, and goes with it."""
    disks = [spec.storage / spec.name] if spec.storage is not None else []
    return [paths.state, *disks, paths.run]


async def _outdated(spec: LabSpec, paths: LabPaths, client: ControlClient) -> str:
    """Why a daemon that answers cannot stay; empty when it can."""
    if recorded_spec(paths) != spec:
        return "the description changed"
    if (await client.look("health")).get("build") != fingerprint():
        return "it is of another version than this command"
    return ""
