"""The controller that approves nodes' CertificateSigningRequests; `judging` decides.

Requests and Nodes are in one API, Machines may be in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rackless.controllers.machines.records import KIND as MACHINE
from rackless.controllers.machines.records import Machine, moment, read
from rackless.controllers.nodes.judging import NODE, Verdict, judge
from rackless.controllers.runtime.cache import Cache
from rackless.controllers.runtime.controller import Happened, Result, Wake, own
from rackless.controllers.runtime.runtime import Runtime
from rackless.ports.resources import Key, Record, Resources
from rackless.trust.requests import read_request

KIND = "CertificateSigningRequest"
PENDING, NAME = "pending", "name"
RECENT = timedelta(hours=1)
TOO_MANY = 100
"""How many more requests than Machines and Nodes may be pending; when there are more, something is wrong, and none is approved."""
LOOK_AGAIN = 60.0


@dataclass
class CsrController:
    cache: Cache
    machines: Cache
    nodes: Cache
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    name: str = "csr-approver"
    wakes: Sequence[Wake] = field(init=False)
    _told: dict[Key, str] = field(default_factory=dict)
    """The last reason that was told for each request: the same one is not told again."""

    def __post_init__(self) -> None:
        self.cache.index(PENDING, lambda request: ["yes"] if pending(request) else [])
        self.machines.index(NAME, lambda record: [name.lower() for name in read(record).addresses_of("InternalDNS")])
        self.wakes = (
            own(self.cache, lambda before, after: pending(after)),
            Wake(self.machines, self._of_machine),
            Wake(self.nodes, self._of_node),
        )

    def _of_machine(self, before: Record | None, after: Record | None) -> Iterable[Key]:
        if before is not None and after is not None and _identity(before) == _identity(after):
            return ()
        return self.cache.having(PENDING, "yes")

    def _of_node(self, before: Record | None, after: Record | None) -> Iterable[Key]:
        return self.cache.having(PENDING, "yes") if before is None or after is None else ()

    async def reconcile(self, key: Key, record: Record | None) -> Result:
        if record is None or not pending(record):
            self._told.pop(key, None)
            return Result()
        verdict = self._flooded() or judge(record, self._machines, self._node(record), self.now())
        if not verdict.ours:
            return Result()
        if not verdict.approved:
            return self._left(key, verdict.why)
        approved = await approve(self.cache.resources, record, "NodeIsItsMachines", verdict.why, self.now())
        self.cache.put(approved)
        self._told.pop(key, None)
        return Result(events=(Happened("Approved", verdict.why),))

    def _left(self, key: Key, why: str) -> Result:
        if self._told.get(key) == why:
            return Result(LOOK_AGAIN)
        self._told[key] = why
        return Result(LOOK_AGAIN, events=(Happened("NotApproved", f"it stays pending: {why}", "Warning"),))

    def _flooded(self) -> Verdict | None:
        recent = [
            key
            for key in self.cache.having(PENDING, "yes")
            if (found := self.cache.get(key)) is not None and self._recent(found)
        ]
        limit = max(len(self.machines), len(self.nodes)) + TOO_MANY
        if len(recent) <= limit:
            return None
        return Verdict(
            False, f"{len(recent)} requests of the last hour are pending, more than {limit}: none is approved"
        )

    def _recent(self, record: Record) -> bool:
        made = moment(record["metadata"].get("creationTimestamp"))
        return made is not None and self.now() - made < RECENT

    def _machines(self, name: str) -> list[tuple[Machine, datetime]]:
        found = []
        for key in self.machines.having(NAME, name.lower()):
            if (record := self.machines.get(key)) is not None:
                found.append((read(record), _since(record)))
        return found

    def _node(self, record: Record) -> Record | None:
        try:
            name = read_request(record["spec"].get("request") or "").name.removeprefix(NODE)
        except ValueError:
            return None
        return self.nodes.get(Key("Node", "", name))

    def troubled(self, record: Record, error: Exception) -> Mapping[str, Any] | None:
        return None  # a request has no place for it

    def stopped(self, key: Key) -> None:
        """The next leader reports refused requests again."""


def csr_controller(runtime: Runtime, resources: Resources, nodes: Resources, **more: Any) -> CsrController:
    """Approves requests in the API `nodes` by the Machines in the API `resources`."""
    controller = CsrController(
        runtime.cache(nodes, KIND), runtime.cache(resources, MACHINE), runtime.cache(nodes, "Node"), **more
    )
    runtime.add(controller)
    return controller


async def approve(resources: Resources, request: Record, reason: str, message: str, now: datetime) -> Record:
    """Approve the request; raises Conflict when it has changed since it was read."""
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": "Approved", "status": "True", "reason": reason, "message": message,
        "lastUpdateTime": at, "lastTransitionTime": at,
    }  # fmt: skip
    metadata, before = request["metadata"], (request.get("status") or {}).get("conditions") or ()
    change = {"status": {"conditions": [*before, condition]}}
    version = metadata["resourceVersion"]
    return await resources.patch(KIND, metadata["name"], change, approval=True, resource_version=version)


def pending(request: Record) -> bool:
    conditions = (request.get("status") or {}).get("conditions") or ()
    return not any(each.get("type") in ("Approved", "Denied", "Failed") for each in conditions)


def _since(record: Record) -> datetime:
    """When a Machine got its host: one that waited for hours for a host still has two hours to join."""
    claimed = [each for each in read(record).status.get("conditions") or () if each.get("type") == "HostClaimed"]
    times = [
        moment(record["metadata"].get("creationTimestamp")),
        *(moment(each.get("lastTransitionTime")) for each in claimed),
    ]
    return max((time for time in times if time is not None), default=datetime.fromtimestamp(0, UTC))


def _identity(record: Record) -> tuple[Any, ...]:
    machine = read(record)
    return machine.uid, machine.addresses, machine.deleting, machine.status.get("nodeRef")
