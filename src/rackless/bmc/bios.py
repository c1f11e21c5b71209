"""The attributes of the firmware's setup screen. They are kept and read back; QEMU's firmware has no such switches.

A change is pending until the server starts again, as on metal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rackless.bmc.state import Memory


@dataclass(frozen=True, slots=True)
class Attribute:
    name: str
    title: str
    values: tuple[str, ...]
    default: str


_SWITCH = ("Enabled", "Disabled")
ATTRIBUTES = (
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
    Attribute("TpmState", "Trusted platform module", _SWITCH, "Disabled"),
    Attribute("UsbBoot", "Boot from USB", _SWITCH, "Enabled"),
)


def current(memory: Memory) -> dict[str, str]:
    return {attribute.name: attribute.default for attribute in ATTRIBUTES} | dict(memory.settings.get("bios", {}))


def pending(memory: Memory) -> dict[str, str]:
    return dict(memory.settings.get("bios_pending", {}))


def with_pending(memory: Memory, wishes: Mapping[str, str]) -> Memory:
    return replace(memory, settings={**memory.settings, "bios_pending": pending(memory) | dict(wishes)})


def reset(memory: Memory) -> Memory:
    """To the defaults, at the next start."""
    return replace(
        memory,
        settings={**memory.settings, "bios_pending": {attribute.name: attribute.default for attribute in ATTRIBUTES}},
    )


def after_start(memory: Memory) -> Memory:
    wishes = pending(memory)
    if not wishes:
        return memory
    settings = {key: value for key, value in memory.settings.items() if key != "bios_pending"}
    return replace(memory, settings=settings | {"bios": dict(settings.get("bios", {})) | wishes})
