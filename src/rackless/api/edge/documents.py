"""Documents about the API itself (discovery, OpenAPI): encoded once for each state of the registry, off the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

from rackless.api.objects.registry import Registry
from rackless.api.offload import SMALL, Offload

_WHO = "system:documents"
"""Nobody's turn is taken by them: each waits apart."""
_MANY_KINDS = 200


class Documents:
    def __init__(self, registry: Registry, offload: Offload) -> None:
        self._registry = registry
        self._offload = offload
        self._revision = registry.revision
        self._made: dict[Hashable, asyncio.Task[bytes]] = {}

    async def get(self, name: Hashable, make: Callable[[Registry], bytes], *, heavy: bool = True) -> bytes:
        """The document of this name; made when it is first asked for since the kinds changed."""
        if self._revision != self._registry.revision:
            self._revision = self._registry.revision
            self._made = {}
        found = self._made.get(name)
        if found is None:
            kinds = self._registry.snapshot()
            weight = SMALL + 1 if heavy or len(kinds.kinds()) > _MANY_KINDS else 0
            work = self._offload.run(f"{_WHO} {name}", weight, lambda: make(kinds))
            found = self._made[name] = asyncio.create_task(work)
            found.add_done_callback(lambda task: self._keep(name, task))
        return await asyncio.shield(found)

    def knows(self, group: str, version: str) -> bool:
        """Whether it is worth asking: names that nobody serves are not kept."""
        return version in self._registry.groups().get(group, ())

    def _keep(self, name: Hashable, task: asyncio.Task[bytes]) -> None:
        """Keep a document for later requests; one that failed is made again at the next request."""
        if (task.cancelled() or task.exception() is not None) and self._made.get(name) is task:
            del self._made[name]
