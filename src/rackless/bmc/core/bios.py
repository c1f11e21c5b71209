"""The attributes of the firmware's setup screen.

`BootMode` and `SecureBoot` change the firmware the server starts with. Two others show the server's hardware and are
read-only. All the rest are stored and read back, for QEMU's firmware has no such switches. A change is pending until the
server starts again, as on metal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rackless.bmc.core import firmware
from rackless.bmc.core.state import BmcMemory
from rackless.ports.hypervisor import Firmware, FirmwareChoice, ServerState


@dataclass(frozen=True, slots=True)
class Attribute:
    name: str
    title: str
    values: tuple[str, ...]
    """Empty for a number that only tells."""
    default: str = ""


_SWITCH = ("Enabled", "Disabled")
BOOT_MODE, SECURE_BOOT = "BootMode", "SecureBoot"
_MODES = {Firmware.UEFI: "Uefi", Firmware.BIOS: "Bios"}
_KINDS = {name: kind for kind, name in _MODES.items()}
_DO_SOMETHING = (
    Attribute(BOOT_MODE, "Firmware the server starts with", tuple(_KINDS), "Uefi"),
    Attribute(SECURE_BOOT, "Start only what is signed", _SWITCH, "Disabled"),
)
_TELL = (
    Attribute("ProcCoreCount", "Processor cores", ()),
    Attribute("SysMemSizeMiB", "Memory in MiB", ()),
)
_KEPT = (
    Attribute("BootRetry", "Try the boot list again when it was used up", _SWITCH, "Disabled"),
    Attribute("EmbeddedNic1", "Network interface 1", _SWITCH, "Enabled"),
    Attribute("EmbeddedNic2", "Network interface 2", _SWITCH, "Enabled"),
    Attribute("Ipv6Pxe", "Network boot by IPv6", _SWITCH, "Enabled"),
    Attribute("NodeInterleave", "Node interleaving", _SWITCH, "Disabled"),
    Attribute("NumLock", "Num Lock at power on", ("On", "Off"), "On"),
    Attribute("PowerOnDelay", "Delay after power returns", ("Immediate", "Random"), "Immediate"),
    Attribute("PowerProfile", "Power profile", ("MaxPerf", "Balanced", "MinPower"), "Balanced"),
    Attribute("ProcAes", "AES instructions", _SWITCH, "Enabled"),
    Attribute("ProcCStates", "Processor idle states", _SWITCH, "Enabled"),
    Attribute("ProcHyperthreading", "Logical processors", _SWITCH, "Enabled"),
    Attribute("ProcTurboMode", "Turbo mode", _SWITCH, "Enabled"),
    Attribute("ProcVirtualization", "Hardware virtualization", _SWITCH, "Enabled"),
    Attribute("QuietBoot", "Hide the messages of the start", _SWITCH, "Enabled"),
    Attribute("SerialConsole", "Serial console", ("Auto", "Com1", "Off"), "Com1"),
    Attribute("Sriov", "SR-IOV", _SWITCH, "Disabled"),
    Attribute("UsbBoot", "Boot from USB", _SWITCH, "Enabled"),
)
ATTRIBUTES = (*_DO_SOMETHING, *_TELL, *_KEPT)
_NAMES = {attribute.name for attribute in _KEPT}
Values = dict[str, str | int]


def current(memory: BmcMemory, server: ServerState) -> Values:
    kept = {name: value for name, value in memory.settings.get("bios", {}).items() if name in _NAMES}
    return {**_of(server.choice), **_told(server), **_defaults(), **kept}


def coming(memory: BmcMemory, server: ServerState) -> Values:
    """What will be in force after the next start."""
    return current(memory, server) | _of(firmware.wished(memory, server)) | _pending(memory)


def writable(server: ServerState) -> dict[str, tuple[str, ...]]:
    """The attributes that can be written, with the values this server can have."""
    secure = _SWITCH if firmware.can_be_secure(server) else ("Disabled",)
    own = {BOOT_MODE: tuple(_MODES[kind] for kind in firmware.kinds(server)), SECURE_BOOT: secure}
    return own | {attribute.name: attribute.values for attribute in _KEPT}


def with_wishes(memory: BmcMemory, server: ServerState, wishes: Mapping[str, str]) -> BmcMemory:
    now = firmware.wished(memory, server)
    kind = _KINDS[wishes[BOOT_MODE]] if BOOT_MODE in wishes else now.kind
    secure = wishes[SECURE_BOOT] == "Enabled" if SECURE_BOOT in wishes else now.secure_boot
    memory = firmware.with_wish(memory, server, FirmwareChoice(kind, secure and kind is Firmware.UEFI))
    kept = {name: value for name, value in wishes.items() if name in _NAMES}
    return replace(memory, settings={**memory.settings, "bios_pending": _pending(memory) | kept}) if kept else memory


def reset(memory: BmcMemory) -> BmcMemory:
    """Reset the settings to their defaults at the next start; but not the kind of firmware (BIOS or UEFI), or the server might
    not boot."""
    return replace(memory, settings={**memory.settings, "bios_pending": _defaults()})


def after_start(memory: BmcMemory) -> BmcMemory:
    wishes = _pending(memory)
    if not wishes:
        return memory
    settings = {key: value for key, value in memory.settings.items() if key != "bios_pending"}
    return replace(memory, settings=settings | {"bios": dict(settings.get("bios", {})) | wishes})


def _of(choice: FirmwareChoice) -> Values:
    return {BOOT_MODE: _MODES[choice.kind], SECURE_BOOT: "Enabled" if choice.secure_boot else "Disabled"}


def _told(server: ServerState) -> Values:
    return {"ProcCoreCount": server.vcpus, "SysMemSizeMiB": server.memory_mib}


def _defaults() -> Values:
    return {attribute.name: attribute.default for attribute in _KEPT}


def _pending(memory: BmcMemory) -> dict[str, str]:
    return dict(memory.settings.get("bios_pending", {}))


def pending(memory: BmcMemory) -> bool:
    return bool(_pending(memory))
