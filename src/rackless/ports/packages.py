"""The packages of this computer: which are there, and installing more. Never an upgrade, never a removal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Packages(Protocol):
    def known(self) -> bool:
        """Whether this computer's packages are of a kind that we know how to look at."""
        ...

    async def installed(self, names: Sequence[str]) -> set[str]:
        """Of these, those that are there."""
        ...

    async def refresh(self) -> None:
        """Read again what there is to be installed."""
        ...

    async def install(self, names: Sequence[str]) -> None: ...

    def command(self, names: Sequence[str]) -> str:
        """What a person would type to install them."""
        ...
