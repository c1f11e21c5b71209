"""Systems: the server itself, its power and how it boots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rackless.bmc.core import firmware, restore, updates
from rackless.bmc.core.chassis import Chassis
from rackless.bmc.core.power import Reset
from rackless.bmc.core.restore import Restore
from rackless.bmc.core.state import BmcMemory, BootOverride, When
from rackless.bmc.core.updates import Component
from rackless.bmc.redfish import boot_options
from rackless.bmc.redfish.body import Flag, ListOf, Needed, OneOf, Shape, Text
from rackless.bmc.redfish.messages import Json
from rackless.bmc.redfish.resource import ROOT, Answer, Resource, Scope, collection, link, status
from rackless.bmc.redfish.root import VENDOR
from rackless.bmc.redfish.schemas import SCHEMAS
from rackless.ports.hypervisor import BootDevice, Firmware, Power, ServerState

_TARGETS: dict[str, BootDevice | None] = {
    "None": None,
    "Pxe": BootDevice.NETWORK,
    "Cd": BootDevice.CDROM,
    "Hdd": BootDevice.DISK,
    "Usb": BootDevice.REMOVABLE,
    "BiosSetup": BootDevice.SETUP,
}
_NAMES = {device: name for name, device in _TARGETS.items()}
_MODES = {Firmware.UEFI: "UEFI", Firmware.BIOS: "Legacy"}
_KINDS = {name: kind for kind, name in _MODES.items()}
LAMP: Shape = {"LocationIndicatorActive": Flag(), "IndicatorLED": OneOf(("Lit", "Off", "Blinking"))}
_RESETS = tuple(reset.value for reset in Reset)


def systems(scope: Scope) -> Json:
    seen = (id for id, chassis in scope.service.systems.items() if chassis.present() is not None)
    return collection(
        f"{ROOT}/Systems", "ComputerSystemCollection", "Computer Systems", (f"{ROOT}/Systems/{id}" for id in seen)
    )


def system(scope: Scope) -> Json:
    server = scope.chassis.server()
    memory = scope.chassis.memory
    uri = scope.system_uri
    on = server.power is Power.ON
    return {
        "@odata.id": uri,
        "@odata.type": SCHEMAS["ComputerSystem"],
        "Id": scope.id,
        "Name": server.name,
        "Description": "A virtual server",
        "SystemType": "Physical",
        "Manufacturer": VENDOR,
        "Model": "virtual server",
        "SerialNumber": str(server.uuid),
        "UUID": str(server.uuid),
        "AssetTag": memory.settings.get("asset_tag", ""),
        "BiosVersion": updates.version(memory, Component.BIOS),
        "PowerState": power_state(scope.chassis),
        "Status": {
            **status("Enabled" if on else "Starting" if scope.chassis.starting else "StandbyOffline"),
            "HealthRollup": "OK",
        },
        "PowerRestorePolicy": restore.policy(memory).value,
        **lamp(memory),
        "Boot": _boot(server, memory, uri),
        "ProcessorSummary": {
            "Count": 1,
            "CoreCount": server.vcpus,
            "LogicalProcessorCount": server.vcpus,
            "Model": "virtual processor",
        },
        "MemorySummary": {"TotalSystemMemoryGiB": server.memory_mib / 1024},
        "Processors": link(f"{uri}/Processors"),
        "Memory": link(f"{uri}/Memory"),
        "EthernetInterfaces": link(f"{uri}/EthernetInterfaces"),
        "Storage": link(f"{uri}/Storage"),
        "Bios": link(f"{uri}/Bios"),
        "SecureBoot": link(f"{uri}/SecureBoot"),
        "LogServices": link(f"{uri}/LogServices"),
        "VirtualMedia": link(f"{uri}/VirtualMedia"),
        "Links": {"Chassis": [link(scope.chassis_uri)], "ManagedBy": [link(scope.manager_uri)]},
        "Actions": {
            "#ComputerSystem.Reset": {
                "target": f"{uri}/Actions/ComputerSystem.Reset",
                "ResetType@Redfish.AllowableValues": list(_RESETS),
            },
            "#ComputerSystem.SetDefaultBootOrder": {
                "target": f"{uri}/Actions/ComputerSystem.SetDefaultBootOrder",
            },
        },
    }


def lamp(memory: BmcMemory) -> Json:
    """One lamp, which the chassis shows too."""
    lit = bool(memory.settings.get("locate"))
    return {"LocationIndicatorActive": lit, "IndicatorLED": "Lit" if lit else "Off"}


def with_lamp(memory: BmcMemory, values: Json) -> BmcMemory:
    settings: dict[str, Any] = dict(memory.settings)
    if "IndicatorLED" in values:
        settings["locate"] = values["IndicatorLED"] != "Off"
    if "LocationIndicatorActive" in values:
        settings["locate"] = values["LocationIndicatorActive"]
    return replace(memory, settings=settings)


def power_state(chassis: Chassis) -> str:
    if chassis.server().power is Power.ON:
        return "On"
    return "PoweringOn" if chassis.starting else "Off"


def _boot(server: ServerState, memory: BmcMemory, uri: str) -> Json:
    return {
        "BootSourceOverrideEnabled": memory.boot.when.value,
        "BootSourceOverrideEnabled@Redfish.AllowableValues": [when.value for when in When],
        "BootSourceOverrideTarget": _NAMES[memory.boot.device],
        "BootSourceOverrideTarget@Redfish.AllowableValues": list(_targets(server)),
        "BootSourceOverrideMode": _MODES[firmware.wished(memory, server).kind],
        "BootSourceOverrideMode@Redfish.AllowableValues": list(_modes(server)),
        "BootOrder": boot_options.order(server),
        "BootOptions": link(f"{uri}/BootOptions"),
    }


def _targets(server: ServerState) -> tuple[str, ...]:
    """Without the set-up screen where there is none. A device that is not there is left out by the firmware, not by us."""
    return tuple(name for name, device in _TARGETS.items() if device is not BootDevice.SETUP or server.setup_screen)


def _modes(server: ServerState) -> tuple[str, ...]:
    return tuple(_MODES[kind] for kind in firmware.kinds(server))


def _writable(scope: Scope) -> Shape:
    server = scope.chassis.server()
    return {
        "AssetTag": Text(64, null=True),
        **LAMP,
        "PowerRestorePolicy": OneOf(tuple(Restore)),
        "Boot": {
            "BootSourceOverrideEnabled": OneOf(tuple(When)),
            "BootSourceOverrideTarget": OneOf(_targets(server)),
            "BootSourceOverrideMode": OneOf(_modes(server)),
            "BootOrder": ListOf(OneOf(boot_options.references(server))),
        },
    }


async def change(scope: Scope, values: Json) -> Answer:
    server = scope.chassis.server()

    def changed(memory: BmcMemory) -> BmcMemory:
        settings: dict[str, Any] = dict(memory.settings)
        if "AssetTag" in values:
            settings["asset_tag"] = values["AssetTag"] or ""
        boot = values.get("Boot", {})
        memory = with_lamp(replace(memory, settings=settings, boot=override(memory.boot, boot)), values)
        if "PowerRestorePolicy" in values:
            memory = restore.with_policy(memory, Restore(values["PowerRestorePolicy"]))
        if (mode := boot.get("BootSourceOverrideMode")) is not None:
            wish = firmware.of_kind(memory, server, _KINDS[mode])
            memory = firmware.with_wish(memory, server, wish)
        return memory

    first = None
    if (order := values.get("Boot", {}).get("BootOrder")) is not None:
        first = boot_options.first_of(server, order)
    await scope.chassis.update(changed)
    if first is not None:
        await scope.chassis.boot_first_from(first)
    return None


def override(old: BootOverride, wish: Json) -> BootOverride:
    """The override after a PATCH: what is not said stays, but "Disabled" and "None" both mean that there is none."""
    when = When(wish["BootSourceOverrideEnabled"]) if "BootSourceOverrideEnabled" in wish else None
    if "BootSourceOverrideTarget" not in wish:
        return BootOverride() if when is When.DISABLED else replace(old, when=when or old.when)
    device = _TARGETS[wish["BootSourceOverrideTarget"]]
    return BootOverride() if device is None or when is When.DISABLED else BootOverride(device, when or old.when)


async def reset(scope: Scope, values: Json) -> Answer:
    await scope.chassis.reset(Reset(values["ResetType"]))
    return None


RESOURCES = (
    Resource(f"{ROOT}/Systems", systems),
    Resource(f"{ROOT}/Systems/{{system}}", system, patch=change, writable=_writable),
    Resource(
        f"{ROOT}/Systems/{{system}}/Actions/ComputerSystem.Reset",
        post=reset,
        accepts={"ResetType": Needed(OneOf(_RESETS))},
        action="ComputerSystem.Reset",
    ),
)
