"""The VIP on the machines of a story: the rules that `rackless-vip` goes by, in virtual time; its record and its NIC are none.

So rules by which two machines could hold the VIP show here as they would on a wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from rackless.node.vip.holding import LOOK_SECONDS, RecordUnanswered, VipHolder, VipRecord


@dataclass(eq=False)
class VipKeeper:
    """`rackless-vip` on one machine, and that machine's NIC."""

    name: str
    check: Callable[[], bool]
    """Whether this machine leads to an API that is ready."""
    answers: Callable[[], bool]
    """Whether its etcd does."""
    wire: Wire
    until: float = 0.0
    """When the kernel forgets the address."""
    stopped: bool = False
    """The program stands still, its machine's kernel does not."""

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._now = loop.time
        self.rules = VipHolder(self.name, self, self, self.check, self._now, lambda what: None)

    @property
    def holds(self) -> bool:
        return self._now() < self.until

    async def run(self) -> None:
        self.wire.keepers.append(self)
        while True:
            if not self.stopped:
                self.rules.step()
            await asyncio.sleep(LOOK_SECONDS)

    def end(self, *, said: bool) -> None:
        """The program ends: asked to, or with its machine."""
        if said:
            self.rules.leave()
        self.until = 0.0
        if self in self.wire.keepers:
            self.wire.keepers.remove(self)

    # the record

    def read(self) -> VipRecord:
        if not self.answers():
            raise RecordUnanswered("no quorum")
        return self.wire.record

    def swap(self, seen: VipRecord, holder: str) -> tuple[bool, VipRecord]:
        there = self.read()
        if there.revision == seen.revision:
            self.wire.record = VipRecord(holder, there.revision + 1)
        return there.revision == seen.revision, self.wire.record

    # the NIC

    def hold(self, seconds: int) -> None:
        new = not self.holds
        self.until = self._now() + seconds
        if new:
            self.wire.changed()

    def drop(self) -> None:
        self.until = 0.0

    def announce(self) -> None: ...

    def others(self) -> list[str]:
        return [name for name in self.wire.holders() if name != self.name]


@dataclass
class Wire:
    """Between the machines, and the record in their etcd."""

    changed: Callable[[], None] = lambda: None
    """Called when somebody takes the VIP."""
    record: VipRecord = field(default_factory=lambda: VipRecord("", 0))
    keepers: list[VipKeeper] = field(default_factory=list)

    def begin_anew(self) -> None:
        """Another etcd, in which nothing is written yet."""
        self.record = VipRecord("", 0)

    def holders(self) -> list[str]:
        return sorted(keeper.name for keeper in self.keepers if keeper.holds)
