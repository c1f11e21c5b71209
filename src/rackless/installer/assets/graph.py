"""Which assets there are and what they are made of; the targets that can be asked for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rackless.installer.assets.asset import Asset


@dataclass(frozen=True, slots=True)
class AssetTarget:
    """What `create NAME` makes: assets whose parts are files, written into the folder."""

    name: str
    title: str
    assets: tuple[Asset[Any], ...]


@dataclass(frozen=True, slots=True)
class Graph:
    targets: tuple[AssetTarget, ...]

    def target(self, name: str) -> AssetTarget:
        return next(target for target in self.targets if target.name == name)

    @property
    def assets(self) -> tuple[Asset[Any], ...]:
        """All of them, each after what it needs."""
        return closure([asset for target in self.targets for asset in target.assets])


def closure(wanted: Sequence[Asset[Any]]) -> tuple[Asset[Any], ...]:
    """These and all that they are made of, each after what it needs.

    A frozen asset can name only assets that were there before it, so there is no circle to look for; two of one name would
    share a place in the state file.
    """
    found: dict[str, Asset[Any]] = {}

    def visit(asset: Asset[Any]) -> None:
        known = found.get(asset.name)
        if known is not None:
            assert known is asset, f"two assets are called {asset.name}"
            return
        for need in asset.needs:
            visit(need)
        found[asset.name] = asset

    for asset in wanted:
        visit(asset)
    return tuple(found.values())
