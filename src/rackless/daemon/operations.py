"""What a person can ask of a lab, from the host's side: up, status, destroy. The CLI calls these and shows their events."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

from rackless.daemon import prepare, teardown
from rackless.daemon.control_client import ControlClient
from rackless.daemon.daemon_life import ensure_labd, refuse_taken
from rackless.daemon.image_operations import register_use
from rackless.daemon.known import locked, recorded_spec, require_lab, require_root
from rackless.daemon.sizing import refuse_kernel, refuse_poverty
from rackless.daemon.stages import STAGES, TITLES
from rackless.daemon.timeline import Phase, read_timeline
from rackless.daemon.uplink import ensure_uplink
from rackless.daemon.user_images import UserImages, check_readable
from rackless.errors import LabError, RacklessError
from rackless.events import Bus
from rackless.lab.libvirtd import TPM_PACKAGES
from rackless.plan.actions import DESTRUCTIVE, Action, Observed, Verb, plan_actions
from rackless.plan.addressing import plan_lab
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots
from rackless.spec.images import ImageSpec
from rackless.spec.lab import LabSpec


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
        refuse_taken(spec, paths)
        refuse_poverty(spec, roots, actions, bus)
        await refuse_kernel(spec)
        images = list(dict.fromkeys(server.image for server in plan_lab(spec).servers if server.image is not None))
        check_readable(images)
        packages = TPM_PACKAGES if any(group.tpm for group in spec.servers.values()) else ()
        supplies = await prepare.prepare_machine(
            roots,
            bus,
            install=install,
            images="engine" in stages,
            ironic=spec.provisioner is None,
            packages=packages,
        )
        await _retire(actions, paths, bus)
        for stage in stages:
            with bus.step(TITLES[stage]) as step:
                if stage == "lab":
                    await ensure_labd(spec, paths, bus)
                    await ensure_uplink(spec.networks.uplink, paths, bus)
                    if supplies is not None and not paths.supplies.exists():
                        prepare.save_supplies(paths.supplies, supplies)
                    register_use(paths)
                    if spec.provisioner is not None:
                        from rackless.daemon import (
                            external_ironic,  # late: few labs have one, and it loads a web client
                        )

                        external_ironic.keep(spec.provisioner, paths)
                if stage == "hosts":
                    await _offer(images, paths, bus)
                await ControlClient(paths.socket).work("stage", bus, stage=stage, step=step.id)


async def plan(spec: LabSpec, roots: Roots, *, goal: str = STAGES[-1]) -> list[Action]:
    """What `up` would do now, with reasons. Changes nothing."""
    observed = await observe(LabPaths(roots, spec.name))
    return plan_actions(spec, observed, STAGES[: STAGES.index(goal) + 1])


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
                "daemon": "running" if alive else _away(paths),
                "reached": paths.goal.read_text() if paths.goal.exists() else None,
                "servers": sum(group.count for group in spec.servers.values()) if spec else 0,
                "domain": f"{name}.{spec.domain}" if spec else "",
                "mib": teardown.used_bytes(paths.state) >> 20,
                "folder": str(paths.state),
            }
        )
    return labs


def host_timeline(name: str, roots: Roots) -> dict[str, list[Phase]]:
    """How long each phase of each host took; told from the lab's events, also while its daemon is away."""
    paths = require_lab(name, roots)
    spec = recorded_spec(paths)
    hosts = [server.name for server in plan_lab(spec).servers] if spec else []
    return read_timeline(paths.logs / "events.jsonl", hosts)


async def status(name: str, roots: Roots) -> dict[str, Any]:
    paths = require_lab(name, roots)
    client = ControlClient(paths.socket)
    if not await client.alive():
        return {"lab": name, "daemon": _away(paths)}
    found: dict[str, Any] = await client.look("status")
    return found


def _away(paths: LabPaths) -> str:
    """Whether somebody said so: after a reboot or a kill nobody has."""
    return "stopped" if paths.resting.exists() else "not running"


async def destroy(name: str, roots: Roots, bus: Bus) -> bool:
    """Remove the lab and everything of it; False when there was none."""
    require_root("remove a lab")
    paths = LabPaths(roots, name)
    if not Ledger(paths.ledger).exists:
        return False
    with locked(paths):
        with bus.step(f"destroy {name}"):
            await _forget_nodes(paths, bus)
            await teardown.teardown(paths, bus)
    return True


async def _forget_nodes(paths: LabPaths, bus: Bus) -> None:
    """What the lab has written into somebody else's Ironic goes with it, as far as that can be reached."""
    try:
        spec = recorded_spec(paths)
        if spec is None or spec.provisioner is None or not await ControlClient(paths.socket).alive():
            return
        with bus.step("nodes in the provisioner") as step:
            gone = await ControlClient(paths.socket).work("forget-nodes", bus, step=step.id)
            step.detail = ", ".join(gone) or "none"
    except RacklessError as error:
        bus.warn(f"nodes of this lab may be left in its provisioner: {error}")


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


def _reached(paths: LabPaths, until: str) -> Sequence[str]:
    """The stages this lab has been through, and always the first."""
    reached = STAGES.index(paths.goal.read_text()) if paths.goal.exists() else 0
    return STAGES[: min(reached, STAGES.index(until)) + 1]


async def _offer(images: Sequence[ImageSpec], paths: LabPaths, bus: Bus) -> None:
    if images:
        with bus.step("your images"):
            for image in images:
                await UserImages(paths).offer(image)


async def _retire(actions: Sequence[Action], paths: LabPaths, bus: Bus) -> None:
    """Take away what is to be made anew or to go: the whole lab, or single servers while their daemon still knows them."""
    losses = [action.subject for action in actions if action.verb in DESTRUCTIVE]
    if not losses:
        return
    with bus.step("what is replaced"):
        if f"lab/{paths.name}" in losses:
            await _forget_nodes(paths, bus)
            await teardown.teardown(paths, bus)
            return
        past = recorded_spec(paths)
        assert past is not None
        await ensure_labd(past, paths, bus)
        client = ControlClient(paths.socket)
        with bus.step("servers") as step:
            for stage in _reached(paths, until="engine"):  # a host is taken down through its BMC, by the engine
                await client.work("stage", bus, stage=stage, step=step.id)
            names = [subject.removeprefix("server/") for subject in losses]
            await client.work("retire", bus, servers=names, step=step.id)
