"""What only some stories are about, each a lab with verbs that belong together. Every eighth seed lives through one of them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from rackless.simulation.faults import KINDS

_NOT_IN_INSTALLS = frozenset({"object deleted", "Machine deleted", "scaled", "engine forgets", "another destroy"})
"""An install writes its objects once: whoever deletes one, or has its engine forget it half-way, has given that host up."""
_OF_INSTALLS = {
    "bootstrap goes off": 5,
    "bootstrap reboots": 5,
    "bootstrap's program dies": 14,
    "the VIP's holder goes off": 4,
    "release server is away": 4,
    "work fails": 6,
}
INSTALLS = {kind: each.weight for kind, each in KINDS.items() if kind not in _NOT_IN_INSTALLS} | _OF_INSTALLS
_IPI = (
    "name: lab\nservers: {{ctrl: {{role: control-plane, count: {}}}, worker: {{count: {}}}}}\ncluster: {{method: ipi}}"
)
_ON_SERVER = (
    "name: lab\nservers: {{ctrl: {{role: control-plane, count: {}}}, worker: {{count: {}, memory: 3GiB}}}}\n"
    "cluster: {{method: ipi, bootstrap: {{on: worker-0}}}}"
)
_MOVED = (
    "name: lab\nservers: {ctrl: {role: control-plane, count: 1}, spare: {role: spare, count: 1}, worker: {count: 1}}"
)
_METAL = (
    "name: lab\nservers: {worker: {count: 1}}\nhosts: {rack1-u7: {bmc: 'redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1',"
    " mac: '02:00:00:00:07:07', password_file: SECRET, insecure: true}}"
)
_STRANGERS = (
    "name: lab\nnetworks: {provisioning: {mode: managed, discover: url}}\n"
    "servers: {worker: {bmc: redfish, count: 1}, old: {bmc: ipmi, firmware: bios}}"
)
_TWO_SPARES = (
    "name: lab\nservers: {ctrl: {role: control-plane, count: 1}, spare: {role: spare, count: 2}, worker: {count: 1}}"
)
_ELASTIC = "name: lab\nservers: {ctrl: {role: control-plane, count: 1}, worker: {count: 1, elastic: {max: 3}}}"


@dataclass(frozen=True, slots=True)
class Plot:
    lab: str
    verbs: tuple[str, ...]
    kinds: Mapping[str, int] | None = None
    """Of faults, and how often each is drawn; None for any."""
    weight: int = 1


PLOTS: tuple[Plot, ...] = (
    Plot(_IPI.format(1, 1), ("up",), INSTALLS, weight=2),
    Plot(_IPI.format(3, 1), ("up",), INSTALLS),
    Plot(_IPI.format(1, 1), ("up", "gather install", "down", "up"), INSTALLS),
    Plot(_IPI.format(1, 1), ("up", "destroy install", "up"), INSTALLS),
    Plot(_MOVED, ("up", "move away", "status", "move back"), weight=2),
    Plot(_MOVED, ("up", "scale up", "wait", "move away", "take back", "move back", "wait"), weight=2),
    Plot(_METAL, ("up", "take metal", "inspect metal", "put on metal"), weight=2),
    Plot(_METAL, ("up", "adopt metal", "hosts", "deprovision metal")),
    Plot(_STRANGERS, ("up", "strangers come", "wait", "hosts"), weight=2),
    Plot(_TWO_SPARES, ("up", "scale up", "wait", "status"), weight=2),
    Plot(_ELASTIC, ("up", "scale up", "wait", "wait", "status", "down", "up", "scale down", "wait"), weight=2),
    Plot(_MOVED, ("up", "subscribe", "put disc", "wait", "take disc", "end subscription", "wait")),
    Plot(_MOVED, ("show firmware", "up", "set firmware wrongly", "set firmware", "put", "wait", "status"), weight=2),
    Plot(_ON_SERVER.format(1, 1), ("up",), INSTALLS, weight=2),
    Plot(_ON_SERVER.format(3, 2), ("up", "status"), INSTALLS),
    Plot(_IPI.format(1, 0), ("up until bmc", "up", "destroy bootstrap", "status", "hosts"), INSTALLS),
)


def draw_plot(chance: random.Random) -> Plot:
    return chance.choices(PLOTS, [plot.weight for plot in PLOTS])[0]
