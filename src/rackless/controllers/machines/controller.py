"""The controller of Machines: reads from caches, decides by `living` and `deleting`, and writes in an order that may be
interrupted anywhere. The host is written first, then the Machine: a host whose consumerRef names its Machine is enough to go on
from. Machines and hosts are in one API, Nodes may be in another; while that does not answer, everything is done that needs no
Node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rackless.controllers.machines import deleting, draining, living
from rackless.controllers.machines.choosing import Choice, choose, free
from rackless.controllers.machines.draft import Draft, Seen
from rackless.controllers.machines.records import HOST, KIND, MACHINE_OF, Machine, consumer_of, read, ready
from rackless.controllers.pausing import is_paused
from rackless.controllers.runtime.cache import Cache
from rackless.controllers.runtime.controller import Result, Wake, own
from rackless.controllers.runtime.recorder import Recorder, wall_clock
from rackless.controllers.runtime.runtime import Runtime
from rackless.errors import RacklessError
from rackless.ports.pods import Pods
from rackless.ports.resources import Key, Record, Resources, key_of

CONSUMER, FREE, IDENTITY, HOMELESS = "consumer", "free", "identity", "homeless"
WOKEN = 16
"""How many waiting Machines are woken when a host becomes available; more would all try to claim the same one."""


@dataclass
class MachineController:
    cache: Cache
    hosts: Cache
    nodes: Cache
    recorder: Recorder
    now: Callable[[], str] = wall_clock
    pods: Pods | None = None
    """The pods of the Nodes' API; without it Nodes count as empty, which those of the lab's own clusters are."""
    name: str = "machine"
    wakes: Sequence[Wake] = field(init=False)
    _taking: dict[Key, Key] = field(default_factory=dict)
    """Hosts that are being claimed, and by which Machine: two parallel reconciliations never claim the same one."""
    _cordoning: set[str] = field(default_factory=set)
    """Nodes that a look is about to cordon, to drain them."""

    def __post_init__(self) -> None:
        self.hosts.index(CONSUMER, lambda host: [consumer] if (consumer := consumer_of(host)) else [])
        self.hosts.index(FREE, lambda host: [host["metadata"]["namespace"]] if free(host) else [])
        self.nodes.index(IDENTITY, _node_identities)
        self.cache.index(IDENTITY, _machine_identities)
        self.cache.index(HOMELESS, lambda record: [record["metadata"]["namespace"]] if _homeless(record) else [])
        self.wakes = (
            own(self.cache, _wants_other),
            Wake(self.hosts, self._of_host),
            Wake(self.nodes, self._of_node, needed=False),
        )

    def _of_host(self, before: Record | None, after: Record | None) -> Iterator[Key]:
        for host in (before, after):
            if host is not None and (consumer := consumer_of(host)):
                namespace, _, name = consumer.partition("/")
                yield Key(KIND, namespace, name)
        if after is not None and free(after) and not (before is not None and free(before)):
            yield from self.cache.having(HOMELESS, after["metadata"]["namespace"])[:WOKEN]

    def _of_node(self, before: Record | None, after: Record | None) -> Iterable[Key]:
        if before is not None and after is not None and _identity(before) == _identity(after):
            return ()
        found: set[Key] = set()
        for node in (before, after):
            for value in _node_identities(node) if node is not None else ():
                found.update(self.cache.having(IDENTITY, value))
        return sorted(found)

    async def reconcile(self, key: Key, record: Record | None) -> Result:
        if record is None or is_paused(record):
            return Result()
        machine = read(record)
        node = self._node(machine)
        if node is None or not deleting.is_due(machine):
            return await self._decided(key, machine, node)
        pods, name = await self._pods(node), node["metadata"]["name"]
        first = "" if deleting.has_begun(machine) else draining.being_drained(node, self.nodes, self._cordoning)
        if not first:  # noted before anything is awaited: of two looks at the same time one sees the other
            self._cordoning.add(name)
        try:
            return await self._decided(key, machine, node, pods, first)
        finally:
            self._cordoning.discard(name)

    async def _decided(
        self, key: Key, machine: Machine, node: Record | None, pods: Sequence[Record] = (), first: str = ""
    ) -> Result:
        """Decide by the steps, and carry it out."""
        choose, known = (lambda: self._choose(machine)), self.nodes.synced.is_set()
        draft = Draft(Seen(machine, self._host(machine), node, self.now(), choose, known, pods, first))
        for step in deleting.STEPS if machine.deleting else living.STEPS:
            if not step(draft):
                break
        if "errorReason" not in draft.status:
            draft.status.pop("errorMessage", None)  # of an earlier look that met an error nobody expected
        await self._carry_out(key, draft)
        return Result(draft.after, draft.new_status, draft.change or None, tuple(draft.events))

    async def _carry_out(self, key: Key, draft: Draft) -> None:
        """Write the changes to the host and the Node, on the resourceVersions that were read."""
        host, node = draft.host, draft.seen.node
        if host is not None and draft.host_change:
            self._taking[key_of(host)] = key
            try:
                self.hosts.put(await _patched(self.hosts, host, draft.host_change))
            finally:
                del self._taking[key_of(host)]
            self.recorder.tell(self.hosts.resources, self.name, host, *draft.host_events)
        if node is not None and draft.node_change:
            self.nodes.put(await _patched(self.nodes, node, draft.node_change))
        if node is not None and draft.evict:
            await self._evict(draft, draining.unreachable(node))
        if node is not None and draft.forget_node:
            metadata = node["metadata"]
            await self.nodes.resources.delete("Node", metadata["name"], uid=metadata["uid"])
        if draft.delete:
            machine = draft.seen.machine
            await self.cache.resources.delete(KIND, machine.name, namespace=machine.namespace, uid=machine.uid)

    async def _pods(self, node: Record) -> list[Record]:
        if self.pods is None:
            return []
        return draining.to_evict(await self.pods.on(node["metadata"]["name"]), unreachable=draining.unreachable(node))

    async def _evict(self, draft: Draft, unreachable: bool) -> None:
        """The Node is cordoned. A pod that a disruption budget keeps is asked again at the next look."""
        assert self.pods is not None
        for pod in draft.evict:
            if why := await self.pods.evict(pod, grace=draining.UNREACHABLE_GRACE_S if unreachable else None):
                draft.tell("DrainRequeued", f"{draining.names_of([pod])} stays: {why}", "Warning")

    def _host(self, machine: Machine) -> Record | None:
        """The host whose consumerRef names this Machine, or else the one that the Machine's annotation names."""
        for key in self.hosts.having(CONSUMER, machine.key):
            return self.hosts.get(key)
        namespace, _, name = machine.host.partition("/")
        return self.hosts.get(Key(HOST, namespace, name)) if name else None

    def _node(self, machine: Machine) -> Record | None:
        """The Machine's Node: by providerID first, then by the name in its certificate, then by an address."""
        wanted = [machine.provider_id, *machine.addresses_of("InternalDNS"), *machine.addresses_of("InternalIP")]
        for value in filter(None, wanted):
            for key in self.nodes.having(IDENTITY, value):
                node = self.nodes.get(key)
                if (
                    node is not None
                    and (node["metadata"].get("annotations") or {}).get(MACHINE_OF, machine.key) == machine.key
                ):
                    return node
        return None

    def _choose(self, machine: Machine) -> Choice:
        namespace = machine.namespace
        candidates = self.hosts.records(FREE, namespace)
        others = (host for host in self.hosts if host["metadata"].get("namespace") == namespace and not free(host))
        return choose(
            machine.provider_spec.get("hostSelector") or {},
            candidates,
            others,
            many=len(self.hosts),
            taken=self._taken,
        )

    def _taken(self, host: Record) -> str:
        taker = self._taking.get(key_of(host)) if self._taking else None
        return f"Machine {taker.name} takes it" if taker else ""

    def troubled(self, record: Record, error: Exception) -> Mapping[str, Any] | None:
        status = record.get("status") or {}
        message = str(error) if isinstance(error, RacklessError) else f"{type(error).__name__}: {error}"
        if status.get("errorMessage") == message:
            return None
        return {**status, "errorMessage": message}

    def stopped(self, key: Key) -> None:
        """Nothing is kept between looks."""


def machine_controller(runtime: Runtime, resources: Resources, nodes: Resources, **more: Any) -> MachineController:
    """The controller of the Machines of one connection, whose Nodes are at the other, in a runtime that is run afterwards."""
    controller = MachineController(
        runtime.cache(resources, KIND),
        runtime.cache(resources, HOST),
        runtime.cache(nodes, "Node"),
        runtime.recorder,
        **more,
    )
    runtime.add(controller)
    return controller


async def _patched(cache: Cache, record: Record, change: Mapping[str, Any]) -> Record:
    metadata = record["metadata"]
    return await cache.resources.patch(
        cache.kind,
        metadata["name"],
        change,
        namespace=metadata.get("namespace"),
        resource_version=metadata["resourceVersion"],
    )


def _node_identities(node: Record) -> list[str]:
    found = [(node.get("spec") or {}).get("providerID"), node["metadata"]["name"]]
    for each in (node.get("status") or {}).get("addresses") or ():
        if each.get("type") == "InternalIP":
            found.append(each.get("address"))
    return [value for value in found if value]


def _machine_identities(record: Record) -> list[str]:
    machine = read(record)
    return [value for value in (machine.provider_id, *machine.addresses_of("InternalIP", "InternalDNS")) if value]


def _homeless(record: Record) -> bool:
    machine = read(record)
    return not machine.host and not machine.deleting


def _identity(node: Record) -> tuple[Any, ...]:
    """The fields of a Node that its Machine depends on; heartbeats are none."""
    metadata, spec = node["metadata"], node.get("spec") or {}
    return (
        metadata["uid"],
        _node_identities(node),
        metadata.get("labels"),
        metadata.get("annotations"),
        spec.get("taints"),
        spec.get("unschedulable"),
        ready(node),
    )


def _wants_other(before: Record, after: Record) -> bool:
    """Whether more has changed than the status, which this controller itself writes."""
    return _wanted(before) != _wanted(after)


def _wanted(record: Record) -> tuple[Any, ...]:
    metadata = record["metadata"]
    return (
        metadata["uid"],
        metadata["generation"],
        metadata.get("annotations"),
        metadata.get("finalizers"),
        metadata.get("deletionTimestamp"),
    )
