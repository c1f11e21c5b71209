"""Bios: the setup attributes in force, those that wait for the next start, and the registry that explains them."""

from __future__ import annotations

from rackless.bmc.core import bios
from rackless.bmc.redfish.body import Kind, OneOf, Shape
from rackless.bmc.redfish.messages import Json
from rackless.bmc.redfish.resource import ROOT, Answer, Resource, Scope, link
from rackless.bmc.redfish.root import VERSION
from rackless.bmc.redfish.schemas import SCHEMAS

REGISTRY = "BiosAttributeRegistry.v1_0_0"
_BIOS = f"{ROOT}/Systems/{{system}}/Bios"


def attributes(scope: Scope) -> Json:
    server = scope.chassis.server()
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["Bios"],
        "Id": "Bios",
        "Name": "BIOS Attributes",
        "AttributeRegistry": REGISTRY,
        "Attributes": bios.current(scope.chassis.memory, server),
        "@Redfish.Settings": {
            "@odata.type": "#Settings.v1_3_5.Settings",
            "SettingsObject": link(f"{scope.path}/Settings"),
            "SupportedApplyTimes": ["OnReset"],
        },
        "Actions": {"#Bios.ResetBios": {"target": f"{scope.path}/Actions/Bios.ResetBios"}},
    }


def settings(scope: Scope) -> Json:
    server = scope.chassis.server()
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["Bios"],
        "Id": "Settings",
        "Name": "BIOS Attributes of the Next Start",
        "AttributeRegistry": REGISTRY,
        "Attributes": bios.coming(scope.chassis.memory, server),
    }


def _writable(scope: Scope) -> Shape:
    kinds: dict[str, Kind] = {name: OneOf(values) for name, values in bios.writable(scope.chassis.server()).items()}
    return {"Attributes": kinds}


async def wish(scope: Scope, values: Json) -> Answer:
    server = scope.chassis.server()
    await scope.chassis.update(lambda memory: bios.with_wishes(memory, server, values["Attributes"]))
    return None


async def reset(scope: Scope, values: Json) -> Answer:
    await scope.chassis.update(bios.reset)
    return None


def registry() -> Json:
    return {
        "@odata.type": "#AttributeRegistry.v1_3_8.AttributeRegistry",
        "Id": REGISTRY,
        "Name": "BIOS Attribute Registry",
        "Language": "en",
        "OwningEntity": "rackless",
        "RegistryVersion": "1.0.0",
        "SupportedSystems": [{"ProductName": "virtual server", "FirmwareVersion": VERSION}],
        "RegistryEntries": {
            "Attributes": [
                {
                    "AttributeName": attribute.name,
                    "DisplayName": attribute.title,
                    "ReadOnly": not attribute.values,
                    "ResetRequired": bool(attribute.values),
                    **_type(attribute),
                }
                for attribute in bios.ATTRIBUTES
            ]
        },
    }


def _type(attribute: bios.Attribute) -> Json:
    if not attribute.values:
        return {"Type": "Integer"}
    values = [{"ValueName": value, "ValueDisplayName": value} for value in attribute.values]
    return {"Type": "Enumeration", "DefaultValue": attribute.default, "Value": values}


RESOURCES = (
    Resource(_BIOS, attributes),
    Resource(f"{_BIOS}/Settings", settings, patch=wish, writable=_writable),
    Resource(f"{_BIOS}/Actions/Bios.ResetBios", post=reset, accepts={}, action="Bios.ResetBios"),
)
