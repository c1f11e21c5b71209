"""Who has the VIP: the rules. They know neither etcd nor the kernel, and read no clock of their own.

Why there are never two: the holder puts the address on its NIC for at most HOLD_SECONDS from the moment that it *sent* the renewal
that succeeded; the kernel takes it away then. Another control plane writes its name over the holder's only if the record has not
changed for TAKE_SECONDS since it first *saw* it, which is later than it was written. Only the lengths of seconds are compared,
never the clocks of two machines. A write is done only if the record still is what its writer saw (etcd compares), so of two that
try at once one succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

LOOK_SECONDS = 2.0
"""Between two looks: every control plane looks at its balancer, and those without the VIP at the record."""
RENEW_SECONDS = 4.0
"""Between two renewals by the holder. Each is a write to etcd."""
HOLD_SECONDS = 10.0
"""For so long after a renewal the kernel keeps the holder's address. Usually longer than etcd takes to elect a leader."""
TAKE_SECONDS = 12.0
"""After so long without a change of the record another control plane may take it. Longer than HOLD_SECONDS, because a kernel
may remove an address half a second late."""
ANNOUNCE_SECONDS = 12.0
"""Between two announcements (gratuitous ARP) by the holder: a former holder that slept may have announced the address meanwhile."""
READY_SECONDS = 5.0
"""A control plane takes the VIP only after its balancer has reported a ready API server for so long: haproxy takes all API servers
for ready when it starts, until it has checked them."""
STRANGER_SECONDS = 10.0
"""Before the next try, after another machine answered for the address."""


class RecordUnanswered(Exception):
    """etcd did not answer, or refused for now: the write may have been done or not."""


class VipRecord(NamedTuple):
    holder: str
    """The control plane that has the VIP; empty after one gave it up."""
    revision: int
    """etcd's revision of the last write; 0 before the first one."""


class Register(Protocol):
    """The record in etcd. Both methods raise RecordUnanswered."""

    def read(self) -> VipRecord: ...
    def swap(self, seen: VipRecord, holder: str) -> tuple[bool, VipRecord]:
        """Writes `holder` if the record still is `seen`; returns whether it did, and the record as it is now."""
        ...


class VipNic(Protocol):
    """The address on this machine's NIC."""

    def hold(self, seconds: int) -> None:
        """Adds the address, or renews it; the kernel removes it after so many seconds."""
        ...

    def drop(self) -> None: ...
    def announce(self) -> None: ...
    def others(self) -> Sequence[str]:
        """The MACs of other machines that answer for the address."""
        ...


@dataclass
class VipHolder:
    name: str
    register: Register
    place: VipNic
    ready: Callable[[], bool | None]
    """Whether the balancer here knows an API server that is ready; None when it does not answer."""
    now: Callable[[], float]
    say: Callable[[str], None]
    _mine: VipRecord | None = None
    _until: float = 0.0
    _renew: float = 0.0
    _announce: float = 0.0
    _seen: VipRecord | None = None
    _since: float = 0.0
    _not_before: float = 0.0
    _unready: float | None = None
    """When the balancer was last seen to know no API server."""
    _said: str = ""

    @property
    def holds(self) -> bool:
        return self._mine is not None

    def step(self) -> None:
        """One look, and what follows from it; the caller repeats it every LOOK_SECONDS."""
        ready = self.ready()
        if not ready or self._unready is None:
            self._unready = self.now()
        try:
            if self._mine is not None:
                self._keep(self._mine, ready)
            else:
                self._look(ready)
        except RecordUnanswered as error:
            self._tell(f"etcd does not answer: {error}")
        if self._mine is not None and self.now() >= self._until:
            self._lose("the record was not renewed in time")

    def leave(self) -> None:
        """This program was asked to end: gives the VIP up, so that the next holder need not wait."""
        if self._mine is not None:
            self._release(self._mine, "asked to")

    def _keep(self, mine: VipRecord, ready: bool | None) -> None:
        if ready is False:
            self._release(mine, "no API server is ready")
        elif ready and self.now() >= self._renew:
            self._write(mine)

    def _look(self, ready: bool | None) -> None:
        record = self.register.read()
        self._see(record)
        if not ready:
            self._tell("waits: no API server is ready" if ready is False else "waits: haproxy does not answer")
        elif self._unready is not None and self.now() - self._unready < READY_SECONDS:
            self._tell("waits: whether the API server stays ready")
        elif not self._is_free(record):
            self._tell(f"{record.holder} has it")
        elif self.now() >= self._not_before:
            self._write(record)

    def _see(self, record: VipRecord) -> None:
        if record != self._seen:
            self._seen, self._since = record, self.now()

    def _is_free(self, record: VipRecord) -> bool:
        """Whether this machine may write its name. A record with its own name was written before it restarted, or the answer to its
        write was lost."""
        return record.holder in ("", self.name) or self.now() - self._since >= TAKE_SECONDS

    def _write(self, seen: VipRecord) -> None:
        sent = self.now()
        done, record = self.register.swap(seen, self.name)
        if not done and record.holder == self.name:  # an earlier write of ours, whose answer was lost
            sent = self.now()
            done, record = self.register.swap(record, self.name)
        if not done:
            self._see(record)
            self._lose(f"{record.holder or 'nobody'} has it now")
        elif self._mine is not None or self._is_alone(record):
            self._hold(record, sent)

    def _is_alone(self, record: VipRecord) -> bool:
        """Whether no other machine answers for the address: one that is no control plane of this cluster does not
        know the record."""
        others = self.place.others()
        if others:
            self._tell(f"somebody else answers for it: {', '.join(others)}")
            self._not_before = self.now() + STRANGER_SECONDS
            self.register.swap(record, "")
        return not others

    def _hold(self, record: VipRecord, sent: float) -> None:
        self._until, self._renew = sent + HOLD_SECONDS, sent + RENEW_SECONDS
        left = int(self._until - self.now())
        if left > 0:
            self.place.hold(left)
        new, self._mine = self._mine is None, record
        if self.now() >= self._until:  # this program was stopped in between: what it has just done is void
            self._lose("the record was not renewed in time")
            return
        if new:
            self._tell("has it")
        if new or self.now() >= self._announce:
            self._announce = self.now() + ANNOUNCE_SECONDS
            self.place.announce()

    def _lose(self, why: str) -> None:
        if self._mine is not None:
            self.place.drop()
            self._mine = None
            self._tell(f"lets it go: {why}")

    def _release(self, mine: VipRecord, why: str) -> None:
        self._lose(why)
        try:
            self.register.swap(mine, "")
        except RecordUnanswered as error:
            self._tell(f"the others find out in {TAKE_SECONDS:.0f} s that it is free: {error}")

    def _tell(self, what: str) -> None:
        if what != self._said:
            self._said = what
            self.say(what)
