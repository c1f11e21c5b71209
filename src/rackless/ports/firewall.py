"""The firewall of a network namespace: nftables tables of IPv4, each replaced as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Firewall(Protocol):
    async def replace(self, rules: str, *, namespace: Path | None = None) -> None:
        """Carry out a script of nftables all at once, in our network namespace or in that one.

        Raises CommandFailed when the kernel refuses any of it; then nothing has changed.
        """
        ...

    async def remove(self, table: str) -> None:
        """Silent when it is not there."""
        ...

    async def sets(self, name: str) -> dict[str, frozenset[str]]:
        """By table, the elements of its set of this name; tables that have no such set are left out."""
        ...
