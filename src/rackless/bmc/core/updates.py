"""Firmware updates, of which only the version is real: an image is fetched, and its target then has another version.

The BMC's own version changes at once, the server's at its next start, as on metal. Pure; `chassis` fetches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum

from rackless import __version__
from rackless.bmc.core.state import BmcMemory

_NOW, _NEXT = "versions", "versions_pending"
_NUMBERS = re.compile(r"\d+(?:\.\d+)+")
_LONGEST = 64


class Component(StrEnum):
    BMC = "BMC"
    BIOS = "BIOS"


def version(memory: BmcMemory, component: Component) -> str:
    kept = memory.settings.get(_NOW)
    return str(kept.get(component, __version__)) if kept else __version__


def pending(memory: BmcMemory) -> bool:
    return bool(_kept(memory, _NEXT))


def with_update(memory: BmcMemory, component: Component, new: str, *, running: bool) -> BmcMemory:
    """`running` says that the server is on: its firmware is in use until it starts again."""
    key = _NEXT if component is Component.BIOS and running else _NOW
    return replace(memory, settings={**memory.settings, key: {**_kept(memory, key), component.value: new}})


def after_start(memory: BmcMemory) -> BmcMemory:
    if not pending(memory):
        return memory
    settings = {key: value for key, value in memory.settings.items() if key != _NEXT}
    return replace(memory, settings={**settings, _NOW: {**_kept(memory, _NOW), **_kept(memory, _NEXT)}})


def version_of(name: str, digest: str) -> str:
    """What an image's name says, or a number of its content where that says nothing."""
    found = _NUMBERS.findall(name)
    return found[-1][:_LONGEST] if found else f"0.0-{digest[:12]}"


def _kept(memory: BmcMemory, key: str) -> Mapping[str, str]:
    return dict(memory.settings.get(key, {}))
