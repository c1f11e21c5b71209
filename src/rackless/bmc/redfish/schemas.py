"""Which version of each DMTF schema is spoken, said once: for `@odata.type` and for $metadata."""

from __future__ import annotations

from functools import cache

_VERSIONS = {
    "ServiceRoot": "1_17_0",
    "ComputerSystem": "1_22_0",
    "Manager": "1_19_0",
    "Chassis": "1_25_0",
    "VirtualMedia": "1_6_3",
    "SessionService": "1_1_9",
    "Session": "1_7_0",
    "EthernetInterface": "1_12_0",
    "Processor": "1_18_0",
    "Memory": "1_19_0",
    "Storage": "1_15_0",
    "Drive": "1_17_0",
    "Bios": "1_2_0",
    "BootOption": "1_0_6",
    "SecureBoot": "1_1_0",
    "StorageController": "1_7_0",
    "AccountService": "1_15_0",
    "ManagerAccount": "1_12_0",
    "Role": "1_3_1",
    "EventService": "1_10_0",
    "EventDestination": "1_14_0",
    "TaskService": "1_2_0",
    "Task": "1_7_0",
    "UpdateService": "1_14_0",
    "SoftwareInventory": "1_10_0",
    "LogService": "1_7_0",
    "LogEntry": "1_16_0",
    "ManagerNetworkProtocol": "1_10_0",
    "Power": "1_7_0",
    "Sensor": "1_12_0",
    "Thermal": "1_7_0",
    "MessageRegistryFile": "1_1_3",
}
_COLLECTIONS = (
    "ComputerSystemCollection",
    "ManagerCollection",
    "ChassisCollection",
    "VirtualMediaCollection",
    "BootOptionCollection",
    "SessionCollection",
    "EthernetInterfaceCollection",
    "ProcessorCollection",
    "MemoryCollection",
    "StorageCollection",
    "StorageControllerCollection",
    "VolumeCollection",
    "ManagerAccountCollection",
    "RoleCollection",
    "EventDestinationCollection",
    "TaskCollection",
    "SoftwareInventoryCollection",
    "LogServiceCollection",
    "LogEntryCollection",
    "MessageRegistryFileCollection",
)
_OTHERS = (
    ("Message", "1_1_2"),
    ("Resource", "1_19_0"),
    ("Settings", "1_3_5"),
    ("Event", "1_11_0"),
    ("MessageRegistry", "1_6_3"),
    ("AttributeRegistry", "1_3_8"),
)
SCHEMAS = {name: f"#{name}.v{version}.{name}" for name, version in _VERSIONS.items()}


@cache
def metadata() -> str:
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">',
    ]
    for name, version in _VERSIONS.items():
        lines += _reference(f"{name}_v1.xml", name, f"{name}.v{version}")
    for name in _COLLECTIONS:
        lines += _reference(f"{name}_v1.xml", name)
    for name, version in _OTHERS:
        lines += _reference(f"{name}_v1.xml", name, f"{name}.v{version}")
    lines += _reference("RedfishExtensions_v1.xml", "RedfishExtensions.v1_0_0", alias="Redfish")
    lines += [
        "  <edmx:DataServices>",
        '    <Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service">',
        f'      <EntityContainer Name="Service" Extends="ServiceRoot.v{_VERSIONS["ServiceRoot"]}.ServiceContainer"/>',
        "    </Schema>",
        "  </edmx:DataServices>",
        "</edmx:Edmx>",
    ]
    return "\n".join(lines) + "\n"


def _reference(file: str, *namespaces: str, alias: str = "") -> list[str]:
    named = f' Alias="{alias}"' if alias else ""
    return [
        f'  <edmx:Reference Uri="http://redfish.dmtf.org/schemas/v1/{file}">',
        *(f'    <edmx:Include Namespace="{namespace}"{named}/>' for namespace in namespaces),
        "  </edmx:Reference>",
    ]
