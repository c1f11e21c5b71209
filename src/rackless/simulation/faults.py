"""What can go wrong in a story, as values: which call it waits for, and what happens then. A seed draws a handful of them.

A fault waits for the n-th call of a port that fits its pattern, so that a story with fewer faults is still the same story up to
the first one that is missing: that is what lets a failing story shrink.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

Draw = Callable[[random.Random], tuple[str, float]]
"""A subject and a number of seconds (or another amount) for a fault of this kind."""


@dataclass(frozen=True, slots=True)
class Mishap:
    kind: str
    pattern: str
    nth: int
    subject: str = ""
    amount: float = 0.0

    def __str__(self) -> str:
        about = " ".join(word for word in (self.subject, f"({self.amount:g})" if self.amount else "") if word)
        return f"{self.kind} {about} at call {self.nth} of {self.pattern}".replace("  ", " ")


PROGRAMS: Mapping[str, str] = {
    "up": "up",
    "labd": "rackless.labd.main",
    "holder": "rackless.holder.main",
    "libvirtd": "libvirtd",
    "ironic": "ironic",
    "api": "rackless api serve",
}
"""Who can be killed, by what the process is called."""

WHEN: tuple[tuple[str, int], ...] = (
    ("*", 900),
    ("disk.*", 350),
    ("disk.*", 900),
    ("disk.replace *", 60),
    ("disk.sync *", 120),
    ("api.*", 300),
    ("api.replace baremetalhosts *", 8),
    ("api.patch*", 60),
    ("hypervisor.*", 80),
    ("hypervisor.ensure *", 5),
    ("networks.*", 30),
    ("links.*", 60),
    ("processes.*", 40),
    ("processes.start *", 5),
    ("provisioner.*", 250),
    ("provisioner.provision *", 30),
    ("provisioner.inspect *", 15),
    ("nodes.*", 60),
    ("nodes.objects *", 4),
    ("nodes.admit *", 1),
)
"""Patterns, and how many calls of each a lab makes on its way up."""


def _one_of(*words: str) -> Draw:
    return lambda chance: (chance.choice(words), 0.0)


def _amount(*numbers: float) -> Draw:
    return lambda chance: ("", chance.choice(numbers))


def _server(chance: random.Random) -> tuple[str, float]:
    return chance.choice(("ctrl-0", "ctrl-1", "worker-0")), 0.0


@dataclass(frozen=True, slots=True)
class Kind:
    draw: Draw = lambda _: ("", 0.0)
    weight: int = 1
    only: tuple[str, ...] = ()
    """Patterns that it may wait for; empty for any."""


FAILING = ("hypervisor.*", "networks.*", "links.*", "api.*", "provisioner.*", "processes.run *",
           "disk.*", "nodes.admit *", "nodes.objects *")  # fmt: skip

PROVISIONING = ("provisioner.*", "provisioner.inspect *", "provisioner.provision *")
"""From then on hosts are written down."""
WRITING = ("api.patch*", "api.replace*", "api.create*", "api.delete*", "api.*", "api.patch baremetalhosts *")

PHASES: tuple[tuple[str, int], ...] = (
    ("hypervisor.*", 60),
    ("disk.*", 700),
    ("release.*", 1),
    ("api.create *", 100),
    ("api.create baremetalhosts *", 2),
    ("provisioner.register *", 5),
    ("provisioner.inspect *", 15),
    ("provisioner.provision *", 40),
    ("etcd.*", 50),
    ("etcd.add", 1),
    ("etcd.promote", 1),
    ("etcd.remove", 1),
    ("api.ready *", 4),
    ("api.create configmaps *", 4),
)
"""Calls in every phase of an install, and how many of each there are: a bootstrap is made, fetches, applies manifests, provisions,
hands over, and goes."""
INSTALLING = tuple(pattern for pattern, _ in PHASES)

BESIDE_AN_INSTALLER: tuple[tuple[str, int], ...] = (
    ("*", 700),
    ("disk.*", 600),
    ("disk.replace *", 60),
    ("hypervisor.*", 80),
    ("networks.*", 30),
    ("links.*", 60),
    ("processes.*", 60),
    ("processes.run *", 40),
    ("installer.*", 7),
    ("installer.*", 7),
    ("installer.*", 14),
)
"""Calls of an `up` to the BMCs and of the installer that is run then, and how many of each there are."""
BESIDE_DEVICES = (*WHEN, ("devices.*", 8), ("devices.*", 16), ("devices.*", 8), ("networks.*", 30))
"""The same in a lab on a bridge or a NIC of the computer's."""
STEPS: tuple[tuple[str, int], ...] = (
    ("installer.*", 14),
    ("installer.config", 2),
    ("installer.infrastructure", 2),
    ("installer.api", 2),
    ("installer.bootstrapping", 2),
    ("installer.destroying", 2),
    ("installer.initialize", 2),
    ("installer.complete", 2),
)
"""What the user's installer goes through, and how often in two runs."""
INSTALLERS_OWN = tuple(dict(STEPS))

KINDS: Mapping[str, Kind] = {
    "kill": Kind(_one_of(*PROGRAMS, "labd", "labd", "holder"), weight=6),
    "kill dnsmasq": Kind(),
    "restart the computer": Kind(_amount(0, 1, 2, 3, 5, 8, 13, 21, 40, 90, 200), weight=4),
    "fail": Kind(weight=4, only=FAILING),
    "lose the answer": Kind(weight=4, only=("hypervisor.*", "networks.*", "links.*", "api.*", "hypervisor.ensure *")),
    "answer comes late": Kind(_amount(0.5, 7.5, 40.0), weight=2, only=(
        "hypervisor.*", "networks.*", "api.*", "api.patch*", "api.patch leases *")),
    "fail unexpectedly": Kind(weight=3, only=("provisioner.inspect *", "provisioner.provision *")),
    "request comes late": Kind(_amount(0.01, 0.5, 5.0, 60.0), weight=3, only=WRITING),
    "request is doubled": Kind(_amount(0.01, 0.5, 5.0, 60.0), weight=2, only=WRITING),
    "delay": Kind(_amount(0.5, 5.0, 40.0), weight=2),
    "hang": Kind(_amount(600.0, 4000.0), only=(*FAILING, "api.patch leases *")),
    "disk full": Kind(_amount(0.1, 5.0, 60.0)),
    "disk read-only": Kind(_amount(0.1, 5.0, 60.0)),
    "disk slow": Kind(_amount(0.2, 3.0)),
    "clock jumps": Kind(_amount(-86400.0, -5.0, 3600.0, 86400.0 * 400)),
    "BMC lies about power": Kind(_server, weight=2),
    "host hangs": Kind(_server, weight=2),
    "work fails": Kind(lambda chance: (f"{chance.choice(('inspect', 'prepare', 'provision', 'register'))} "
                                       f"{_server(chance)[0]}", float(chance.choice((1, 2, 7)))), weight=3),
    "engine forgets": Kind(),
    "server goes off": Kind(_server, weight=2),
    "server is deaf": Kind(_server),
    "Ctrl-C": Kind(weight=2),
    "connection breaks": Kind(weight=2),
    "another up": Kind(weight=2),
    "another destroy": Kind(),
    "status": Kind(),
    "plan": Kind(),
    "object edited": Kind(lambda chance: (f"{chance.choice(('inspect', 'reboot', 'retry', 'label', 'label', 'offline', 'online'))} "
                                          f"{_server(chance)[0]}", 0.0), weight=3),
    "somebody edits": Kind(_amount(20, 60), weight=5, only=PROVISIONING),
    "object deleted": Kind(_server),
    "Machine deleted": Kind(weight=1),
    "scaled": Kind(_amount(0, 1, 2), weight=2),
    "node falls silent": Kind(_server),
    # only in installs
    "bootstrap goes off": Kind(weight=0, only=INSTALLING),
    "bootstrap reboots": Kind(weight=0, only=INSTALLING),
    "bootstrap's program dies": Kind(
        _one_of("ironic", "ironic", "api", "etcd", "metal3", "manifests", "hand-over"), weight=0, only=INSTALLING),
    "the VIP's holder goes off": Kind(weight=0, only=INSTALLING),
    "release server is away": Kind(_amount(5.0, 60.0, 600.0, 4000.0), weight=0, only=(
        "api.create *", "provisioner.inspect *", "provisioner.provision *")),
    # only where a user's installer runs
    "installer dies": Kind(weight=0, only=INSTALLERS_OWN),
    "installer fails": Kind(_amount(1, 4, 5, 6), weight=0, only=INSTALLERS_OWN),
    "installer's machine goes off": Kind(weight=0, only=INSTALLERS_OWN),
    "stage dies": Kind(weight=0, only=INSTALLERS_OWN),
}  # fmt: skip


_AWAY = (
    r"went away|does not answer|daemon ended|is away|ends whenever|nobody looks after|gave up waiting|does not stay up"
    r"|does not run any more"
)
_DISK = r"the disk|no room left"
_MOVING = r"being worked on|is under way|is not ended"
BLAMED: Mapping[str, str] = {
    "kill": rf"{_AWAY}|was killed|no lab named",  # the last: `up` was killed before it had made anything
    "kill dnsmasq": r"",
    "restart the computer": rf"{_AWAY}|was killed",
    "fail": rf"planted|{_AWAY}|{_DISK}|the connection broke",
    "lose the answer": rf"planted|{_AWAY}",
    "answer comes late": rf"gave up waiting|stayed off|{_AWAY}",
    "fail unexpectedly": r"planted",
    "request comes late": rf"planted|{_AWAY}",
    "request is doubled": rf"planted|{_AWAY}",
    "delay": r"gave up waiting|stayed off",
    "hang": rf"were not enough|stayed off|{_AWAY}",
    "disk full": rf"{_DISK}|{_AWAY}",
    "disk read-only": rf"{_DISK}|{_AWAY}",
    "disk slow": rf"{_AWAY}|stayed off|were not enough",
    "BMC lies about power": r"stayed off|nobody looks after|its node has not joined"
    r"|gave up waiting for (its nodes|the workers) to join",
    "host hangs": r"were not enough|stayed off|gave up waiting",
    "work fails": r"planted",
    "engine forgets": r"planted",
    "server goes off": r"stayed off|gave up waiting",
    "Ctrl-C": rf"was interrupted|{_AWAY}",
    "connection breaks": rf"{_AWAY}|connection broke",
    "another up": r"another rackless is working|no lab named",
    "another destroy": rf"another rackless is working|no lab named|is being deleted|{_AWAY}",
    "status": r"no lab named|does not answer|went away",
    "plan": r"does not answer|went away",
    "object edited": r"stayed off|is being deleted|gave up waiting",
    "Machine deleted": r"is being deleted|gave up waiting",
    "scaled": r"gave up waiting",
    "node falls silent": r"gave up waiting for (its nodes|the workers) to join",
    "bootstrap goes off": rf"bootstrap machine|{_AWAY}|were not enough",
    "bootstrap reboots": rf"bootstrap machine|{_AWAY}|were not enough",
    "bootstrap's program dies": rf"bootstrap machine cannot go on|{_AWAY}|were not enough",
    "the VIP's holder goes off": rf"bootstrap machine|stayed off|{_AWAY}|were not enough",
    "release server is away": rf"planted|{_AWAY}",
    "installer dies": r"openshift-install was killed|exit code: -9",
    "installer fails": r"planted: the installer failed",
    "installer's machine goes off": r"exited with [156]|exit code: [156]|its bootstrap machine is off",
    "stage dies": r"stage of the rehearsal|exited with 6|exit code: 6|failed to initialize|not all was reached",
    "asked to move away": rf"were moved to|{_MOVING}|gave up waiting|were not enough|there is no host",
    "asked to scale down": r"is not to be provisioned any more",
    "asked to pause": r"gave up waiting|were not enough",
    "asked to detach": r"gave up waiting|were not enough",
    "asked to two ups": r"another rackless is working",
    "somebody edits": r"changes all the time",
    "object deleted": r"is being deleted|deleted meanwhile|there is no host|gave up waiting",
}
"""Words of the errors that each kind of fault may cause; an error that none of those that happened explains is wrong."""


def explained(error: str, kinds: Collection[str]) -> bool:
    return any((words := BLAMED.get(kind, "")) and re.search(words, error) for kind in kinds)


def draw(
    chance: random.Random,
    many: int,
    among: Mapping[str, int] | None = None,
    when: Sequence[tuple[str, int]] = WHEN,
) -> list[Mishap]:
    """So many, of these kinds, each as often as its weight says; else of all. `when` has the calls at which they happen, but for
    kinds that have calls of their own."""
    found = among or {kind: each.weight for kind, each in KINDS.items()}
    kinds, weights = list(found), list(found.values())
    return [_draw_one(chance, kind, when) for kind in chance.choices(kinds, weights, k=many)]


def _draw_one(chance: random.Random, kind: str, when: Sequence[tuple[str, int]]) -> Mishap:
    subject, amount = KINDS[kind].draw(chance)
    if only := KINDS[kind].only:
        pattern = chance.choice(only)
        most = {INSTALLING: dict(PHASES), INSTALLERS_OWN: dict(STEPS)}.get(only, dict(WHEN)).get(pattern, 40)
    else:
        pattern, most = chance.choice(when)
    return Mishap(kind, pattern, chance.randint(1, most), subject, amount)
