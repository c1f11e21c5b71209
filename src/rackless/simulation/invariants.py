"""What holds in every story, whatever goes wrong: looked at after every change, when the lab is at rest, and when it is gone.

Each is a function of the scene, named by what it demands; it yields what is wrong, in words.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from rackless.drivers.fake.script import Call
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import BY_HAND, State, read
from rackless.run.ledger import Ledger
from rackless.simulation.disaster import Disaster
from rackless.simulation.installer import UsersInstaller
from rackless.simulation.person import Person
from rackless.simulation.vip import Wire

Wrong = Iterator[str]


@dataclass
class Situation:
    person: Person
    disaster: Disaster
    wire: Wire
    """On which a cluster that installs itself has its VIP."""
    installer: UsersInstaller
    call: Call | None = None
    """The one that was made just now."""
    installed: set[str] = field(default_factory=set)
    """Servers that have a system."""
    _states: dict[str, tuple[Record, State]] = field(default_factory=dict)
    """By host: the record that was read last, and what it says."""
    _ledger: tuple[object, set[str]] = field(default_factory=lambda: (None, set()))

    def state_of(self, host: str) -> State | None:
        """Where the record says that the host is."""
        record = self.person.records().get(host)
        if record is None:
            return None
        known = self._states.get(host)
        if known is None or known[0] is not record:
            known = self._states[host] = (record, read(record).status.state)
        return known[1]

    def by_hand(self) -> set[str]:
        """Hosts of which a person has said what they run or that they are off, and workers that were given back: `up` leaves
        them alone."""
        return {
            host
            for host, record in self.person.records().items()
            if BY_HAND in (record["metadata"].get("annotations") or {})
            or (host.startswith("worker-") and not record["spec"].get("image"))
            or not record["spec"].get("online")
        }

    def owned(self) -> set[str]:
        """What the ledger lists; read again when somebody wrote to it."""
        path = self.person.paths.ledger
        try:
            stat = os.stat(path)
        except FileNotFoundError:
            return set()
        seen = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if self._ledger[0] != seen:
            self._ledger = (seen, {entry.id for entry in Ledger(path).entries()})
        return self._ledger[1]

    def may_lose(self, host: str) -> bool:
        return bool({"*", host} & self.disaster.may_lose)


def the_ledger_covers_all_that_exists(scene: Situation) -> Wrong:
    if scene.call is not None and not scene.call.changed:
        return
    paths = scene.person.paths
    owned = scene.owned()
    for pin in sorted(scene.person.world.pinned - owned):
        yield f"the namespace {pin} exists, and the ledger does not list it"
    for folder in (paths.state, paths.run):
        if folder.exists() and str(folder) not in owned:
            yield f"the folder {folder} exists, and the ledger does not list it"


def a_host_that_runs_is_never_wiped_unasked(scene: Situation) -> Wrong:
    call = scene.call
    if call is None or not call.changed:
        return
    host = call.subject.partition("-disk")[0] if call.method == "qemu-img" else call.subject
    match (call.port, call.method):
        case ("provisioner", "provision"):
            if host in scene.installed and not scene.may_lose(host):
                yield f"{host} was written a second time, and nobody asked for that"
            scene.installed.add(host)
        case ("provisioner", "deprovision") | ("hypervisor", "retire") | ("processes", "qemu-img"):
            if host in scene.installed and not scene.may_lose(host):
                yield f"{host} lost its system by {call}, and nobody asked for that"
            scene.installed.discard(host)


WORKED_ON: Mapping[str, tuple[State, ...]] = {
    "provision": (State.PROVISIONING,),
    "deprovision": (State.DEPROVISIONING,),
    "inspect": (State.INSPECTING, State.AVAILABLE),
    "prepare": (State.PREPARING, State.AVAILABLE),
}


def nothing_is_provisioned_twice(scene: Situation) -> Wrong:
    call = scene.call
    if call is not None and not call.changed and call.port == "provisioner" and call.method in WORKED_ON:
        state = scene.state_of(call.subject)
        if state is not None and state not in WORKED_ON[call.method]:
            yield f"the engine is asked to {call.method} {call.subject}, whose record says {state.value}"


WRITES = ("patch", "replace", "create", "delete")
CLAIMS = ("baremetalhosts", "machines")


def no_host_is_claimed_twice(scene: Situation) -> Wrong:
    """No Machine has two hosts, and no host two Machines that have seen a system on it."""
    call = scene.call
    if call is None or call.port != "api" or call.method not in WRITES or not call.subject.startswith(CLAIMS):
        return
    hosts: dict[tuple[str, str], str] = {}
    for host, record in scene.person.records().items():
        consumer = (record.get("spec") or {}).get("consumerRef")
        if consumer:
            key = (str(consumer.get("kind")), str(consumer.get("name")))
            if key in hosts:
                yield f"{host} and {hosts[key]} are both of {key[0]} {key[1]}"
            hosts[key] = host
    machines: dict[str, str] = {}
    for name, record in scene.person.records("machines").items():
        provider = str((record.get("spec") or {}).get("providerID") or "")
        if provider and not record["metadata"].get("deletionTimestamp"):
            if provider in machines:
                yield f"the Machines {name} and {machines[provider]} are both on {provider.rpartition('/')[2]}"
            machines[provider] = name


def at_most_one_leads(scene: Situation) -> Wrong:
    if len(scene.person.world.leaders) < 2:
        return
    leading = [one.identity for process, one in scene.person.world.leaders if process.alive and one.leading]
    if len(leading) > 1:
        yield f"{' and '.join(leading)} lead at once"


def at_most_one_holds_the_vip(scene: Situation) -> Wrong:
    if len(holders := scene.wire.holders()) > 1:
        yield f"{' and '.join(holders)} hold the VIP at once"


def at_most_one_of_each_program_runs(scene: Situation) -> Wrong:
    call = scene.call
    if call is None or call.port != "processes" or not call.changed:
        return
    for name in ("rackless.labd.main", "libvirtd", "ironic", "rackless api serve"):
        running = scene.person.world.processes.named(name)
        if len({process.network for process in running}) < len(running):
            yield f"{len(running)} of {name} run: {', '.join(str(process.pid) for process in running)}"


def nothing_is_left_after_destroy(scene: Situation) -> Wrong:
    world, roots = scene.person.world, scene.person.roots
    for process in world.processes.all.values():
        if process.alive:
            yield f"process {process.pid} ({process.name}) still runs"
    for pin in sorted(world.pinned):
        yield f"the namespace {pin} is still there"
    for name in scene.person.lab.running():
        yield f"the server {name} is still on"
    for name, device in world.devices.configured.items():
        if (now := world.devices.here.get(name)) != device:
            yield f"{name} was {device}, and is {now or 'gone'}"
    for link in world.devices.cables:
        yield f"the cable {link} is still there"
    for folder in (roots.state, roots.run):
        if folder.exists():
            left = ", ".join(sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))[:5])
            yield f"{folder} is still there, with {left or 'nothing in it'}"


def a_lab_at_rest_is_whole(scene: Situation) -> Wrong:
    if scene.installer.payload is not None:
        yield from scene.installer.lacking(at_rest=True)
        return
    wanted = {name for name, spare in scene.person.servers() if not spare} - scene.by_hand()
    lab = scene.person.lab
    if missing := sorted(wanted - set(lab.running())):
        yield f"{', '.join(missing)} should be on"
    if missing := sorted(wanted - set(lab.provisioner.disks)):
        yield f"{', '.join(missing)} should have a system"
    for host in sorted(wanted):
        if (state := scene.state_of(host)) is not State.PROVISIONED:
            yield f"{host} is {state.value if state else 'not written down'}, and should be provisioned"


MEDDLING = frozenset({"object edited", "object deleted", "engine forgets", "another destroy", "another up"})
"""Faults after which a host may be on its way again at the very moment at which `up` says that it is there."""


def what_up_says_is_so(scene: Situation) -> Wrong:
    if MEDDLING & {fault.kind for fault in scene.disaster.fired}:
        return
    if scene.installer.payload is not None:
        yield from scene.installer.lacking()
        return
    for host, spare in scene.person.servers():
        state = scene.state_of(host)
        if not spare and state is not State.PROVISIONED and host not in scene.by_hand():
            yield f"up is done, and {host} is {state.value if state else 'not written down'}"


def nothing_acknowledged_is_lost(scene: Situation) -> Wrong:
    """What a person wrote into an object is there for as long as that object is."""
    if not scene.disaster.labelled:
        return
    records = scene.person.records()
    for host, (uid, labels) in scene.disaster.labelled.items():
        metadata = records[host]["metadata"] if host in records else {}
        if metadata.get("uid") == uid and (lost := sorted(labels - set(metadata.get("labels") or ()))):
            yield f"the label {lost[0]} that a person gave {host} is gone"


AFTER_THE_VIP_MOVED: tuple[Callable[[Situation], Wrong], ...] = (at_most_one_holds_the_vip,)
AFTER_UP: tuple[Callable[[Situation], Wrong], ...] = (what_up_says_is_so,)
BEFORE_EVERY_CALL: tuple[Callable[[Situation], Wrong], ...] = (at_most_one_leads, nothing_acknowledged_is_lost)
BEFORE_CALLS_OF: Mapping[str, tuple[Callable[[Situation], Wrong], ...]] = {
    "provisioner": (nothing_is_provisioned_twice, *BEFORE_EVERY_CALL),
    "api": (no_host_is_claimed_twice, *BEFORE_EVERY_CALL),
}
"""By the port, where a call of it can show more than any call."""
AFTER_EVERY_CHANGE: tuple[Callable[[Situation], Wrong], ...] = (
    the_ledger_covers_all_that_exists,
    a_host_that_runs_is_never_wiped_unasked,
    no_host_is_claimed_twice,
    at_most_one_leads,
    at_most_one_of_each_program_runs,
    nothing_acknowledged_is_lost,
)
AT_REST: tuple[Callable[[Situation], Wrong], ...] = (a_lab_at_rest_is_whole,)
AFTER_DESTROY: tuple[Callable[[Situation], Wrong], ...] = (nothing_is_left_after_destroy,)

EXPECTED: Mapping[str, str] = {
    "the_ledger_covers_all_that_exists": "what a lab makes on the computer is in its ledger before it exists, and until it is gone",
    "a_host_that_runs_is_never_wiped_unasked": "a host with a system keeps it until somebody asks that it lose it",
    "nothing_is_provisioned_twice": "the engine is only asked for what the host's record says is being done",
    "no_host_is_claimed_twice": "a Machine has one host, and a host one Machine",
    "at_most_one_leads": "of the controllers that stand for election one leads at any time",
    "at_most_one_holds_the_vip": "the API VIP is on one machine at any time",
    "at_most_one_of_each_program_runs": "of labd, libvirtd, Ironic and the API one runs in a lab",
    "nothing_is_left_after_destroy": "after `destroy` nothing of the lab is left, and the computer's own devices are as they were",
    "a_lab_at_rest_is_whole": "five minutes after the last `up` every server that is described is on, installed and provisioned",
    "what_up_says_is_so": "when `up` is done, every host that it is about is provisioned",
    "nothing_acknowledged_is_lost": "what a person was told that they have written into an object stays there",
    "every_wait_ends": "every verb ends, and ends well a few tries after the last fault",
    "every_error_names_a_planted_cause": "an error says what was really planted, or refuses what cannot be done",
    "every_error_is_one_a_person_can_act_on": "nothing ends with an exception that nobody has put into words",
    "a_second_up_changes_nothing": "`up` on a lab that is whole changes nothing",
}
"""By the name of each demand, what it asks: told with a story in which it is not met."""
