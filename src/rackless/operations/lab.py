"""What a person can ask of a lab, from outside the lab: up, status, destroy. The CLI calls these and shows their events."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rackless.drivers import open_drivers
from rackless.errors import HypervisorError, LabError, RacklessError
from rackless.events import Bus
from rackless.lab.libvirtd import TPM_PACKAGES
from rackless.lab.user_images import UserImages, check_readable
from rackless.operations import orphans, prepare, teardown
from rackless.operations.attachment import refuse_device
from rackless.operations.daemon_life import ensure_labd, host_stages, observe_daemon, refuse_taken
from rackless.operations.estimates import learning
from rackless.operations.images import register_use
from rackless.operations.lab_registry import SHARING, locked, recorded_spec, require_lab, require_root, spec_of_other
from rackless.operations.own_events import OwnEvents, own_events
from rackless.operations.sizing import refuse_kernel, refuse_poverty
from rackless.plan.actions import DESTRUCTIVE, Action, Observed, Verb
from rackless.plan.addressing import plan_lab
from rackless.plan.stages import GOALS, TITLES, plan_actions, stages_of, upto
from rackless.ports.drivers import Drivers
from rackless.protocol import messages as say
from rackless.protocol.client import ControlClient
from rackless.protocol.exchange import Nothing
from rackless.protocol.messages import LabStatus
from rackless.provisioning import external_ironic
from rackless.run.files import write
from rackless.run.journal import Journal
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots
from rackless.run.supplies import Supplies, save_supplies
from rackless.spec.cluster import Method
from rackless.spec.images import ImageSpec
from rackless.spec.lab import LabSpec
from rackless.trust import bmc_passwords


async def up(
    spec: LabSpec,
    roots: Roots,
    bus: Bus,
    *,
    goal: str = GOALS[-1],
    install: bool = True,
    replace: bool = False,
    drivers: Drivers | None = None,
) -> None:
    """Make the lab what its spec says, as far as `goal`; go on where an earlier run stopped."""
    drivers = drivers or open_drivers()
    require_root("make a lab", drivers.computer)
    paths = LabPaths(roots, spec.name)
    goal = own_goal(goal, spec, paths)
    with locked(paths, drivers.processes), learning(bus, roots, len(plan_lab(spec).servers)):
        async with own_events(bus, paths, drivers) as own:  # what is done here, and not by labd
            actions = await plan(spec, roots, goal=goal, drivers=drivers, costly=False)
            _refuse(actions, spec.name, replace=replace)
            refuse_taken(spec, paths)
            refuse_poverty(spec, roots, actions, own.bus, drivers.computer)
            await refuse_kernel(spec, drivers.computer)
            await refuse_device(spec, paths, drivers)
            images = list(dict.fromkeys(server.image for server in plan_lab(spec).servers if server.image is not None))
            check_readable(images)
            supplies = await prepare.prepare_computer(roots, own.bus, drivers, _shared(spec, goal), install=install)
            await _remove(actions, paths, bus, own, drivers)

            def write_needs() -> None:
                _write_needs(spec, goal, supplies, paths)

            host = host_stages(spec, paths, own.bus, drivers, write_needs)
            for each in upto(goal):
                with own.bus.step(TITLES[each]) as step:
                    if each == "lab":
                        await host.run(stages_of(["lab"]))
                        write_needs()
                    if each == "hosts":
                        await _offer(images, paths, own.bus)
                    asked = say.ReachGoal(each)
                    client = ControlClient(paths.socket)
                    await client.work(say.REACH, asked, bus, step=step.id, hear=["*"], told=own.take())


async def start(name: str, roots: Roots, bus: Bus, drivers: Drivers | None = None) -> None:
    """`up` for an existing lab, from its recorded description, to the goal that it had reached."""
    paths = require_lab(name, roots)
    spec = recorded_spec(paths)
    if spec is None:
        raise LabError(f"the lab {name} was never made", hint="`rackless up` makes it, from its lab.yaml")
    await up(spec, roots, bus, goal=_journal(paths).read().goal or GOALS[0], drivers=drivers)


async def plan(
    spec: LabSpec, roots: Roots, *, goal: str = GOALS[-1], drivers: Drivers | None = None, costly: bool = True
) -> list[Action]:
    """The actions that `up` would do now, with reasons. Changes nothing. Without `costly`, as `up` itself calls it, nodes are not
    asked and the computer is not checked: labd observes the nodes meanwhile, and preparing the computer checks it."""
    drivers = drivers or open_drivers()
    paths = LabPaths(roots, spec.name)
    goal = own_goal(goal, spec, paths)
    observed = await observe(paths, drivers, spec, begins=() if costly else upto(goal))
    shared = await prepare.plan_preparation(roots, drivers, _shared(spec, goal)) if costly else []
    return [*shared, *plan_actions(spec, observed, upto(goal))]


def own_goal(goal: str, spec: LabSpec, paths: LabPaths) -> str:
    """The goal to which labd brings the lab itself: `bmc` and no further where an install provisions the hosts."""
    installed = spec.cluster.method is not Method.DIRECT or paths.release.exists()
    return "bmc" if installed and goal not in upto("bmc") else goal


def _shared(spec: LabSpec, goal: str) -> prepare.Shared:
    tpm = any(group.tpm for group in spec.servers.values())
    return prepare.Shared("engine" in upto(goal), spec.provisioner is None, TPM_PACKAGES if tpm else ())


async def observe(
    paths: LabPaths, drivers: Drivers, wanted: LabSpec | None = None, *, begins: Sequence[str] = ()
) -> Observed:
    """The observed state of the lab; `begins` are the goals of an `up` that begins."""
    found = await observe_daemon(paths, drivers, wanted)
    if not found.daemon:
        return found | _remembered(paths, found.spec) if found.spec is not None else found
    client = ControlClient(paths.socket)
    if found.outdated:  # an older labd may not know the other requests, and `up` replaces it anyway
        seen = await client.look(say.OBSERVE)
    elif begins:
        seen = await client.work(say.BEGIN, say.BeginUp(tuple(begins)), Bus())
    else:
        seen = await client.look(say.OBSERVE_ALL)
    return found | Observed(
        servers=seen.servers,
        networks=frozenset(seen.networks),
        stages=frozenset(seen.stages),
        differing=seen.differing,
        resting=frozenset(seen.resting),
        grown=frozenset(seen.grown),
    )


def _remembered(paths: LabPaths, spec: LabSpec) -> Observed:
    """What can be known of a lab whose labd does not run: the reached stages, and whether its network namespace is still there."""
    told = _journal(paths).read()
    lab = plan_lab(spec)
    names = {"cluster", "baremetal", *(bridge.name for bridge in lab.extra), *(vlan.name for vlan in lab.vlans)}
    names |= {"provisioning"} if lab.provisioning or lab.provisioning_dhcp else set()
    names |= {"bmc"} if lab.bmc_site.router is None else set()
    on = paths.resting if paths.resting.exists() or paths.awake.exists() else paths.powered
    return Observed(
        stages=told.reached,
        networks=frozenset(names) if paths.netns.exists() and "networks" in told.reached else frozenset(),
        resting=frozenset(on.read_text().split()) if on.exists() else frozenset(),
        grown=frozenset(entry.id for entry in Ledger(paths.grown).entries()),
    )


def _journal(paths: LabPaths) -> Journal:
    return Journal(paths.journal, paths.goal)


def _write_needs(spec: LabSpec, goal: str, supplies: Supplies | None, paths: LabPaths) -> None:
    """Write what labd reads when it starts: the goal, the supplies (Ironic, kernel, images) and the passwords."""
    journal = _journal(paths)
    if not paths.journal.exists():
        journal.begin()  # an earlier version kept no journal: what is reached comes from the file `goal`
    if GOALS.index(goal) >= GOALS.index(journal.read().goal or GOALS[0]):
        write(paths.goal, goal)
    if supplies is not None and not paths.supplies.exists():
        save_supplies(paths.supplies, supplies)
    register_use(paths)
    if spec.provisioner is not None:
        external_ironic.keep(spec.provisioner, paths)
    bmc_passwords.keep(spec, paths)


async def down(name: str, roots: Roots, bus: Bus, *, force: bool = False, drivers: Drivers | None = None) -> None:
    """Stop the lab and keep everything; `up` starts it again, also after a reboot of the computer."""
    drivers = drivers or open_drivers()
    require_root("stop a lab", drivers.computer)
    paths = require_lab(name, roots)
    with locked(paths, drivers.processes):
        async with own_events(bus, paths, drivers) as own:
            with own.bus.step(f"stop {name}") as outer:
                client = ControlClient(paths.socket)
                if await client.alive():
                    with own.bus.step("servers") as step:
                        asked = say.PauseServers(force)
                        resting = await client.work(say.PAUSE, asked, bus, step=step.id, told=own.take())
                        step.detail = ", ".join(resting.servers) or "all were off"
                elif not paths.netns.exists():
                    outer.unchanged("it is stopped")
                    return
                else:  # nobody can be asked which servers are on; they end now, as with a computer that goes down
                    paths.awake.unlink(missing_ok=True)
                with own.bus.step("daemon and networks"):
                    await teardown.stop_daemon(paths, bus, drivers, told=own.take)
                    await teardown.retire_namespace(paths, drivers)


async def list_labs(roots: Roots, drivers: Drivers | None = None) -> list[dict[str, Any]]:
    """The labs on this computer: their recorded description, and whether labd answers."""
    labs = []
    for name in roots.labs():
        paths = LabPaths(roots, name)
        spec = spec_of_other(paths)
        try:
            daemon = "running" if await ControlClient(paths.socket).alive() else _away(paths)
        except HypervisorError:
            daemon = "closed to you"  # somebody else's lab
        labs.append(
            {
                "lab": name,
                "daemon": daemon,
                "reached": _journal(paths).read().goal,
                "servers": sum(group.count for group in spec.servers.values()) if spec else 0,
                "domain": f"{name}.{spec.domain}" if spec else "",
                **({"why": "made by another version of rackless"} if spec is None and paths.spec.exists() else {}),
                "mib": teardown.used_bytes(paths.state) >> 20,
                "folder": str(paths.state),
            }
        )
    for orphan in await orphans.find_orphans(roots, drivers or open_drivers()):
        folder = str(orphan.paths.state)
        lost = {"lab": orphan.name, "daemon": "orphan", "reached": None, "servers": 0, "domain": "", "mib": 0}
        labs.append({**lost, "folder": folder, "why": orphan.why})
    return labs


@dataclass(frozen=True, slots=True)
class AbsentLab:
    """`rackless status` of a lab whose labd does not answer."""

    lab: str
    daemon: str


async def status(name: str, roots: Roots) -> LabStatus | AbsentLab:
    paths = require_lab(name, roots)
    client = ControlClient(paths.socket)
    if not await client.alive():
        return AbsentLab(name, _away(paths))
    return await client.look(say.STATUS)


def _away(paths: LabPaths) -> str:
    """`stopped` after `rackless down`, which leaves a list of servers; `not running` after a reboot or a kill."""
    return "stopped" if paths.resting.exists() else "not running"


async def destroy(name: str, roots: Roots, bus: Bus, drivers: Drivers | None = None) -> bool:
    """Destroy the lab: everything that its ledger lists and its folders; False when there was none."""
    drivers = drivers or open_drivers()
    require_root("remove a lab", drivers.computer)
    paths = LabPaths(roots, name)
    if not Ledger(paths.ledger).exists:
        return False
    with locked(paths, drivers.processes):
        async with own_events(
            bus, paths, drivers
        ) as own:  # when destroying fails, the events are in the log of what is left
            with own.bus.step(f"destroy {name}"):
                await own.tell(paths)
                await _forget_nodes(paths, own, bus)
                for orphan in await orphans.orphans_of(paths, drivers):  # of a lab whose ledger or pin somebody damaged
                    await orphans.end_orphan(orphan, own.bus, drivers)
                await teardown.teardown(paths, own.bus, drivers)
    return True


async def _forget_nodes(paths: LabPaths, own: OwnEvents, bus: Bus) -> None:
    """Delete the lab's nodes from an Ironic that is not its own; if that does not answer, a note says that they stay."""
    try:
        spec = recorded_spec(paths)
        if spec is None or spec.provisioner is None or not await ControlClient(paths.socket).alive():
            return
        with own.bus.step("nodes in the provisioner") as step:
            client = ControlClient(paths.socket)
            gone = await client.work(say.FORGET_NODES, Nothing(), bus, step=step.id, told=own.take())
            step.detail = ", ".join(gone.nodes) or "none"
    except RacklessError as error:
        own.bus.tell("nodes-left-behind", why=str(error))


async def find_orphans(roots: Roots, drivers: Drivers | None = None) -> list[dict[str, Any]]:
    """Labs that `rackless destroy --name` cannot end any more, with their processes and the folders that would stay."""
    drivers = drivers or open_drivers()
    return [orphans.describe(orphan, drivers) for orphan in await orphans.find_orphans(roots, drivers)]


async def destroy_orphans(roots: Roots, bus: Bus, drivers: Drivers | None = None) -> list[str]:
    """End labs that `rackless destroy --name` cannot end any more, and delete firewall rules of uplinks that are gone."""
    drivers = drivers or open_drivers()
    require_root("end labs that nobody knows", drivers.computer)
    found = await orphans.find_orphans(roots, drivers)
    for orphan in found:
        await orphans.end_orphan(orphan, bus, drivers)
    await orphans.sweep_tables(bus, drivers)
    teardown.remove_empty(roots)
    return [orphan.name for orphan in found]


def shared_bytes(roots: Roots) -> int:
    return teardown.used_bytes(roots.cache)


def uninstall(roots: Roots) -> None:
    """Remove what labs share; refused while there are labs that use it."""
    require_root("remove what labs share", why=SHARING)
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
    return teardown.owned(paths, open_drivers())


def describe_left(name: str, roots: Roots) -> str:
    """For whoever pressed Ctrl-C: how far the lab is, and which processes and bytes of it stay."""
    paths = LabPaths(roots, name)
    things = teardown.owned(paths, open_drivers())
    if not things:
        return "nothing was made"
    processes = sum(len(thing.get("processes", ())) for thing in things)
    size = sum(thing.get("bytes", 0) for thing in things) >> 20
    told = _journal(paths).read()
    reached = f"it has reached {told.goal}" if told.goal else "it is not made yet"
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


async def _offer(images: Sequence[ImageSpec], paths: LabPaths, bus: Bus) -> None:
    if images:
        with bus.step("your images"):
            for image in images:
                await UserImages(paths).offer(image)


async def _remove(actions: Sequence[Action], paths: LabPaths, bus: Bus, own: OwnEvents, drivers: Drivers) -> None:
    """Carry out the actions that lose something: a whole lab is torn down here, servers are removed by the labd that has them."""
    losses = [action for action in actions if action.verb in DESTRUCTIVE]
    if not losses:
        return
    with own.bus.step("what is replaced"):
        if any(loss.subject == f"lab/{paths.name}" for loss in losses):
            await _forget_nodes(paths, own, bus)
            await teardown.teardown(paths, own.bus, drivers)
            return
        past = recorded_spec(paths)
        assert past is not None
        await ensure_labd(past, paths, own.bus, drivers)
        asked = say.CarryOutLosses(
            tuple(
                say.Loss(loss.subject, "remove" if loss.verb is Verb.REMOVE else "recreate", loss.reason)
                for loss in losses
            )
        )
        with own.bus.step("servers") as step:
            client = ControlClient(paths.socket)
            await client.work(say.REMOVE, asked, bus, step=step.id, hear=["*"], told=own.take())
