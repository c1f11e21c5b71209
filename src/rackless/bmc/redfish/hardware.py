"""What is inside a system: processors, memory, network interfaces, storage, drives, as the server really has them."""

from __future__ import annotations

from rackless.bmc.redfish.messages import Json, missing
from rackless.bmc.redfish.resource import ROOT, Resource, Scope, collection, link, status
from rackless.bmc.redfish.root import VENDOR
from rackless.bmc.redfish.schemas import SCHEMAS
from rackless.ports.hypervisor import Disk, Firmware, Power

_SYSTEM = f"{ROOT}/Systems/{{system}}"


def processors(scope: Scope) -> Json:
    scope.chassis.server()
    return collection(scope.path, "ProcessorCollection", "Processors", [f"{scope.system_uri}/Processors/CPU1"])


def processor(scope: Scope) -> Json:
    server = scope.chassis.server()
    _only(scope, "CPU1")
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["Processor"],
        "Id": "CPU1",
        "Name": "Processor",
        "ProcessorType": "CPU",
        "ProcessorArchitecture": "x86",
        "InstructionSet": "x86-64",
        "Manufacturer": VENDOR,
        "Model": "virtual processor",
        "Socket": "CPU1",
        "TotalCores": server.vcpus,
        "TotalThreads": server.vcpus,
        "Status": status(),
        "Links": {"Chassis": link(scope.chassis_uri)},
    }


def memories(scope: Scope) -> Json:
    scope.chassis.server()
    return collection(scope.path, "MemoryCollection", "Memory", [f"{scope.system_uri}/Memory/DIMM1"])


def memory(scope: Scope) -> Json:
    server = scope.chassis.server()
    _only(scope, "DIMM1")
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["Memory"],
        "Id": "DIMM1",
        "Name": "Memory",
        "MemoryType": "DRAM",
        "CapacityMiB": server.memory_mib,
        "Manufacturer": VENDOR,
        "Status": status(),
        "Links": {"Chassis": link(scope.chassis_uri)},
    }


def interfaces(scope: Scope) -> Json:
    macs = scope.chassis.server().macs
    return collection(
        scope.path,
        "EthernetInterfaceCollection",
        "Ethernet Interfaces",
        (f"{scope.system_uri}/EthernetInterfaces/NIC{number}" for number, _ in enumerate(macs, 1)),
    )


def interface(scope: Scope) -> Json:
    server = scope.chassis.server()
    found = {f"NIC{number}": mac for number, mac in enumerate(server.macs, 1)}
    mac = found.get(scope.names[1])
    if mac is None:
        raise missing(scope.path)
    on = server.power is Power.ON
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["EthernetInterface"],
        "Id": scope.names[1],
        "Name": f"Ethernet Interface {scope.names[1]}",
        "MACAddress": mac,
        "PermanentMACAddress": mac,
        "InterfaceEnabled": True,
        "LinkStatus": "LinkUp" if on else "NoLink",
        "Status": status(),
        "Links": {"Chassis": link(scope.chassis_uri)},
    }


def storages(scope: Scope) -> Json:
    scope.chassis.server()
    return collection(scope.path, "StorageCollection", "Storage", [f"{scope.system_uri}/Storage/1"])


def storage(scope: Scope) -> Json:
    disks = scope.chassis.server().disks
    _only(scope, "1")
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["Storage"],
        "Id": "1",
        "Name": "Storage",
        "Status": {**status(), "HealthRollup": "OK"},
        "Drives": [link(f"{scope.path}/Drives/{number}") for number, _ in enumerate(disks, 1)],
        "Drives@odata.count": len(disks),
        "Links": {"Enclosures": [link(scope.chassis_uri)]},
    }


def drive(scope: Scope) -> Json:
    disks: dict[str, Disk] = {str(number): disk for number, disk in enumerate(scope.chassis.server().disks, 1)}
    disk = disks.get(scope.names[2])
    if disk is None or scope.names[1] != "1":
        raise missing(scope.path)
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["Drive"],
        "Id": scope.names[2],
        "Name": f"Drive {scope.names[2]}",
        "Manufacturer": VENDOR,
        "Model": "virtual disk",
        "SerialNumber": disk.serial,
        "CapacityBytes": disk.size_bytes,
        "MediaType": "HDD",
        "Protocol": "SAS",
        "Status": status(),
        "Links": {"Chassis": link(scope.chassis_uri)},
    }


def secure_boot(scope: Scope) -> Json:
    uefi = scope.chassis.server().firmware is Firmware.UEFI
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["SecureBoot"],
        "Id": "SecureBoot",
        "Name": "UEFI Secure Boot",
        "SecureBootEnable": False,
        "SecureBootCurrentBoot": "Disabled",
        **({"SecureBootMode": "SetupMode"} if uefi else {}),
    }


def _only(scope: Scope, id: str) -> None:
    if scope.names[1] != id:
        raise missing(scope.path)


RESOURCES = (
    Resource(f"{_SYSTEM}/Processors", processors),
    Resource(f"{_SYSTEM}/Processors/{{processor}}", processor),
    Resource(f"{_SYSTEM}/Memory", memories),
    Resource(f"{_SYSTEM}/Memory/{{memory}}", memory),
    Resource(f"{_SYSTEM}/EthernetInterfaces", interfaces),
    Resource(f"{_SYSTEM}/EthernetInterfaces/{{interface}}", interface),
    Resource(f"{_SYSTEM}/Storage", storages),
    Resource(f"{_SYSTEM}/Storage/{{storage}}", storage),
    Resource(f"{_SYSTEM}/Storage/{{storage}}/Drives/{{drive}}", drive),
    Resource(f"{_SYSTEM}/SecureBoot", secure_boot),
)
