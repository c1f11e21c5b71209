"""What a BMC remembers when its process dies: one small JSON file each, never half written.

`BmcMemory` is one BMC's durable state as a frozen value; a change is a new value that is on disk before anybody is told
it happened. `JsonFile` is the file below it, made durable by `disk`. This module knows no protocol and no hypervisor.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from rackless.bmc.core.disk import StateDisk
from rackless.ports.hypervisor import BootDevice


class When(StrEnum):
    """How long a boot override lasts."""

    DISABLED = "Disabled"
    ONCE = "Once"
    CONTINUOUS = "Continuous"


@dataclass(frozen=True, slots=True)
class BootOverride:
    """The device of the next starts. `device` None is "no override", whatever `when` says."""

    device: BootDevice | None = None
    when: When = When.DISABLED

    @property
    def effective(self) -> BootDevice | None:
        return None if self.when is When.DISABLED else self.device


@dataclass(frozen=True, slots=True)
class InsertedMedia:
    """What a client asked to be put into the drive, and the file that holds its bytes."""

    url: str
    file: str
    username: str | None = None


@dataclass(frozen=True, slots=True)
class BmcMemory:
    boot: BootOverride = BootOverride()
    media: InsertedMedia | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Small things a client may set and read back (asset tag, LED, BIOS attributes), by name."""
    start_promised: bool = False
    """It was switched on, and waits for its turn to start."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BmcMemory:
        boot = value.get("boot") or {}
        media = value.get("media")
        return cls(
            boot=BootOverride(
                BootDevice(boot["device"]) if boot.get("device") else None, When(boot.get("when", When.DISABLED))
            ),
            media=InsertedMedia(**media) if media else None,
            settings=dict(value.get("settings") or {}),
            start_promised=bool(value.get("start_promised")),
        )


class JsonFile:
    """One JSON object in one private file: readers see the old one or the new one, whenever the process or the computer dies."""

    def __init__(self, path: Path, disk: StateDisk | None = None) -> None:
        self.path = path
        self._disk = disk or StateDisk()
        self._saving = asyncio.Lock()

    def load(self) -> dict[str, Any] | None:
        """None when there is none. A file that is not JSON is set aside and counts as none."""
        try:
            value = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            self.set_aside()
            return None
        return value if isinstance(value, dict) else None

    def set_aside(self) -> None:
        self.path.replace(self.path.with_suffix(".unreadable"))

    async def save(self, value: Mapping[str, Any]) -> None:
        text = json.dumps(value, separators=(",", ":"))
        # A caller that goes away must not leave us between the file and what memory says it holds.
        await asyncio.shield(self._save(text.encode()))

    def retire(self) -> None:
        self.path.unlink(missing_ok=True)

    async def _save(self, content: bytes) -> None:
        async with self._saving:
            await self._disk.replace(self.path, content)


def load_memory(file: JsonFile) -> BmcMemory:
    value = file.load()
    if value is None:
        return BmcMemory()
    try:
        return BmcMemory.from_json(value)
    except (TypeError, ValueError, KeyError, AttributeError):
        file.set_aside()
        return BmcMemory()
