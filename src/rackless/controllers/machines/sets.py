"""The controller of MachineSets: has as many Machines as are wanted, makes and deletes them, and tells the reason in an Event."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rackless.controllers.machines import counting
from rackless.controllers.machines.records import AUTOSCALE, HOST, KIND, SET, controller_of, ready
from rackless.controllers.machines.selectors import BadSelector
from rackless.controllers.pausing import is_paused
from rackless.controllers.runtime.cache import Cache
from rackless.controllers.runtime.controller import Happened, Result, Wake, own
from rackless.controllers.runtime.recorder import Recorder
from rackless.controllers.runtime.runtime import Runtime
from rackless.errors import RacklessError
from rackless.ports.resources import Conflict, Key, Record, Resources

OWNER, AUTOSCALED, NODE = "owner", "autoscaled", "node"
AT_ONCE = 16
"""Machines that are made or deleted at a time."""
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""As Kubernetes names things: no vowels, no words."""

TOLD_AT_ONCE = 8
"""Machines that one Event of a set names."""


@dataclass
class MachineSetController:
    cache: Cache
    machines: Cache
    hosts: Cache
    nodes: Cache
    recorder: Recorder
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    chance: Callable[[], float] = random.random
    name: str = "machineset"
    wakes: Sequence[Wake] = field(init=False)
    _deleted: set[str] = field(default_factory=set)
    """Machines that were deleted and of which the watch has not told that yet."""

    def __post_init__(self) -> None:
        self.machines.index(OWNER, lambda record: [owner["uid"]] if (owner := controller_of(record)) else ["orphan"])
        self.machines.index(
            NODE, lambda record: [((record.get("status") or {}).get("nodeRef") or {}).get("name") or ""]
        )
        self.cache.index(AUTOSCALED, lambda record: ["yes"] if _autoscaled(record) else [])
        self.wakes = (
            own(self.cache, _wants_other),
            Wake(self.machines, self._of_machine),
            Wake(self.hosts, self._of_host),
            Wake(self.nodes, self._of_node, needed=False),
        )

    def _of_machine(self, before: Record | None, after: Record | None) -> Iterator[Key]:
        record = after or before or {}
        namespace = record["metadata"].get("namespace") or ""
        if after is None or record["metadata"].get("deletionTimestamp"):
            self._deleted.discard(record["metadata"]["uid"])
        if before is not None and after is not None and _membership(before) == _membership(after):
            return  # what a Machine is at does not change how many there are
        if (owner := controller_of(record)) is not None:
            if owner.get("kind") == SET:
                yield Key(SET, namespace, owner["name"])
        else:
            yield from (_key(found) for found in self.cache if _safely(counting.orphan, found, record))

    def _of_host(self, before: Record | None, after: Record | None) -> Iterable[Key]:
        """A host was added, deleted or claimed: sets that follow the number of hosts (autoscale) count again."""
        if before is not None and after is not None and _counts(before) == _counts(after):
            return ()
        return self.cache.having(AUTOSCALED, "yes")

    def _of_node(self, before: Record | None, after: Record | None) -> Iterator[Key]:
        if before is not None and after is not None and ready(before) == ready(after):
            return
        name = (after or before or {})["metadata"]["name"]
        for key in self.machines.having(NODE, name):
            if (machine := self.machines.get(key)) and (owner := controller_of(machine)) and owner.get("kind") == SET:
                yield Key(SET, key.namespace, owner["name"])

    async def reconcile(self, key: Key, record: Record | None) -> Result:
        if record is None or is_paused(record) or record["metadata"].get("deletionTimestamp"):
            return Result()  # its Machines are deleted after it, because they are its own
        try:
            wrong = counting.problem(record)
            if not wrong and _autoscaled(record) and (wanted := self._hosts_for(record)) is not None:
                before = _replicas(record)
                if wanted != before:
                    told = Happened(
                        "AutoscaledToHosts", f"from {before} to {wanted}, as many as there are hosts for it"
                    )
                    return Result(0.0, change={"spec": {"replicas": wanted}}, events=(told,))
        except BadSelector as error:
            wrong = str(error)
        if wrong:
            return _invalid(record, wrong)
        await self._adopt(record)
        events = await self._resize(record, self._machines(record))
        status, after = counting.status(record, self._machines(record), self._ready_node, self.now())
        for name in ("errorReason", "errorMessage"):
            status.pop(name, None)
        return Result(after, status if status != (record.get("status") or {}) else None, events=tuple(events))

    def _machines(self, record: Record) -> list[Record]:
        """The Machines of a set that stay; those being deleted are not counted."""
        keys = self.machines.having(OWNER, record["metadata"]["uid"])
        found = [machine for key in keys if (machine := self.machines.get(key)) is not None]
        return [machine for machine in found if not self._leaves(machine)]

    async def _resize(self, record: Record, staying: Sequence[Record]) -> list[Happened]:
        lacking = _replicas(record) - len(staying)
        if lacking > 0:
            made = await _each(range(lacking), lambda _: self._make(record))
            there = f"{len(staying)} of {_replicas(record)}"
            return [
                Happened("SuccessfulCreate", f"{', '.join(some)} {_are(some)} made: there were {there}")
                for some in _batches(made)
            ]
        policy = record["spec"].get("deletePolicy") or "Random"
        chosen = counting.leaving(policy, staying, -lacking, self.now())
        await _each(chosen, lambda each: self._delete(each[0]))
        reasons: dict[str, list[str]] = {}
        for machine, why in chosen:
            reasons.setdefault(why, []).append(machine["metadata"]["name"])
        return [
            Happened(
                "SuccessfulDelete",
                f"{', '.join(some)} {'go' if len(some) > 1 else 'goes'}, for {_replicas(record)} are wanted: {why}",
            )
            for why, names in reasons.items()
            for some in _batches(names)
        ]

    def _leaves(self, machine: Record) -> bool:
        return bool(machine["metadata"].get("deletionTimestamp")) or machine["metadata"]["uid"] in self._deleted

    async def _make(self, record: Record) -> str:
        while True:
            suffix = "".join(_LETTERS[int(self.chance() * len(_LETTERS))] for _ in range(5))
            try:
                made = await self.machines.resources.create(counting.new_machine(record, suffix))
            except Conflict:
                continue  # that name is taken
            self.machines.put(made)
            return str(made["metadata"]["name"])

    async def _delete(self, machine: Record) -> None:
        metadata = machine["metadata"]
        self._deleted.add(metadata["uid"])
        try:
            await self.machines.resources.delete(
                KIND, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )
        except BaseException:
            self._deleted.discard(metadata["uid"])
            raise

    async def _adopt(self, record: Record) -> None:
        for key in self.machines.having(OWNER, "orphan"):
            machine = self.machines.get(key)
            if (
                machine is None
                or key.namespace != record["metadata"]["namespace"]
                or not counting.orphan(record, machine)
            ):
                continue
            owners = [*(machine["metadata"].get("ownerReferences") or ()), counting.owner_reference(record)]
            self.machines.put(
                await self.machines.resources.patch(
                    KIND,
                    key.name,
                    {"metadata": {"ownerReferences": owners}},
                    namespace=key.namespace,
                    resource_version=machine["metadata"]["resourceVersion"],
                )
            )
            told = Happened("Adopted", f"MachineSet {record['metadata']['name']} counts it as its own")
            self.recorder.tell(self.machines.resources, self.name, machine, told)

    def _hosts_for(self, record: Record) -> int | None:
        namespace = record["metadata"]["namespace"]
        hosts = [host for host in self.hosts if host["metadata"].get("namespace") == namespace]
        return counting.hosts_for(record, hosts, lambda consumer: self.machines.get(Key(KIND, *consumer.split("/", 1))))

    def _ready_node(self, name: str) -> Record | None:
        return self.nodes.get(Key("Node", "", name)) if name else None

    def troubled(self, record: Record, error: Exception) -> Mapping[str, Any] | None:
        status = record.get("status") or {}
        message = str(error) if isinstance(error, RacklessError) else f"{type(error).__name__}: {error}"
        return None if status.get("errorMessage") == message else {**status, "errorMessage": message}

    def stopped(self, key: Key) -> None:
        """Nothing is kept between looks."""


def _batches(names: Sequence[str]) -> Iterable[Sequence[str]]:
    """One Event tells of several Machines."""
    return (names[at : at + TOLD_AT_ONCE] for at in range(0, len(names), TOLD_AT_ONCE))


def _are(names: Sequence[str]) -> str:
    return "are" if len(names) > 1 else "is"


def machineset_controller(
    runtime: Runtime, resources: Resources, nodes: Resources, **more: Any
) -> MachineSetController:
    controller = MachineSetController(
        runtime.cache(resources, SET),
        runtime.cache(resources, KIND),
        runtime.cache(resources, HOST),
        runtime.cache(nodes, "Node"),
        runtime.recorder,
        **more,
    )
    runtime.add(controller)
    return controller


async def _each(items: Iterable[Any], work: Callable[[Any], Any]) -> list[Any]:
    """All of them, some at a time; the first error ends the rest."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(item: Any) -> Any:
        async with slots:
            return await work(item)

    tasks = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _invalid(record: Record, wrong: str) -> Result:
    status = record.get("status") or {}
    if status.get("errorMessage") == wrong:
        return Result()
    return Result(
        status={**status, "errorReason": "InvalidConfiguration", "errorMessage": wrong},
        events=(Happened("InvalidConfiguration", wrong, "Warning"),),
    )


def _replicas(record: Record) -> int:
    wanted = (record.get("spec") or {}).get("replicas")
    return 1 if wanted is None else int(wanted)


def _autoscaled(record: Record) -> bool:
    return AUTOSCALE in (record["metadata"].get("annotations") or {})


def _key(record: Record) -> Key:
    return Key(record["kind"], record["metadata"].get("namespace") or "", record["metadata"]["name"])


def _safely(question: Callable[[Record, Record], bool], one: Record, other: Record) -> bool:
    try:
        return question(one, other)
    except BadSelector:
        return False


def _membership(machine: Record) -> tuple[Any, ...]:
    metadata = machine["metadata"]
    return (
        metadata["uid"],
        metadata.get("labels"),
        metadata.get("ownerReferences"),
        metadata.get("deletionTimestamp"),
        (machine.get("status") or {}).get("nodeRef"),
    )


def _counts(host: Record) -> tuple[Any, ...]:
    metadata = host["metadata"]
    return metadata["uid"], metadata.get("labels"), (host.get("spec") or {}).get("consumerRef")


def _wants_other(before: Record, after: Record) -> bool:
    return _wanted(before) != _wanted(after)


def _wanted(record: Record) -> tuple[Any, ...]:
    metadata = record["metadata"]
    return metadata["uid"], metadata["generation"], metadata.get("annotations"), metadata.get("deletionTimestamp")
