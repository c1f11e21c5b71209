"""A stage as a value: which stages it needs, and how it is observed, planned, made, restored and stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rackless.plan.actions import Action, Observed
from rackless.plan.stages import STAGES, Planned

Observe = Callable[[], Coroutine[Any, Any, Observed]]
Ensure = Callable[[Sequence[Action]], Awaitable[None]]


async def _nothing() -> None: ...


async def _nothing_of(actions: Sequence[Action]) -> None: ...


@dataclass(frozen=True, slots=True)
class Stage:
    planned: Planned
    title: str
    observe: Observe
    """What exists of it now. Changes nothing."""
    ensure: Ensure
    """Carry out these actions, and return when they have had their effect."""
    restore: Ensure
    """The same after a restart of labd, without waiting until slow actions have had their effect."""
    retire: Callable[[], Awaitable[None]]
    """Stop the processes that it keeps running; nothing is deleted."""
    remove: Ensure = _nothing_of
    """Delete what these actions remove or make anew, while labd still has the old description."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """The numbers in its step's title, such as how many servers."""
    costly: bool = False
    """`observe` asks nodes over the network: `up` leaves it out of the plan that it makes before it begins."""

    @property
    def name(self) -> str:
        return self.planned.name


def stage(
    name: str,
    title: str,
    *,
    observe: Observe,
    ensure: Ensure,
    restore: Ensure | None = None,
    retire: Callable[[], Awaitable[None]] = _nothing,
    remove: Ensure = _nothing_of,
    numbers: Mapping[str, float] | None = None,
    costly: bool = False,
) -> Stage:
    planned = next(planned for planned in STAGES if planned.name == name)
    return Stage(planned, title, observe, ensure, restore or ensure, retire, remove, numbers or {}, costly)
