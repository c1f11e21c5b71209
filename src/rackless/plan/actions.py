"""The actions that `up` has to do, with reasons, computed from the description and the observation. Pure; `rackless plan` prints
it.

There is a planner for each stage; `plan/stages.py` is the list of them. What they return is what the runner carries out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from rackless.plan.addressing import plan_lab
from rackless.plan.changes import FieldChange, find_changes
from rackless.plan.model import LabPlan, PlannedServer
from rackless.spec.change import Change
from rackless.spec.lab import LabSpec
from rackless.spec.uplink import Uplink


class Verb(StrEnum):
    KEEP = "keep"
    CREATE = "create"
    START = "start"
    CHANGE = "change"
    RESTART = "restart"
    RECREATE = "recreate"
    REMOVE = "remove"
    REFUSE = "refuse"


DESTRUCTIVE = (Verb.RECREATE, Verb.REMOVE)
"""Verbs that delete something; carried out only with `--replace`."""


@dataclass(frozen=True, slots=True)
class Action:
    subject: str
    """What it is about, such as `network/cluster` or `server/ctrl-0`."""
    verb: Verb
    reason: str


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed state of a lab; an empty one means that there is no lab."""

    spec: LabSpec | None = None
    """What it was made from."""
    daemon: bool = False
    servers: Mapping[str, str] = field(default_factory=dict)
    """Power by name."""
    networks: frozenset[str] = frozenset()
    stages: frozenset[str] = frozenset()
    """The goals that `up` has reached before."""
    differing: Mapping[str, str] = field(default_factory=dict)
    """Subjects that are not as described, and why."""
    resting: frozenset[str] = frozenset()
    """Servers that were on when the lab was stopped, and are to be switched on again."""
    outdated: str = ""
    """Why the running labd must be replaced."""
    grown: frozenset[str] = frozenset()
    """Servers that were made on demand."""

    def __or__(self, other: Observed) -> Observed:
        """The union of two observations of the same lab."""
        return Observed(
            spec=self.spec or other.spec,
            daemon=self.daemon or other.daemon,
            outdated=self.outdated or other.outdated,
            servers={**self.servers, **other.servers},
            networks=self.networks | other.networks,
            stages=self.stages | other.stages,
            differing={**self.differing, **other.differing},
            resting=self.resting | other.resting,
            grown=self.grown | other.grown,
        )


@dataclass(frozen=True, slots=True)
class Scene:
    """What every planner is given."""

    wanted: LabSpec
    observed: Observed
    new: LabPlan
    before: LabPlan | None
    changes: Sequence[FieldChange]

    @classmethod
    def of(cls, wanted: LabSpec, observed: Observed) -> Scene:
        old, new = observed.spec, plan_lab(wanted).grown(observed.grown)
        if old is None:
            return cls(wanted, observed, new, None, [])
        if old == wanted:
            return cls(wanted, observed, new, new, [])
        return cls(wanted, observed, new, plan_lab(old).grown(observed.grown), find_changes(old, wanted))

    @property
    def fresh(self) -> list[str]:
        """Servers that are made, or made anew, in an existing lab."""
        if self.before is None:
            return []
        pairs = [(server, self.before.server(server.name)) for server in self.new.servers]
        return [
            server.name
            for server, past in pairs
            if past is None or any(verb is Verb.RECREATE for verb, _ in _differences(past, server))
        ]

    @property
    def anew(self) -> bool:
        """Whether labd is started or restarted, and the processes that it supervises with it."""
        return not self.observed.daemon or bool(self.changes) or bool(self.observed.outdated)


Planner = Callable[[Scene], Iterator[Action]]


_SERVER_FIELDS: Mapping[str, tuple[Verb, str]] = {
    "memory_mib": (Verb.RESTART, "memory"),
    "vcpus": (Verb.RESTART, "virtual CPUs"),
    "role": (Verb.RECREATE, "role"),
    "address": (Verb.RECREATE, "address"),
    "bmc_address": (Verb.RECREATE, "BMC address"),
    "fqdn": (Verb.RECREATE, "name"),
    "disks": (Verb.RECREATE, "disks"),
    "nics": (Verb.RESTART, "NICs"),
    "bmc_scheme": (Verb.RECREATE, "way to boot"),
    "firmware": (Verb.RECREATE, "firmware"),
    "secure_boot": (Verb.RECREATE, "secure boot"),
    "tpm": (Verb.RECREATE, "TPM"),
    "disk_cache": (Verb.RESTART, "disk cache"),
    "disk_bus": (Verb.RECREATE, "disk bus"),
    "disk_serial": (Verb.RESTART, "disk serial"),
    "root_device": (Verb.RECREATE, "root device"),
    "image": (Verb.RECREATE, "image"),
}


def plan_whole(scene: Scene) -> list[Action]:
    """Changes of lab.yaml that concern the whole lab: refused ones, and those for which the lab must be made anew."""
    subject = f"lab/{scene.wanted.name}"
    if refused := [change for change in scene.changes if change.change is Change.REFUSED]:
        return [Action(subject, Verb.REFUSE, "; ".join(map(str, refused)))]
    if whole := [change for change in scene.changes if _concerns_all(change)]:
        return [Action(subject, Verb.RECREATE, "; ".join(map(str, whole)))]
    return []


def _concerns_all(change: FieldChange) -> bool:
    return change.change is Change.RECREATE and not change.path.startswith(("servers.", "image"))


def plan_daemon(scene: Scene) -> Iterator[Action]:
    subject, observed = f"lab/{scene.wanted.name}", scene.observed
    if observed.spec is None:
        yield Action(subject, Verb.CREATE, "there is none")
    elif not observed.daemon:
        yield Action(subject, Verb.START, "its daemon is not running")
    elif scene.changes:
        yield Action(subject, Verb.CHANGE, "; ".join(map(str, scene.changes)))
    elif observed.outdated:
        yield Action(subject, Verb.RESTART, observed.outdated)
    else:
        yield Action(subject, Verb.KEEP, "its daemon runs")


def plan_uplink(scene: Scene) -> Iterator[Action]:
    there, wanted = "uplink" in scene.observed.networks, scene.wanted.networks.uplink.mode is not Uplink.NONE
    changed = [change for change in scene.changes if change.path.startswith("networks.")]
    why = scene.observed.differing.get("network/uplink") or "; ".join(map(str, changed))
    if wanted and there and why:
        yield Action("network/uplink", Verb.CHANGE, why)
    elif wanted and there:
        yield Action("network/uplink", Verb.KEEP, "is there")
    elif wanted:
        yield Action("network/uplink", Verb.CREATE, "is not there")
    elif there:
        yield Action("network/uplink", Verb.CHANGE, "is no longer wanted, and taken away")


def plan_attachment(scene: Scene) -> Iterator[Action]:
    """Plans the stage `attachment`: a bridge or a NIC of the hypervisor in the cluster network."""
    wanted, there = scene.wanted.networks.cluster.attach, "attached" in scene.observed.networks
    why = scene.observed.differing.get("network/attached", "")
    if wanted is not None and there and why:
        yield Action("network/attached", Verb.CHANGE, why)
    elif wanted is not None and there:
        yield Action("network/attached", Verb.KEEP, f"{wanted.device} is attached")
    elif wanted is not None:
        yield Action("network/attached", Verb.CREATE, f"{wanted.device} of this computer is attached")
    elif there:
        yield Action("network/attached", Verb.CHANGE, "is no longer wanted, and given back")


def plan_service(name: str) -> Planner:
    """Plans a process that labd supervises."""

    def planner(scene: Scene) -> Iterator[Action]:
        subject = f"service/{name}"
        if not scene.anew and subject not in scene.observed.differing:
            yield Action(subject, Verb.KEEP, "runs")
        else:
            why = "is started with the daemon" if scene.observed.daemon else "does not run"
            yield Action(subject, Verb.START, scene.observed.differing.get(subject, why))

    return planner


def plan_networks(scene: Scene) -> Iterator[Action]:
    new, observed = scene.new, scene.observed
    concerning = [
        c for c in scene.changes if c.path.startswith("networks.") or c.path.endswith((".count", ".elastic", ".max"))
    ]
    why = "; ".join(map(str, concerning)) or "its servers changed"
    names = {"cluster": new.cluster, "provisioning": new.provisioning or new.provisioning_dhcp}
    baremetal = _network("baremetal", observed)
    if baremetal.verb is Verb.KEEP and any(a.verb is not Verb.KEEP for a in plan_attachment(scene)) and new.attached:
        baremetal = Action(baremetal.subject, Verb.CHANGE, "what is attached is plugged into it")
    if baremetal.verb is Verb.KEEP and scene.before is not None and scene.before.routes != new.routes:
        baremetal = Action(baremetal.subject, Verb.CHANGE, "other routes lead out of it")
    yield baremetal
    for name, network in names.items():
        if network is None:
            continue
        past = None if scene.before is None else scene.before.cluster if name == "cluster" else network
        link = name == "cluster" and scene.before is not None and scene.before.impairment != new.impairment
        if name in observed.networks and (past != network or link):
            yield Action(f"network/{name}", Verb.CHANGE, f"{why}; running servers go on")
        else:
            yield _network(name, observed)
    for bridge in new.extra:
        yield _network(bridge.name, observed)
    for vlan in new.vlans:
        yield _network(vlan.name, observed)
    kind = "routed" if new.bmc_site.router is not None else "direct"
    found = _network("bmc", observed)
    if found.verb is Verb.KEEP and scene.anew:
        found = Action(found.subject, Verb.CHANGE, "who may talk to the BMCs is said anew, with the daemon")
    yield replace(found, reason=f"{found.reason} ({kind})")


def _network(name: str, observed: Observed) -> Action:
    subject = f"network/{name}"
    if name not in observed.networks:
        return Action(subject, Verb.CREATE, "is not there")
    if subject in observed.differing:
        return Action(subject, Verb.CHANGE, observed.differing[subject])
    return Action(subject, Verb.KEEP, "is there")


def plan_servers(scene: Scene) -> Iterator[Action]:
    new, before, observed = scene.new, scene.before, scene.observed
    for server in new.servers:
        past = before.server(server.name) if before is not None else None
        subject = f"server/{server.name}"
        if past is None:
            yield Action(subject, Verb.CREATE, "is not there")
        elif differences := list(_differences(past, server)):
            verb = Verb.RECREATE if any(v is Verb.RECREATE for v, _ in differences) else Verb.RESTART
            running = observed.servers.get(server.name) == "on"
            if verb is Verb.RESTART and not running:
                verb = Verb.CHANGE
            yield Action(subject, verb, "; ".join(words for _, words in differences))
        elif observed.daemon and server.name not in observed.servers:
            yield Action(subject, Verb.CREATE, "was made, but is not there")
        elif subject in observed.differing:
            yield Action(subject, Verb.CHANGE, observed.differing[subject])
        else:
            yield Action(subject, Verb.KEEP, "is as wanted")
    for past in before.servers if before is not None else ():
        if new.server(past.name) is None:
            yield Action(f"server/{past.name}", Verb.REMOVE, "is no longer in the description; its disks go with it")


def _differences(old: PlannedServer, new: PlannedServer) -> Iterator[tuple[Verb, str]]:
    for name, (verb, words) in _SERVER_FIELDS.items():
        before, after = getattr(old, name), getattr(new, name)
        if name == "nics" and old.address != new.address:
            continue  # the address says it already
        if before != after:
            if name == "image":
                before, after = (image.url if image else "the node image" for image in (old.image, new.image))
            shown = "" if isinstance(before, tuple) or before == after else f" from {before} to {after}"
            yield verb, f"{words} changed{shown}"


def plan_power(scene: Scene) -> Iterator[Action]:
    for name in sorted(scene.observed.resting):
        if scene.new.server(name) is not None:
            yield Action(f"power/{name}", Verb.START, "was on when the lab was stopped")


def plan_goal(goal: str, title: Callable[[LabPlan], str], missing: str, *, kept: bool = False) -> Planner:
    """Plans a goal with one action: it is done when it was reached before and nothing of it differs. With `kept`, labd runs
    processes for it, which are started together with labd.
    """

    def planner(scene: Scene) -> Iterator[Action]:
        subject, observed = f"stage/{goal}", scene.observed
        if new := scene.fresh:
            observed = replace(observed, differing={**observed.differing, subject: f"{', '.join(new)} not yet"})
        there = goal in observed.stages and subject not in observed.differing and not (kept and scene.anew)
        why = "is there" if there else observed.differing.get(subject, missing)
        yield Action(subject, Verb.KEEP if there else Verb.START, f"{title(scene.new)}: {why}")

    return planner


def plan_nodes(scene: Scene) -> Iterator[Action]:
    """The nodes have joined the cluster's API, where there is one."""
    if scene.new.control_planes:
        yield from plan_goal("nodes", lambda _: "nodes join", "not joined yet")(scene)
