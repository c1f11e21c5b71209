"""The interface of a controller: the kind it reconciles, which changes wake which keys, `reconcile`, and its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rackless.controllers.runtime.cache import Cache
from rackless.ports.resources import Key, Record


@dataclass(frozen=True, slots=True)
class Happened:
    """Worth an Event: `kubectl describe` shows it under the object."""

    reason: str
    """One word in CamelCase, for programs."""
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one reconciliation: `status` replaces the object's, `change` is merged into the rest of it.

    Both are written on the resourceVersion that was read: when another client wrote meanwhile, the object is reconciled again.
    """

    after: float | None = None
    """Seconds until the next reconciliation; 0.0 is at once, None only when something changes."""
    status: Mapping[str, Any] | None = None
    change: Mapping[str, Any] | None = None
    events: tuple[Happened, ...] = ()


@dataclass(frozen=True, slots=True)
class Wake:
    """Which keys a change of an object in `cache` wakes; `keys` is called with the object before and after, None where it does
    not exist."""

    cache: Cache
    keys: Callable[[Record | None, Record | None], Iterable[Key]]
    needed: bool = True
    """Whether the controller waits until this cache is filled; False for a cache of an API that may not answer for long."""


class Controller(Protocol):
    @property
    def name(self) -> str:
        """For logs, metrics and as the source of Events."""
        ...

    @property
    def cache(self) -> Cache:
        """The records it looks after."""
        ...

    @property
    def wakes(self) -> Sequence[Wake]: ...

    async def reconcile(self, key: Key, record: Record | None) -> Result:
        """Reconcile one object; the record is None when it is gone."""
        ...

    def troubled(self, record: Record, error: Exception) -> Mapping[str, Any] | None:
        """The status that reports an unexpected error; None leaves it as it is."""
        ...

    def stopped(self, key: Key) -> None:
        """The controller ends, the object stays: forget what was kept of it."""
        ...


def own(cache: Cache, concerns: Callable[[Record, Record], bool] = lambda before, after: True) -> Wake:
    """Wake an object's key when it is created or deleted, or changes in a way that `concerns` its controller."""

    def keys(before: Record | None, after: Record | None) -> Iterable[Key]:
        if before is None or after is None or concerns(before, after):
            metadata = (after or before or {})["metadata"]
            yield Key(cache.kind, metadata.get("namespace") or "", metadata["name"])

    return Wake(cache, keys)
