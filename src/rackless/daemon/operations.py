"""What a person can ask of a lab, from the host's side: up, status, destroy. The CLI calls these and shows their events."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rackless.daemon import prepare, teardown
from rackless.daemon.build import fingerprint
from rackless.daemon.control_client import ControlClient
from rackless.daemon.stages import STAGES, TITLES
from rackless.daemon.uplink import ensure_uplink, host_nameservers
from rackless.drivers.clock import SystemClock
from rackless.drivers.process import LocalProcesses
from rackless.errors import LabError, MachineError
from rackless.events import Bus
from rackless.lab.libvirtd import TPM_PACKAGES
from rackless.lab.machine import observe_machine
from rackless.plan.actions import DESTRUCTIVE, Action, Observed, Verb, plan_actions
from rackless.plan.addressing import plan_lab
from rackless.plan.budget import Finding, check_budget
from rackless.run.files import write
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots
from rackless.run.waiting import until
from rackless.spec.lab import LabSpec, Profile, Role
from rackless.spec.networks import Uplink


async def up(
    spec: LabSpec, roots: Roots, bus: Bus, *, goal: str = STAGES[-1], install: bool = True, replace: bool = False
) -> None:
    """Make the lab what its spec says, as far as `goal`; go on where an earlier run stopped."""
    require_root("make a lab")
    paths = LabPaths(roots, spec.name)
    with locked(paths):
        stages = STAGES[: STAGES.index(goal) + 1]
        actions = await plan(spec, roots, goal=goal)
        _refuse(actions, spec.name, replace=replace)
        _refuse_poverty(spec, roots, bus)
        packages = TPM_PACKAGES if any(group.tpm for group in spec.servers.values()) else ()
        supplies = await prepare.prepare_machine(
            roots, bus, install=install, images="engine" in stages, packages=packages
        )
        await _retire(actions, paths, bus)
        for stage in stages:
            with bus.step(TITLES[stage]) as step:
                if stage == "lab":
                    await _ensure_labd(spec, paths, bus)
                    await ensure_uplink(spec.networks.uplink, paths, bus)
                    if supplies is not None and not paths.supplies.exists():
                        prepare.save_supplies(paths.supplies, supplies)
                await ControlClient(paths.socket).work("stage", bus, stage=stage, step=step.id)


async def plan(spec: LabSpec, roots: Roots, *, goal: str = STAGES[-1]) -> list[Action]:
    """What `up` would do now, with reasons. Changes nothing."""
    observed = await observe(LabPaths(roots, spec.name))
    return plan_actions(spec, observed, STAGES[: STAGES.index(goal) + 1])


def budget(spec: LabSpec, roots: Roots, *, syncs: bool = False) -> list[Finding]:
    """What the lab needs against what the machine has; other labs that run count with all their servers."""
    others = [LabPaths(roots, name) for name in roots.labs() if name != spec.name]
    promised = sum(
        group.count * group.memory
        for other in others
        if other.netns.exists() and (known := recorded_spec(other)) is not None
        for group in known.servers.values()
        if group.role is not Role.SPARE
    )
    machine = observe_machine(spec.storage or roots.state, promised=promised, syncs=syncs)
    return check_budget(spec, plan_lab(spec), machine)


def observe_for(profile: str | None, roots: Roots) -> tuple[Profile, str]:
    """The profile for this machine, and why: the one asked for, or the largest that fits."""
    machine = observe_machine(roots.state)
    size = f"this machine has {machine.memory >> 30} GiB and {machine.cpus} CPUs"
    if profile is not None:
        wanted = LabSpec.model_validate({"profile": profile})
        lacking = [f.says for f in check_budget(wanted, plan_lab(wanted), machine) if f.level == "error"]
        return Profile(profile), f"asked for; {size}" + (f", which is not enough: {lacking[0]}" if lacking else "")
    for candidate in (Profile.FULL, Profile.COMPACT):
        wanted = LabSpec.model_validate({"profile": candidate.value})
        cpus = sum(group.count * group.vcpus for group in wanted.servers.values())
        if cpus <= 2 * machine.cpus and not any(
            f.level == "error" for f in check_budget(wanted, plan_lab(wanted), machine)
        ):
            return candidate, size
    return Profile.TINY, size


def _refuse_poverty(spec: LabSpec, roots: Roots, bus: Bus) -> None:
    findings = budget(spec, roots)
    for finding in findings:
        if finding.level == "warning":
            bus.warn(finding.says)
    if lacking := [finding for finding in findings if finding.level == "error"]:
        raise MachineError(
            "this machine has not enough for the lab",
            why="\n".join(finding.says for finding in lacking),
            hint="; ".join(finding.fix for finding in lacking),
        )


async def observe(paths: LabPaths) -> Observed:
    spec = recorded_spec(paths)
    client = ControlClient(paths.socket)
    if spec is None or not await client.alive():
        return Observed(spec)
    found = await client.look("observe")
    return Observed(spec, True, found["servers"], frozenset(found["networks"]), frozenset(found["stages"]))


async def down(name: str, roots: Roots, bus: Bus, *, force: bool = False) -> None:
    """Stop the lab and keep everything; `up` starts it again, also after a reboot of the machine."""
    require_root("stop a lab")
    paths = require_lab(name, roots)
    with locked(paths), bus.step(f"stop {name}") as outer:
        client = ControlClient(paths.socket)
        if await client.alive():
            with bus.step("servers") as step:
                resting = await client.work("rest", bus, force=force, step=step.id)
                step.detail = ", ".join(resting) or "all were off"
        elif not paths.netns.exists():
            outer.unchanged("it is stopped")
            return
        with bus.step("daemon and networks"):
            await teardown.stop_daemon(paths, bus)
            await teardown.retire_namespace(paths)


async def list_labs(roots: Roots) -> list[dict[str, Any]]:
    """The labs on this machine, from what they were made of and whether they answer."""
    labs = []
    for name in roots.labs():
        paths = LabPaths(roots, name)
        spec = recorded_spec(paths)
        alive = await ControlClient(paths.socket).alive()
        labs.append(
            {
                "lab": name,
                "daemon": "running" if alive else "stopped",
                "reached": paths.goal.read_text() if paths.goal.exists() else None,
                "servers": sum(group.count for group in spec.servers.values()) if spec else 0,
                "domain": f"{name}.{spec.domain}" if spec else "",
                "mib": teardown.used_bytes(paths.state) >> 20,
                "folder": str(paths.state),
            }
        )
    return labs


async def status(name: str, roots: Roots) -> dict[str, Any]:
    paths = require_lab(name, roots)
    client = ControlClient(paths.socket)
    if not await client.alive():
        return {"lab": name, "daemon": "stopped" if paths.resting.exists() else "not running"}
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


def shared_bytes(roots: Roots) -> int:
    return teardown.used_bytes(roots.cache)


def uninstall(roots: Roots) -> None:
    """Remove what labs share; refused while there are labs that use it."""
    require_root("remove what labs share")
    if labs := roots.labs():
        raise LabError(
            "there are labs that use the shared images",
            why=", ".join(labs),
            hint=f"`rackless destroy --name {labs[0]}` first",
        )
    shutil.rmtree(roots.cache, ignore_errors=True)
    teardown.remove_empty(roots)


def owned(name: str, roots: Roots) -> list[dict[str, Any]]:
    """What `destroy` would remove, in its order."""
    paths = require_lab(name, roots)
    return teardown.owned(paths)


def describe_left(name: str, roots: Roots) -> str:
    """What is there of a lab when somebody was stopped in the middle of it."""
    paths = LabPaths(roots, name)
    things = teardown.owned(paths)
    if not things:
        return "nothing was made"
    processes = sum(len(thing.get("processes", ())) for thing in things)
    size = sum(thing.get("bytes", 0) for thing in things) >> 20
    reached = f"it has reached {paths.goal.read_text()}" if paths.goal.exists() else "it is not made yet"
    return f"the lab {name} stays as it is: {reached}; {processes} processes, {size} MiB in {paths.state}"


def _refuse(actions: Sequence[Action], name: str, *, replace: bool) -> None:
    if refused := [action for action in actions if action.verb is Verb.REFUSE]:
        raise LabError(
            f"the lab {name} cannot become what is described",
            why="\n".join(action.reason for action in refused),
            hint="give this one another --name",
        )
    losses = [action for action in actions if action.verb in DESTRUCTIVE]
    if losses and not replace:
        raise LabError(
            f"the lab {name} exists, and becoming what is described would lose something",
            why="\n".join(f"{action.verb} {action.subject}: {action.reason}" for action in losses),
            hint="`rackless plan` shows all of it; `rackless up --replace` does it; another --name leaves this one alone",
        )


async def _retire(actions: Sequence[Action], paths: LabPaths, bus: Bus) -> None:
    """Take away what is to be made anew or to go: the whole lab, or single servers while their daemon still knows them."""
    losses = [action.subject for action in actions if action.verb in DESTRUCTIVE]
    if not losses:
        return
    with bus.step("what is replaced"):
        if f"lab/{paths.name}" in losses:
            await teardown.teardown(paths, bus)
            return
        past = recorded_spec(paths)
        assert past is not None
        await _ensure_labd(past, paths, bus)
        client = ControlClient(paths.socket)
        with bus.step("servers") as step:
            await client.work("stage", bus, stage="lab", step=step.id)
            names = [subject.removeprefix("server/") for subject in losses]
            await client.work("retire", bus, servers=names, step=step.id)


async def _ensure_labd(spec: LabSpec, paths: LabPaths, bus: Bus) -> None:
    with bus.step("namespaces and daemon") as step:
        client = ControlClient(paths.socket)
        if await client.alive():
            why = await _outdated(spec, paths, client)
            if not why:
                step.unchanged()
                return
            step.detail = f"started anew: {why}"
            await teardown.stop_daemon(paths, bus)
        ledger = Ledger(paths.ledger)
        ledger.own("folder", paths.state)
        if spec.storage is not None:
            for missing in reversed([place for place in (spec.storage, *spec.storage.parents) if not place.exists()]):
                ledger.own("folder-when-empty", missing)
            ledger.own("folder", spec.storage / spec.name)
        ledger.own("folder", paths.run)
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


async def _outdated(spec: LabSpec, paths: LabPaths, client: ControlClient) -> str:
    """Why a daemon that answers cannot stay; empty when it can."""
    if recorded_spec(paths) != spec:
        return "the description changed"
    if (await client.look("health")).get("build") != fingerprint():
        return "it is of another version than this command"
    return ""


def recorded_spec(paths: LabPaths) -> LabSpec | None:
    """What the lab was made from."""
    try:
        return LabSpec.model_validate_json(paths.spec.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise LabError(
            f"the lab {paths.name} was made by another version of rackless, and this one cannot read its description",
            why=str(error).splitlines()[0],
            hint="`rackless destroy` still removes it",
        ) from error


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
            hint=shlex.join(["sudo", os.environ.get("RACKLESS_COMMAND", "rackless"), *sys.argv[1:]]),
        )
