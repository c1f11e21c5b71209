"""The script of a fake world: every call of every fake passes through it, is noted, and can be made to go wrong.

A rule names the calls it is about and what happens to them: they take time, they fail, or a process is killed while they are
made. All chance comes from one seed, so that a run can be repeated.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple


class Call(NamedTuple):
    """One call of a port: `hypervisor.ensure server-0`. `changed` is what it changed, not what it looked at."""

    port: str
    method: str
    subject: str
    by: int = 0
    """The pid of the process that called; 0 where there are no processes."""
    changed: bool = False

    def __str__(self) -> str:
        return f"{self.port}.{self.method} {self.subject}".strip()


@dataclass
class Rule:
    """About the next `times` calls that `pattern` fits, such as `hypervisor.power_on *`."""

    pattern: str
    seconds: float = 0.0
    error: Callable[[], BaseException] | None = None
    then: Callable[[], None] | None = None
    """Called when the call arrives, to kill its caller, for example."""
    times: int = 1
    chance: float = 1.0
    skip: int = 0
    """How many fitting calls are left alone first."""
    lost: bool = False
    """The call takes effect, and only its answer is lost: `error` is raised, and the delay taken, afterwards."""


@dataclass
class Script:
    seed: int = 0
    rules: list[Rule] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    current: Call | None = None
    """The call that a rule's `then` is being run for; other calls may arrive meanwhile."""
    caller: Callable[[], int] = lambda: 0
    listeners: list[Callable[[Call], None]] = field(default_factory=list)
    """Told of every call before it has an effect, and of every change after it was made."""
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    async def meet(self, port: str, method: str, subject: str = "") -> None:
        """A call arrives: notes it and applies the rules to it."""
        call = Call(port, method, subject, self.caller())
        self._note(call)
        await self._happen(call, lost=False)

    def touch(self, port: str, method: str, subject: str = "") -> None:
        """A call arrives where nothing can wait: rules can kill a process at it or make it fail, but not delay it."""
        call = Call(port, method, subject, self.caller())
        self._note(call)
        for rule in self._about(call, lost=False):
            if rule.then is not None:
                self.current = call
                rule.then()
            if rule.error is not None:
                raise rule.error()

    async def answer(self, port: str, method: str, subject: str = "") -> None:
        """The call has taken effect, and its caller is about to get the answer."""
        if self.rules:
            await self._happen(Call(port, method, subject, self.caller()), lost=True)

    def change(self, port: str, method: str, subject: str = "") -> None:
        """The call changed something."""
        self._note(Call(port, method, subject, self.caller(), changed=True))

    def changes(self) -> list[Call]:
        return [call for call in self.calls if call.changed]

    @contextmanager
    def recorded(self) -> Iterator[list[Call]]:
        """The calls made meanwhile."""
        before, found = len(self.calls), list[Call]()
        try:
            yield found
        finally:
            found += self.calls[before:]

    def _note(self, call: Call) -> None:
        self.calls.append(call)
        for listener in self.listeners:
            listener(call)

    async def _happen(self, call: Call, *, lost: bool) -> None:
        for rule in self._about(call, lost):
            if rule.then is not None:
                self.current = call
                rule.then()
                await asyncio.sleep(0)  # a process that was killed just now does not continue from here
            if rule.seconds:
                await asyncio.sleep(rule.seconds)
            if rule.error is not None:
                raise rule.error()

    def _about(self, call: Call, lost: bool) -> Iterator[Rule]:
        for rule in list(self.rules):
            if rule.times <= 0 or rule.lost is not lost or not fnmatchcase(str(call), rule.pattern):
                continue
            if rule.skip > 0:
                rule.skip -= 1
            elif self._random.random() < rule.chance:
                rule.times -= 1
                yield rule
