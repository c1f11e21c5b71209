"""Elastic servers: labd makes one when a Machine finds no host, and deletes one that no Machine has claimed for a while.

Which are needed is a pure function of the Machines, the hosts, and the servers that have been made (`decide`). Before a server is
deleted, its BareMetalHost gets a consumer of kind `LEAVING`, written on the resourceVersion that was read, so that no Machine can
claim it; after a kill, labd goes on from the ledger and from that consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rackless.controllers.machines.choosing import unfit
from rackless.controllers.machines.records import HOST, KIND, consumer_of, problem, read, state_of
from rackless.controllers.machines.selectors import BadSelector, matches
from rackless.controllers.pausing import is_paused
from rackless.controllers.pivot.journal import elsewhere
from rackless.controllers.runtime.cache import Cache
from rackless.controllers.runtime.controller import Result, Wake
from rackless.controllers.runtime.runtime import Runtime
from rackless.ports.resources import Key, Record, Resources

IDLE_SECONDS = 60.0
"""Seconds that no Machine has claimed a server before it is deleted: a MachineSet that shrinks and grows again gets the same
one."""
LEAVING = "ServerGroup"
"""The kind in a host's `consumerRef` while its server is being deleted."""
COMING = ("", "registering", "inspecting", "preparing", "available", "ready", "deprovisioning")
"""Provisioning states of an unclaimed host that can soon be claimed."""
WHOLE = Key("Growth", "", "lab")
"""The one key in this controller's queue: it always reconciles all servers together."""


class Servers(Protocol):
    def elastic(self) -> tuple[Sequence[str], Collection[str]]:
        """The servers that may be made on demand, and those of them that exist."""
        ...

    async def grow(self, name: str) -> None: ...

    async def shrink(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Decision:
    grow: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    """Servers that no Machine has claimed or waits for."""
    leaving: tuple[str, ...] = ()
    """Servers that are being deleted, or whose BareMetalHosts somebody deleted."""


def decide(
    machines: Iterable[Record], hosts: Mapping[str, Record], possible: Sequence[str], grown: Collection[str]
) -> Decision:
    waiting = [machine for machine in machines if _waits(machine, hosts.values())]
    free = [host for host in hosts.values() if _comes(host)]
    need = 0
    for machine in waiting:
        selector = read(machine).provider_spec.get("hostSelector") or {}
        found = next((host for host in free if _fits(selector, host["metadata"].get("labels") or {})), None)
        if found is not None:
            free.remove(found)
        elif _fits(selector, {}):
            need += 1
    bare = [name for name in possible if name in grown and name not in hosts]
    unmade = [name for name in possible if name not in grown]
    leaving = [name for name in possible if name in grown and name in hosts and _leaves(hosts[name])]
    idle = [host["metadata"]["name"] for host in hosts.values() if not waiting and _idle(host)]
    return Decision(
        grow=tuple([*bare, *unmade][:need]),
        idle=tuple(name for name in possible if name in grown and name in idle),
        leaving=tuple([*leaving, *bare[need:]]),
    )


def _waits(record: Record, hosts: Iterable[Record]) -> bool:
    """Whether a Machine wants a host and has none."""
    machine = read(record)
    if machine.deleting or machine.host or machine.phase == "Failed" or problem(machine.provider_spec):
        return False
    return not any(consumer_of(host) == machine.key for host in hosts)


def _comes(host: Record) -> bool:
    why = unfit(host)
    on_its_way = why.startswith("it is ") and state_of(host) in COMING and why == f"it is {state_of(host) or 'new'}"
    return not why or on_its_way


def _idle(host: Record) -> bool:
    """Whether a host is unclaimed and nothing is being done to it; a failed one counts as idle, for no Machine can use it."""
    spec, status = host.get("spec") or {}, host.get("status") or {}
    taken = spec.get("consumerRef") or spec.get("image") or spec.get("customDeploy")
    if taken or is_paused(host) or host["metadata"].get("deletionTimestamp"):
        return False
    return not unfit(host) or bool(status.get("errorMessage"))


def _leaves(host: Record) -> bool:
    return ((host.get("spec") or {}).get("consumerRef") or {}).get("kind") == LEAVING


def _fits(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    try:
        return matches(selector, labels)
    except BadSelector:
        return False


@dataclass
class GrowthController:
    cache: Cache
    """Of the Machines."""
    hosts: Cache
    servers: Servers
    now: Callable[[], float]
    name: str = "growth"
    wakes: Sequence[Wake] = field(init=False)
    _idle_since: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.wakes = (Wake(self.cache, _changed), Wake(self.hosts, _changed))

    async def reconcile(self, key: Key, record: Record | None) -> Result:
        possible, grown = self.servers.elastic()
        hosts = {host["metadata"]["name"]: host for host in self.hosts}
        decision = decide(self.cache, hosts, possible, grown)
        if decision.leaving and await elsewhere(self.hosts.resources):
            return Result()  # their hosts are looked after by another API: they are not gone
        for name in decision.grow:
            await self.servers.grow(name)
        for name in decision.leaving:
            await self.servers.shrink(name)
        now = self.now()
        self._idle_since = {name: self._idle_since.get(name, now) for name in decision.idle}
        over = [name for name, since in self._idle_since.items() if now - since >= IDLE_SECONDS]
        for name in over:
            await self._take(hosts[name])
            await self.servers.shrink(name)
            del self._idle_since[name]
        left = [IDLE_SECONDS - (now - since) for since in self._idle_since.values()]
        return Result(min(left) if left else None)

    async def _take(self, host: Record) -> None:
        """Write the `LEAVING` consumer into a host, so that no Machine can claim it. Raises Conflict when a Machine was faster."""
        metadata = host["metadata"]
        reference = {"kind": LEAVING, "apiVersion": "rackless.test/v1", "name": metadata["name"]}
        self.hosts.put(
            await self.hosts.resources.patch(
                HOST,
                metadata["name"],
                {"spec": {"consumerRef": reference}},
                namespace=metadata.get("namespace"),
                resource_version=metadata["resourceVersion"],
            )
        )

    def troubled(self, record: Record, error: Exception) -> Mapping[str, Any] | None:
        return None  # it is about no single record

    def stopped(self, key: Key) -> None:
        """How long servers have been idle is counted anew."""


def growth_controller(runtime: Runtime, resources: Resources, servers: Servers) -> GrowthController:
    controller = GrowthController(
        runtime.cache(resources, KIND), runtime.cache(resources, HOST), servers, runtime.clock.now
    )
    runtime.add(controller)
    return controller


def _changed(before: Record | None, after: Record | None) -> Iterable[Key]:
    if before is None or after is None or _concern(before) != _concern(after):
        yield WHOLE


def _concern(record: Record) -> tuple[Any, ...]:
    """The fields of a Machine or host that this controller depends on: other changes do not wake it."""
    metadata, spec, status = record["metadata"], record.get("spec") or {}, record.get("status") or {}
    return (
        metadata["uid"],
        metadata.get("deletionTimestamp"),
        metadata.get("annotations"),
        metadata.get("labels"),
        spec,
        status.get("phase"),
        state_of(record),
        status.get("operationalStatus"),
        status.get("errorMessage"),
    )
