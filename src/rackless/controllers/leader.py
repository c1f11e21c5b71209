"""Leader election by a Lease: of several processes one leads, and releases the Lease when it ends. As client-go does it, with its
times.

When a Lease expires is measured by this process's own clock, from when it last saw the Lease change: clocks of different
computers disagree. The leader counts from when it sent its renewal: others may have seen the Lease renewed long before the answer
came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rackless.errors import LabError, RacklessError
from rackless.ports.clock import Clock
from rackless.ports.resources import Conflict, Record, Resources


@dataclass(frozen=True, slots=True)
class Terms:
    """Times in seconds: how long others wait for a leader that does not renew, after how long the leader gives up, how often it
    renews."""

    duration: float = 15.0
    renew_within: float = 10.0
    every: float = 2.0


PATIENT = Terms(60.0, 45.0, 5.0)
"""Times for a leader whose work is costly to restart, on emulated machines that may get no processor for seconds."""


class LostLeadership(LabError):
    """Another process may lead by now: this one must end."""


def _wall_clock() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass
class Leader:
    resources: Resources
    name: str
    """The name of the Lease, in the connection's own namespace."""
    identity: str
    clock: Clock
    now: Callable[[], str] = _wall_clock
    told: Callable[[str], None] = lambda _: None
    """Called with the leader's identity when that changes."""
    terms: Terms = Terms()
    leading: bool = False
    _seen: tuple[Any, float] = (None, 0.0)
    _holder: str = field(default="", init=False)

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait until this process holds the Lease, and do the work for as long as it does. Raises LostLeadership."""
        version, asked = await self._acquire()
        self.leading = True
        task = asyncio.ensure_future(work())
        renewing = asyncio.create_task(self._renew(version, asked), name="leader")
        try:
            await asyncio.wait((task, renewing), return_when=asyncio.FIRST_COMPLETED)
            if renewing.done() and not task.done():
                await renewing  # raises
            await task
        finally:
            self.leading = False
            for each in (task, renewing):
                each.cancel()
            await asyncio.gather(task, renewing, return_exceptions=True)
            with suppress(RacklessError, Conflict):
                await self._release()

    async def _acquire(self) -> tuple[str, float]:
        """Acquire the Lease: its resourceVersion, and when that was asked for; when the answer came too late, another process may
        have it by now."""
        while True:
            with suppress(RacklessError, Conflict):
                asked = self.clock.now()
                version = await self._try()
                if version is not None and self.clock.now() < asked + self.terms.renew_within:
                    return version, asked
            await self.clock.sleep(self.terms.every)

    async def _try(self) -> str | None:
        lease = await self.resources.get("Lease", self.name)
        if lease is None:
            made = await self.resources.create(self._lease(transitions=0))
            self._tell(self.identity)
            return str(made["metadata"]["resourceVersion"])
        spec = lease.get("spec") or {}
        holder = str(spec.get("holderIdentity") or "")
        mark = (holder, spec.get("renewTime"), lease["metadata"]["resourceVersion"])
        if mark != self._seen[0]:
            self._seen = (mark, self.clock.now())
        self._tell(holder)
        patience = float(spec.get("leaseDurationSeconds") or self.terms.duration)
        if holder not in ("", self.identity) and self.clock.now() < self._seen[1] + patience:
            return None
        fresh = self._lease(int(spec.get("leaseTransitions") or 0) + (holder != self.identity))
        version = lease["metadata"]["resourceVersion"]
        taken = await self.resources.patch("Lease", self.name, {"spec": fresh["spec"]}, resource_version=version)
        self._tell(self.identity)
        return str(taken["metadata"]["resourceVersion"])

    async def _renew(self, version: str, renewed: float) -> None:
        while True:
            await self.clock.sleep(self.terms.every)
            asked = self.clock.now()
            try:
                version, kept = await self._in_time(renewed + self.terms.renew_within - asked, self._ask(version))
                renewed = asked if kept else renewed
            except LostLeadership:
                raise
            except RacklessError as error:
                if self.clock.now() - renewed >= self.terms.renew_within:
                    raise self._lost(str(error)) from error

    async def _ask(self, version: str) -> tuple[str, bool]:
        """Renew the Lease: its resourceVersion, and whether it was renewed. It was not when another client wrote to it meanwhile
        and it is still ours."""
        try:
            change = {"spec": {"renewTime": self.now()}}
            found = await self.resources.patch("Lease", self.name, change, resource_version=version)
            return str(found["metadata"]["resourceVersion"]), True
        except Conflict as conflict:
            lease = await self.resources.get("Lease", self.name)
            if lease is None or (lease.get("spec") or {}).get("holderIdentity") != self.identity:
                raise self._lost("somebody else holds the Lease") from conflict
            return str(lease["metadata"]["resourceVersion"]), False

    async def _in_time(self, left: float, work: Coroutine[Any, Any, tuple[str, bool]]) -> tuple[str, bool]:
        """A request that takes longer than we may lead without an answer is a failed one."""
        asked = asyncio.ensure_future(work)
        limit = asyncio.ensure_future(self.clock.sleep(max(left, 0.0)))
        try:
            await asyncio.wait((asked, limit), return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise self._lost(f"the API did not answer for {self.terms.renew_within:.0f} s")
            return asked.result()
        finally:
            for each in (asked, limit):
                each.cancel()
            await asyncio.gather(asked, limit, return_exceptions=True)

    async def _release(self) -> None:
        lease = await self.resources.get("Lease", self.name)
        if lease is not None and (lease.get("spec") or {}).get("holderIdentity") == self.identity:
            version = lease["metadata"]["resourceVersion"]
            change = {"spec": {"holderIdentity": None, "leaseDurationSeconds": 1}}
            await self.resources.patch("Lease", self.name, change, resource_version=version)

    def _lease(self, transitions: int) -> Record:
        now = self.now()
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name},
            "spec": {
                "holderIdentity": self.identity, "leaseDurationSeconds": int(self.terms.duration), "acquireTime": now,
                "renewTime": now, "leaseTransitions": transitions,
            },
        }  # fmt: skip

    def _tell(self, holder: str) -> None:
        if holder and holder != self._holder:
            self._holder = holder
            self.told(holder)

    def _lost(self, why: str) -> LostLeadership:
        return LostLeadership(
            f"{self.identity} no longer leads", why=why, hint="it ends; whoever keeps it running starts it again"
        )
