"""An engine's environment that is a folder: `ports.ironic.EngineEnvironment`."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from rackless.drivers.fake.script import Script
from rackless.events import Bus


@dataclass
class FakeEnvironment:
    script: Script
    version: str = "1"
    takes: float = 0.0
    """Seconds that making an environment takes."""
    _made: set[Path] = field(default_factory=set)
    """The environments that are being made at this moment."""

    async def current(self, cache: Path) -> Path:
        return cache / "ironic" / self.version

    async def ensure(self, cache: Path, bus: Bus) -> Path:
        place = await self.current(cache)
        with bus.step("Ironic's environment") as step:
            await self.script.meet("environment", "ensure", self.version)
            if self.complete(place):
                step.unchanged(str(place))
                return place
            place.mkdir(parents=True, exist_ok=True)
            if self.takes:
                self._made.add(place)
                await asyncio.sleep(self.takes)
                self._made.discard(place)
            (place / ".complete").touch()
            self.script.change("environment", "ensure", self.version)
        return place

    def complete(self, place: Path) -> bool:
        return (place / ".complete").exists()

    def retire(self, place: Path) -> bool:
        if place in self._made:
            return False
        shutil.rmtree(place)
        return True
