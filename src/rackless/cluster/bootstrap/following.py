"""An install as its bootstrap machine goes through it, seen from the lab: its console, and its API once that answers.

Knows a log file and an API; that the machine is a VM it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rackless.cluster.bootstrap.phases import JOINING, SeenPhases, is_ready
from rackless.cluster.bootstrap.telling import ConsoleReader
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.ports.api import ApiUnreachable
from rackless.ports.clock import Clock
from rackless.ports.resources import Record, Refused, Resources
from rackless.provisioning.baremetalhost import RETRY
from rackless.run.waiting import until

API_WITHIN = 1200.0
MANIFESTS_WITHIN = 1200.0
"""20 minutes each, as the OpenShift installer waits for an API."""
CONTROL_PLANE_WITHIN = 3600.0
"""An hour, as the OpenShift installer waits on bare metal."""
LOOK_EVERY = 1.0
MACHINE = "server/bootstrap"
MACHINE_API = "openshift-machine-api"
ROLE_LABEL, CONTROL_PLANE = "installer.openshift.io/role", "control-plane"


class InfrastructureFailed(RacklessError):
    """The VM of a bootstrap machine could not be made or taken away."""

    exit_code = 4


class ProvisioningGivenUp(RacklessError):
    """A host of the install is not tried any more."""

    exit_code = 5


class BootstrapFailed(RacklessError):
    """The bootstrap machine says itself that it cannot go on."""

    exit_code = 5


@dataclass
class BootstrapConsole:
    """The log of a console, read from its beginning as it grows, or from `begin`, where the machine had another life before."""

    log: Path
    begin: int = 0
    told: list[dict[str, Any]] = field(default_factory=list)
    _reader: ConsoleReader = field(default_factory=ConsoleReader)

    def __post_init__(self) -> None:
        self._read = self.begin

    def look(self) -> list[dict[str, Any]]:
        """What was told since the last look."""
        try:
            with self.log.open("rb") as file:
                file.seek(self._read)
                piece = file.read()
        except FileNotFoundError:  # it has said nothing yet
            return []
        self._read += len(piece)
        found = self._reader.feed(piece)
        self.told += found
        return found


@dataclass
class Following:
    console: BootstrapConsole
    api: Resources
    clock: Clock
    bus: Bus
    alive: Callable[[], bool] = lambda: True
    """Whether the machine is on."""
    require_lab: Callable[[], None] = lambda: None
    """Raises LabError when the lab ended, through which the API is reached."""
    retries: bool = False
    """Whether hosts that have failed are tried again at once, when they are first seen."""

    def __post_init__(self) -> None:
        self.phases = SeenPhases(self.bus, "bootstrap")
        self.console.look()  # what it told before is not told again, and a failure of before may have been mended

    @property
    def has_let_go(self) -> bool:
        """Whether the bootstrap has ended its Ironic for good: until metal3 runs in the cluster, nobody looks after hosts."""
        return _phase(self.console.told, "hands over") is not None

    async def await_api(self) -> None:
        async def answers() -> tuple[bool, str]:
            self._hear()
            try:
                await self.api.list("Namespace")
            except ApiUnreachable as error:
                return False, error.why or error.what
            return True, "answers"

        with self.bus.step("bootstrap's API at the API VIP") as step:
            step.detail = await until(
                answers, what="the bootstrap's API", within=API_WITHIN, every=LOOK_EVERY, clock=self.clock,
                hint=_HINT.format(log=self.console.log),
            )  # fmt: skip

    async def await_manifests(self) -> None:
        """Each is told when it is there; the reason why one is not, when that changes."""

        async def applied() -> tuple[bool, str]:
            self._hear()
            done = _phase(self.console.told, "manifests applied")
            if done is not None:
                return True, f"{done['count']} applied"
            last = next((each for each in reversed(self.console.told) if "manifest" in each), None)
            return False, _manifest(last) if last is not None else "not begun"

        with self.bus.step("manifests") as step:
            step.detail = await until(
                applied, what="the manifests to be in the API", within=MANIFESTS_WITHIN, every=LOOK_EVERY,
                clock=self.clock, hint=_HINT.format(log=self.console.log),
            )  # fmt: skip

    async def await_control_plane(self) -> None:
        """The hosts of the control plane are provisioned by the bootstrap, and their nodes have joined its API."""
        states: dict[str, str] = {}
        failed = Retrying(self.api, self.bus, self.retries)

        async def provisioned() -> tuple[bool, str]:
            self._hear()
            try:
                hosts = await self.api.list("BareMetalHost", namespace=MACHINE_API, labels={ROLE_LABEL: CONTROL_PLANE})
                await failed.look(hosts)
            except (ApiUnreachable, Refused) as error:
                return False, error.why or error.what
            self.phases.see_hosts(hosts)
            states.update({each["metadata"]["name"]: describe_state(each) for each in hosts})
            ready = bool(hosts) and all(state == "provisioned" for state in states.values())
            return ready, ", ".join(f"{name} {state}" for name, state in sorted(states.items())) or "no hosts"

        async def joined() -> tuple[bool, str]:
            self._hear()
            try:
                nodes = {each["metadata"]["name"]: each for each in await self.api.list("Node")}
            except ApiUnreachable as error:
                return False, error.why or error.what
            lacking = [name for name in sorted(states) if name not in nodes or not is_ready(nodes[name])]
            for name in states:
                self.phases.see(f"node/{name}", JOINING if name in lacking else "")
            return not lacking, f"waits for {', '.join(lacking)}" if lacking else f"{', '.join(sorted(states))} ready"

        with self.bus.step("control plane") as step:
            for look, what in ((provisioned, "the control plane to be provisioned"), (joined, "its nodes to join")):
                step.detail = await until(
                    look, what=what, within=CONTROL_PLANE_WITHIN, every=LOOK_EVERY * 3, clock=self.clock,
                    hint=_HINT.format(log=self.console.log),
                )  # fmt: skip

    async def await_hand_over(self) -> None:
        """The bootstrap says in the cluster's API that it has handed over, and may go."""

        async def complete() -> tuple[bool, str]:
            self._hear()
            try:
                found = await self.api.get("ConfigMap", "bootstrap", namespace="kube-system")
            except ApiUnreachable as error:
                return False, error.why or error.what
            return ((found or {}).get("data") or {}).get("status") == "complete", "not complete"

        with self.bus.step("hand-over") as step:
            await until(
                complete, what="the bootstrap to be complete", within=CONTROL_PLANE_WITHIN, every=LOOK_EVERY * 3,
                clock=self.clock, hint=_HINT.format(log=self.console.log),
            )  # fmt: skip
            step.detail = "complete"

    def _hear(self) -> None:
        """Raises BootstrapFailed, and LabError when the lab has ended."""
        told = self.console.look()
        self.require_lab()
        if not self.alive():
            raise BootstrapFailed(
                "the bootstrap machine is off",
                why="it was switched off, or its emulator ended",
                hint=f"the same command switches it on again; {_HINT.format(log=self.console.log)}",
            )
        for each in told:
            if "manifest" in each:
                self.bus.tell("bootstrap-said", level="info", said=_manifest(each))
            elif "payload" in each:
                self.bus.tell("payload-away", level="info", why=str(each["refused"]))
            elif each.get("phase") in _WORKS:
                self.phases.see(MACHINE, _WORKS[each["phase"]])
            elif each.get("phase") == "provisioning network":
                dhcp = "answers DHCP there" if each.get("dhcp") else "answers no DHCP there"
                self.bus.tell("bootstrap-address", level="info", address=str(each.get("address")), dhcp=dhcp)
            elif each.get("phase") in _PHASES:
                self.bus.tell("bootstrap-said", level="info", said=_PHASES[each["phase"]])
            elif "warning" in each:
                self.bus.tell("bootstrap-said", level="info", said=f"{each['subject']}: {each['warning']}")
            elif "machine-config" in each:
                role, client = str(each["machine-config"]), str(each.get("to"))
                self.bus.tell("machine-config-fetched", level="info", role=role, client=client)
            if "failed" in each:
                raise BootstrapFailed(
                    "the bootstrap machine cannot go on",
                    why=str(each["failed"]),
                    hint=_HINT.format(log=self.console.log),
                )


@dataclass
class Retrying:
    """What becomes of hosts that failed, while an install waits for them."""

    api: Resources
    bus: Bus
    retries: bool
    """Somebody runs the install again: the first look tries them again; later ones end the wait for a host that was given up."""

    async def look(self, hosts: Sequence[Record]) -> None:
        if self.retries:
            await retry_failed(hosts, self.api, self.bus)
            self.retries = False
        else:
            require_tried(hosts)


async def retry_failed(hosts: Sequence[Record], api: Resources, bus: Bus) -> None:
    """Somebody runs the install again, and may have mended what was wrong: a host that failed often is not tried any more, and one
    that failed lately waits for minutes."""
    for each in hosts:
        name, annotations = str(each["metadata"]["name"]), each["metadata"].get("annotations") or {}
        if (each.get("status") or {}).get("errorType") and RETRY not in annotations:
            await api.patch("BareMetalHost", name, {"metadata": {"annotations": {RETRY: ""}}}, namespace=MACHINE_API)
            bus.tell("host-tried-again", level="info", subject=f"host/{name}", host=name)


def require_tried(hosts: Sequence[Record]) -> None:
    """Raises ProvisioningGivenUp when a host's system was written in vain so often that its controller does not try it any more."""
    from rackless.provisioning.states import (
        MAX_PROVISIONING_FAILURES,
    )  # not for the bootstrap's units, which import this module

    for each in hosts:
        status, annotations = each.get("status") or {}, each["metadata"].get("annotations") or {}
        failures = int(status.get("provisioningFailCount") or 0) + 1
        if status.get("errorType") and failures >= MAX_PROVISIONING_FAILURES and RETRY not in annotations:
            name = each["metadata"]["name"]
            raise ProvisioningGivenUp(
                f"{name} cannot be provisioned: it was tried {failures} times",
                why=str(status.get("errorMessage") or status["errorType"]),
                hint="mend that and run the same command again: it goes on, and tries this host again",
            )


def describe_lacking(hosts: Sequence[Record], nodes: Sequence[Record]) -> str:
    """What is missing until the control plane's hosts are provisioned and their nodes have joined for good; empty when nothing
    is."""
    known = {each["metadata"]["name"]: each for each in nodes}
    for host in hosts:
        name, state = host["metadata"]["name"], describe_state(host)
        if state != "provisioned":
            return f"{name} is {state}"
        node = known.get(name)
        if node is None or not is_ready(node):
            return f"node {name} {'is not ready' if node is not None else 'has not joined'}"
        endpoint = (node["status"].get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
        if not endpoint.get("Port"):
            return f"node {name} has no certificate to serve with"
    return "" if hosts else "no host of the control plane is in the API yet"


def describe_state(record: Record) -> str:
    status = record.get("status") or {}
    state = str((status.get("provisioning") or {}).get("state") or "new")
    if status.get("errorMessage"):
        return f"{state}: {status['errorMessage']}"
    return f"{state}, and stays so: {OFFLINE}" if state == "available" and not record["spec"].get("online") else state


OFFLINE = "its BareMetalHost says `online: false`"
_WORKS = {
    "payload": "payload from the release server",
    "payload mounted": "",
    "ironic starts": "Ironic on the bootstrap",
    "ironic": "",
}
"""What begins when it says so, and until when: one after the other."""
_PHASES = {
    "keys offered": "the control plane's keys are offered to its nodes",
    "hands over": "the control plane votes and serves: the bootstrap lets the API VIP go",
    "workers": "the workers' hosts are the cluster's from now on",
}
_HINT = "what it says is in {log}"


def _phase(told: list[dict[str, Any]], name: str) -> dict[str, Any] | None:
    return next((each for each in reversed(told) if each.get("phase") == name), None)


def _manifest(each: Mapping[str, Any]) -> str:
    if "refused" in each:
        return f"{each['manifest']} is not taken yet: {each['refused']}"
    word = "made" if each.get("made") else "was there"
    return f"{each.get('done')}/{each.get('of')} {each['manifest']} {word}"
