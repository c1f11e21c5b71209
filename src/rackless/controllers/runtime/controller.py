"""What a controller is to the runtime: the kind it looks after, whom a change wakes, one look, and what comes of it."""

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
    """What comes of one look: `status` replaces the record's, `change` is merged into the rest of it.

    Both are written on the version that was looked at: when somebody else wrote meanwhile, it is looked at again.
    """

    after: float | None = None
    """Seconds until the next look; 0.0 is at once, None when something changes."""
    status: Mapping[str, Any] | None = None
    change: Mapping[str, Any] | None = None
    events: tuple[Happened, ...] = ()


@dataclass(frozen=True, slots=True)
class Wake:
    """Whom a change of a record in `cache` concerns; `keys` gets it as it was and as it is, None where it is not."""

    cache: Cache
    keys: Callable[[Record | None, Record | None], Iterable[Key]]
    needed: bool = True
    """Nothing is looked at before this cache is filled. Unless needed: the API it follows may be away for long."""


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
        """One look at one record; None when it is gone."""
        ...

    def troubled(self, record: Record, error: Exception) -> Mapping[str, Any] | None:
        """The status that tells people of an error nobody expected; None leaves it as it is."""
        ...

    def stopped(self, key: Key) -> None:
        """Nobody looks after this object any more: the controller ends, the object goes on."""
        ...


def own(cache: Cache, concerns: Callable[[Record, Record], bool] = lambda before, after: True) -> Wake:
    """A record is looked at when it comes, goes, or changes in a way that `concerns` its controller."""

    def keys(before: Record | None, after: Record | None) -> Iterable[Key]:
        if before is None or after is None or concerns(before, after):
            metadata = (after or before or {})["metadata"]
            yield Key(cache.kind, metadata.get("namespace") or "", metadata["name"])

    return Wake(cache, keys)
