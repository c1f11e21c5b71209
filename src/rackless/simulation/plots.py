"""What only some stories are about, each a lab with verbs that belong together. Every eighth seed lives through one of them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rackless.simulation.faults import BESIDE_AN_INSTALLER, BESIDE_DEVICES, KINDS, WHEN

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
    when: Sequence[tuple[str, int]] = WHEN
    """The calls at which faults happen that have none of their own, and how many of each there are."""
    again: str = "up"
    """What the person runs again when nothing goes wrong any more."""


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


_OPENSHIFT = (
    "name: lab\nservers: {{ctrl: {{role: control-plane, count: 3}}}}\n"
    "cluster: {{method: openshift, openshift: {{installer: INSTALLER, payload: {}}}}}"
)
_REAL = (
    "name: lab\nremediation: auto\nservers: {ctrl: {role: control-plane, count: 3}}\n"
    "cluster: {method: openshift, openshift: {installer: INSTALLER, payload: real, pull_secret: PULL_SECRET, oc: OC}}"
)
_SITE = "name: lab\nservers: {ctrl: {role: control-plane, count: 3}}"
_OF_INSTALLERS = {
    "kill": 6,
    "restart the computer": 4,
    "fail": 4,
    "lose the answer": 3,
    "delay": 2,
    "disk full": 1,
    "disk read-only": 1,
    "disk slow": 1,
    "clock jumps": 1,
    "Ctrl-C": 4,
    "connection breaks": 2,
    "status": 1,
    "installer dies": 5,
    "installer fails": 5,
    "installer's machine goes off": 4,
    "stage dies": 4,
}
_OF_THEIR_LABS = _OF_INSTALLERS | {"another up": 2, "another destroy": 1, "plan": 1}


def _by(lab: str, *verbs: str, weight: int = 1) -> Plot:
    return Plot(lab, verbs, _OF_THEIR_LABS, weight, BESIDE_AN_INSTALLER)


def _rehearsed(*verbs: str, again: str = "rehearse") -> Plot:
    return Plot(_SITE, verbs, _OF_INSTALLERS, 1, BESIDE_AN_INSTALLER, again)


_ATTACHED = (
    "name: lab\nnetworks:\n"
    "  cluster: {{attach: {}, dhcp: open, cidr: 10.9.0.0/24, gateway: 10.9.0.1, api_vip: 10.9.0.5, ingress_vip: 10.9.0.4}}\n"
    "servers: {{ctrl: {{role: control-plane, count: 1}}, worker: {{count: 1}}}}"
)
RARER_PLOTS: tuple[Plot, ...] = (
    _by(_OPENSHIFT.format("quick"), "up", "status", "ways in", "down", "up"),
    _by(_OPENSHIFT.format("full"), "up", "why", "down", "up", "status", weight=2),
    _by(_OPENSHIFT.format("full"), "another site's config", "up", "gather", "destroy", "up"),
    _by(_REAL, "up", "status", "up"),
    _rehearsed("rehearse", "rehearse"),
    _rehearsed("rehearse and keep", "rehearse in full", again="rehearse in full"),
    _rehearsed("rehearse a silent bootstrap", "rehearse an interruption", "rehearse a bootstrap that goes off"),
    Plot(_ATTACHED.format("eth1"), ("up", "down", "up"), when=BESIDE_DEVICES),
    Plot(_ATTACHED.format("{device: eth2, in_use: true}"), ("up until lab", "up", "destroy"), when=BESIDE_DEVICES),
    Plot(_ATTACHED.format("br0"), ("up", "plan", "down"), when=BESIDE_DEVICES),
)
"""A user's own installer is run, or a lab is attached to a device of the computer. Every twentieth seed lives through one."""


def draw_plot(chance: random.Random, plots: Sequence[Plot] = PLOTS) -> Plot:
    return chance.choices(plots, [plot.weight for plot in plots])[0]
