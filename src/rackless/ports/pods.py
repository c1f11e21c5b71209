"""The pods on a node of a cluster, as far as draining it needs them. The lab's own clusters have none."""

from __future__ import annotations

from typing import Protocol

from rackless.ports.resources import Record


class Pods(Protocol):
    async def on(self, node: str) -> list[Record]:
        """All pods that are bound to this node, in every namespace."""
        ...

    async def evict(self, pod: Record, *, grace: int | None = None) -> str:
        """Ask that this very pod ends, as its disruption budgets allow; why not, empty when it ends or is gone.

        `grace` is for how many seconds it may take, where that is not left to the pod.
        """
        ...
