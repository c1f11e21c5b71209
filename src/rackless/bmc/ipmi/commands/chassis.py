"""Chassis commands: power, boot device, lamp and policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from rackless.bmc.core import restore
from rackless.bmc.core.faults import Operation
from rackless.bmc.core.power import Reset, StartCause
from rackless.bmc.core.restore import Restore
from rackless.bmc.core.state import BmcMemory, BootOverride, When
from rackless.bmc.ipmi.command import Code, Command, CommandCall, CommandRefused
from rackless.bmc.ipmi.session import Privilege
from rackless.ports.hypervisor import BootDevice, Firmware, Power

_NETFN: Final = 0x00
_CONTROLS: Final = {
    0: Reset.FORCE_OFF,
    1: Reset.ON,
    2: Reset.POWER_CYCLE,
    3: Reset.FORCE_RESTART,
    4: Reset.NMI,
    5: Reset.GRACEFUL_SHUTDOWN,
}
_ONLY_WHEN_ON: Final = (Reset.POWER_CYCLE, Reset.FORCE_RESTART, Reset.NMI)
_POLICIES: Final = 0x07
"""Stay off, as before, always on."""
_RESTORE: Final = (Restore.ALWAYS_OFF, Restore.LAST_STATE, Restore.ALWAYS_ON)
_IDENTIFY_SECONDS: Final = 15


def capabilities(call: CommandCall) -> bytes:
    return bytes((0x00, 0x20, 0x20, 0x20, 0x20, 0x20))


def status(call: CommandCall) -> bytes:
    controller = call.controller
    on = controller.is_on()
    by_command = controller.chassis.cause is StartCause.COMMAND
    return bytes(
        (
            on | _RESTORE.index(restore.policy(controller.chassis.memory)) << 5,
            0x10 if on and by_command else 0,
            0x40 | controller.identifying << 4,
            0x00,
        )
    )


async def control(call: CommandCall) -> bytes:
    what = _CONTROLS.get(call.need(1)[0] & 0x0F)
    if what is None:
        raise CommandRefused(Code.INVALID_FIELD)
    if what in _ONLY_WHEN_ON and not call.controller.is_on():
        raise CommandRefused(Code.NOT_IN_THIS_STATE)
    await call.controller.press(what)
    return b""


async def identify(call: CommandCall) -> bytes:
    data = call.need(0, 2)
    forever = len(data) > 1 and data[1] & 1
    await call.controller.identify(None if forever else data[0] if data else _IDENTIFY_SECONDS)
    return b""


async def set_policy(call: CommandCall) -> bytes:
    policy = call.need(1)[0] & 0x07
    if policy > 3:
        raise CommandRefused(Code.INVALID_FIELD)
    if policy < 3:
        await call.controller.chassis.update(lambda memory: restore.with_policy(memory, _RESTORE[policy]))
    return bytes((_POLICIES,))


_CAUSES: Final = {
    StartCause.UNKNOWN: 0x0,
    StartCause.COMMAND: 0x1,
    StartCause.BUTTON: 0x3,
    StartCause.WATCHDOG: 0x4,
    StartCause.GUEST: 0xB,
}


def restart_cause(call: CommandCall) -> bytes:
    cause = call.controller.chassis.cause
    return bytes((_CAUSES[cause], 0x01 if cause is StartCause.COMMAND else 0x00))


def power_on_hours(call: CommandCall) -> bytes:
    minutes = int(call.controller.on_seconds() // 60)
    return bytes((1,)) + min(minutes, 0xFFFFFFFF).to_bytes(4, "little")


# boot parameters

_DEVICES: Final = {
    0x0: None,
    0x1: BootDevice.NETWORK,
    0x2: BootDevice.DISK,
    0x5: BootDevice.CDROM,
    0x6: BootDevice.SETUP,
    0x7: BootDevice.REMOVABLE,
    0x8: BootDevice.CDROM,  # the "remote" CD is the one there is
    0xF: BootDevice.REMOVABLE,
}
"""Not among them: 3, a disk's safe mode, and 4, a diagnostic partition, which these servers have not."""
_SELECTORS: Final = {
    BootDevice.NETWORK: 0x1,
    BootDevice.DISK: 0x2,
    BootDevice.CDROM: 0x5,
    BootDevice.SETUP: 0x6,
    BootDevice.REMOVABLE: 0xF,
}
_VALID, _PERSISTENT, _EFI = 0x80, 0x40, 0x20
_NOT_SUPPORTED: Final = 0x80


async def set_boot_option(call: CommandCall) -> bytes:
    data = call.need(1, 18)
    scratch, value = call.controller.boot, data[1:]
    if not value:  # only marks the parameter as locked
        return b""
    match data[0] & 0x7F:
        case 0:
            scratch.in_progress = value[0] & 0x03
        case 3:
            scratch.clearing = value[0] & 0x1F
        case 4 if len(value) == 2:
            scratch.acknowledge = bytes((0, scratch.acknowledge[1] & ~value[0] | value[1] & value[0]))
        case 5 if len(value) == 5:
            await _set_boot_flags(call, value)
        case 6 if len(value) == 9:
            scratch.initiator = value
        case 4 | 5 | 6:
            raise CommandRefused(Code.LENGTH_INVALID)
        case _:
            raise CommandRefused(_NOT_SUPPORTED)
    return b""


async def _set_boot_flags(call: CommandCall, flags: bytes) -> None:
    """What the server cannot do is refused: safe mode, say, or a set-up screen where the firmware has none."""
    selector = flags[1] >> 2 & 0x0F
    server = call.controller.chassis.server()
    if selector not in _DEVICES or (_DEVICES[selector] is BootDevice.SETUP and not server.setup_screen):
        raise CommandRefused(Code.INVALID_FIELD)
    efi = bool(flags[0] & _EFI)
    if efi and server.firmware is Firmware.BIOS:
        raise CommandRefused(Code.INVALID_FIELD)
    device = _DEVICES[selector] if flags[0] & _VALID else None
    when = When.CONTINUOUS if flags[0] & _PERSISTENT else When.ONCE

    def changed(memory: BmcMemory) -> BmcMemory:
        settings = {**memory.settings, "ipmi": {**memory.settings.get("ipmi", {}), "efi": efi}}
        return replace(memory, boot=BootOverride(device, when) if device else BootOverride(), settings=settings)

    await call.controller.chassis.update(changed)


def get_boot_option(call: CommandCall) -> bytes:
    data = call.need(3)
    scratch = call.controller.boot
    match data[0] & 0x7F:
        case 0:
            value = bytes((scratch.in_progress,))
        case 1 | 2:
            value = b"\x00"  # there is no service partition
        case 3:
            value = bytes((scratch.clearing,))
        case 4:
            value = scratch.acknowledge
        case 5:
            value = _boot_flags(call)
        case 6:
            value = scratch.initiator
        case _:
            raise CommandRefused(_NOT_SUPPORTED)
    return bytes((0x01, data[0] & 0x7F)) + value


def _boot_flags(call: CommandCall) -> bytes:
    chassis = call.controller.chassis
    server, boot = chassis.server(), chassis.memory.boot
    device = boot.effective
    efi = call.controller.setting("efi", server.firmware is Firmware.UEFI)
    flags = _EFI if efi else 0
    if device is None:
        return bytes((flags, 0, 0, 0, 0))
    flags |= _VALID | (_PERSISTENT if boot.when is When.CONTINUOUS else 0)
    return bytes((flags, _SELECTORS[device] << 2, 0, 0, 0))


def acpi_power_state(call: CommandCall) -> bytes:
    on = call.controller.chassis.server().power is Power.ON
    return bytes((0x00 if on else 0x05, 0x00))


def _which_control(data: bytes) -> Mapping[str, str]:
    what = _CONTROLS.get(data[0] & 0x0F) if data else None
    return {"action": what.value} if what else {}


def _which_boot(data: bytes) -> Mapping[str, str]:
    if len(data) != 6 or data[0] & 0x7F != 5:
        return {}
    device = _DEVICES.get(data[2] >> 2 & 0x0F)
    return {"device": device.value if device else "none", "when": "always" if data[1] & _PERSISTENT else "once"}


COMMANDS: Final = {
    (_NETFN, 0x00): Command(capabilities, Privilege.USER),
    (_NETFN, 0x01): Command(status, Privilege.USER),
    (_NETFN, 0x02): Command(control, Privilege.OPERATOR, Operation.POWER, _which_control),
    (_NETFN, 0x04): Command(identify, Privilege.OPERATOR),
    (_NETFN, 0x06): Command(set_policy, Privilege.OPERATOR),
    (_NETFN, 0x07): Command(restart_cause, Privilege.USER),
    (_NETFN, 0x08): Command(set_boot_option, Privilege.OPERATOR, Operation.BOOT, _which_boot),
    (_NETFN, 0x09): Command(get_boot_option, Privilege.OPERATOR, Operation.READ),
    (_NETFN, 0x0F): Command(power_on_hours, Privilege.USER),
    (0x06, 0x07): Command(acpi_power_state, Privilege.USER),
}
