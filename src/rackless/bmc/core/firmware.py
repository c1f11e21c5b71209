"""The firmware a server is to start with: kept as a wish until the server starts again, as on metal.

Pure. The wish is in the BMC's memory; the next start writes it into the server's definition. Redfish's boot mode, its
SecureBoot and two BIOS attributes are ways to express the same wish.
"""

from __future__ import annotations

from dataclasses import replace

from rackless.bmc.core.state import BmcMemory
from rackless.ports.hypervisor import Firmware, FirmwareChoice, ServerState

_KEY = "firmware"


def wished(memory: BmcMemory, server: ServerState) -> FirmwareChoice:
    """What the next start will use. Secure boot goes with UEFI only: a wish for BIOS puts it out."""
    wish = memory.settings.get(_KEY) or {}
    kind = Firmware(wish.get("kind", server.firmware))
    secure = bool(wish.get("secure_boot", server.secure_boot))
    return FirmwareChoice(kind, secure_boot=secure and kind is Firmware.UEFI)


def pending(memory: BmcMemory, server: ServerState) -> bool:
    return wished(memory, server) != server.choice


def with_wish(memory: BmcMemory, server: ServerState, choice: FirmwareChoice) -> BmcMemory:
    settings = {key: value for key, value in memory.settings.items() if key != _KEY}
    if choice != server.choice:
        settings[_KEY] = {"kind": choice.kind.value, "secure_boot": choice.secure_boot}
    return replace(memory, settings=settings)


def kinds(server: ServerState) -> list[Firmware]:
    """The kinds of firmware it can have, the one in force first."""
    others = {choice.kind for choice in server.offers} - {server.firmware}
    return [server.firmware, *sorted(others)]


def of_kind(memory: BmcMemory, server: ServerState, kind: Firmware) -> FirmwareChoice:
    """The wish that comes of asking for a kind: secure boot is kept where it can be."""
    now = wished(memory, server)
    return FirmwareChoice(kind, secure_boot=now.secure_boot and kind is Firmware.UEFI)


def can_be_secure(server: ServerState) -> bool:
    return server.secure_boot or any(choice.secure_boot for choice in server.offers)


def after_start(memory: BmcMemory) -> BmcMemory:
    return replace(memory, settings={key: value for key, value in memory.settings.items() if key != _KEY})
