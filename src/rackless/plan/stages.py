"""The stages of a lab: which there are, which need which, and how each is planned. `up`, `plan`, `down`, `destroy` and a
restart of the daemon all read this one list. Pure; what a stage does is in `labd/stages.py` and `operations/daemon_life.py`.

A stage belongs to a goal, one of the words that `rackless up --until` takes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rackless.plan.actions import (
    Action,
    Observed,
    Planner,
    Scene,
    Verb,
    plan_attachment,
    plan_daemon,
    plan_goal,
    plan_networks,
    plan_nodes,
    plan_power,
    plan_servers,
    plan_service,
    plan_uplink,
    plan_whole,
)
from rackless.plan.model import LabPlan
from rackless.spec.cluster import Method
from rackless.spec.lab import LabSpec

GOALS = ("lab", "bmc", "engine", "hosts", "cluster")
INSTALL_GOALS = ("manifests", "ignition", "bootstrap")
"""Where an install by a bootstrap can stop, after the BMCs: its manifests are written, its Ignition configs are, its bootstrap has
handed over and is gone."""
TITLES = {"lab": "lab", "bmc": "BMCs", "engine": "provisioning engine", "hosts": "hosts", "cluster": "cluster"}


@dataclass(frozen=True, slots=True)
class Planned:
    """The planning half of a stage: name, needs, planner."""

    name: str
    goal: str
    needs: tuple[str, ...]
    planner: Planner
    removes: str = ""
    """The kind of subject that the stage can remove, if any."""

    def plan(self, scene: Scene) -> list[Action]:
        return list(self.planner(scene))


def _bmcs(plan: LabPlan) -> str:
    return f"{len(plan.servers)} BMCs"


STAGES = (
    Planned("daemon", "lab", (), plan_daemon),
    Planned("uplink", "lab", ("daemon",), plan_uplink),
    Planned("attachment", "lab", ("daemon",), plan_attachment),
    Planned("libvirtd", "lab", ("daemon",), plan_service("libvirtd")),
    Planned("networks", "lab", ("libvirtd",), plan_networks),
    Planned("time", "lab", ("networks",), plan_service("time")),
    Planned("api", "lab", ("networks",), plan_service("api")),
    Planned("servers", "lab", ("networks",), plan_servers, removes="server"),
    Planned("bmc", "bmc", ("servers",), plan_goal("bmc", _bmcs, "not running yet", kept=True)),
    Planned("power", "lab", ("servers", "bmc"), plan_power),
    Planned("engine", "engine", ("bmc", "api"), plan_goal("engine", lambda _: "Ironic", "not running yet", kept=True)),
    Planned("hosts", "hosts", ("engine", "power"), plan_goal("hosts", lambda _: "hosts", "not provisioned yet")),
    Planned("cluster", "cluster", ("hosts",), plan_goal("cluster", lambda _: "cluster", "not there yet")),
    Planned("nodes", "cluster", ("cluster",), plan_nodes),
)
"""In an order in which each comes after those that it needs."""

INSIDE = tuple(stage.name for stage in STAGES if stage.name not in ("daemon", "uplink", "attachment"))
"""The stages that labd carries out; `up` itself does the others, outside the lab."""


def plan_actions(wanted: LabSpec, observed: Observed, goals: Collection[str] = GOALS) -> list[Action]:
    """The actions of all stages up to the last of `goals`, in their order."""
    scene = Scene.of(wanted, observed)
    whole = plan_whole(scene)
    if any(action.verb is Verb.REFUSE for action in whole):
        return whole
    if whole:
        return [*whole, *plan_actions(wanted, Observed(), goals)]
    return [action for stage in STAGES if stage.goal in goals for action in stage.plan(scene)]


def stages_of(goals: Collection[str]) -> list[str]:
    return [stage.name for stage in STAGES if stage.goal in goals]


def reached_goal(done: Collection[str]) -> str | None:
    """The furthest goal of which, and of those before it, every stage has been done at least once."""
    found = None
    for goal in GOALS:
        if not all(stage.name in done for stage in STAGES if stage.goal == goal and stage.name in INSIDE):
            break
        found = goal
    return found


def upto(goal: str) -> Sequence[str]:
    return GOALS[: GOALS.index(goal) + 1]


def own_stages(spec: LabSpec) -> frozenset[str]:
    """The names of the stages that `up` comes to: with another method than `direct` somebody else provisions the hosts."""
    goals = GOALS if spec.cluster.method is Method.DIRECT else upto("bmc")
    return frozenset(stage.name for stage in STAGES if stage.goal in goals)
