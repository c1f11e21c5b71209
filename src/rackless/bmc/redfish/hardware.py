"""What is inside a system: processors, memory, network interfaces, storage, drives, as the server really has them."""

from __future__ import annotations

from rackless.bmc.core import firmware
from rackless.bmc.core.state import BmcMemory
from rackless.bmc.redfish.body import Anything, Flag
from rackless.bmc.redfish.messages import Json, Refusal, message, missing
from rackless.bmc.redfish.resource import ROOT, Answer, Resource, Scope, collection, link, status
from rackless.bmc.redfish.root import VENDOR
from rackless.bmc.redfish.schemas import SCHEMAS
from rackless.ports.hypervisor import Disk, Firmware, FirmwareChoice, Power

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
        "Controllers": link(f"{scope.path}/Controllers"),
        "Volumes": link(f"{scope.path}/Volumes"),
        "Links": {"Enclosures": [link(scope.chassis_uri)]},
    }


def controllers(scope: Scope) -> Json:
    scope.chassis.server()
    _only(scope, "1")
    return collection(scope.path, "StorageControllerCollection", "Storage Controllers", [f"{scope.path}/1"])


def controller(scope: Scope) -> Json:
    scope.chassis.server()
    if scope.names[1:] != ("1", "1"):
        raise missing(scope.path)
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["StorageController"],
        "Id": "1",
        "Name": "Storage Controller",
        "Manufacturer": VENDOR,
        "Model": "virtual SCSI controller",
        "SupportedDeviceProtocols": ["SAS"],
        "SupportedRAIDTypes": [],
        "Status": status(),
    }


def volumes(scope: Scope) -> Json:
    """There is no RAID: the drives are the volumes."""
    scope.chassis.server()
    _only(scope, "1")
    return {
        **collection(scope.path, "VolumeCollection", "Volumes", []),
        "@Redfish.OperationApplyTimeSupport": {
            "@odata.type": "#Settings.v1_3_5.OperationApplyTimeSupport",
            "SupportedValues": ["Immediate"],
        },
    }


async def make_volume(scope: Scope, values: Json) -> Answer:
    """Clients of RAID controllers look whether they may ask; there is room for none."""
    volumes(scope)
    raise Refusal(400, message("CreateLimitReachedForResource", note="This controller has no RAID."))


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
    server = scope.chassis.server()
    on = server.secure_boot
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["SecureBoot"],
        "Id": "SecureBoot",
        "Name": "UEFI Secure Boot",
        "SecureBootEnable": firmware.wished(scope.chassis.memory, server).secure_boot,
        "SecureBootCurrentBoot": "Enabled" if on else "Disabled",
        **({"SecureBootMode": "UserMode" if on else "SetupMode"} if server.firmware is Firmware.UEFI else {}),
    }


async def change_secure_boot(scope: Scope, values: Json) -> Answer:
    """From the next start on. Only firmware with keys in it can insist on them."""
    server, wish = scope.chassis.server(), bool(values["SecureBootEnable"])
    if wish and not firmware.can_be_secure(server):
        note = "This server has no firmware that can do it: it needs a q35 machine, and OVMF with secure boot."
        raise Refusal(400, message("PropertyValueConflict", "SecureBootEnable", "BootSourceOverrideMode", note=note))

    def changed(memory: BmcMemory) -> BmcMemory:
        now = firmware.wished(memory, server)
        kind = Firmware.UEFI if wish else now.kind
        return firmware.with_wish(memory, server, FirmwareChoice(kind, secure_boot=wish))

    await scope.chassis.update(changed)
    return None


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
    Resource(f"{_SYSTEM}/Storage/{{storage}}/Controllers", controllers),
    Resource(f"{_SYSTEM}/Storage/{{storage}}/Controllers/{{controller}}", controller),
    Resource(
        f"{_SYSTEM}/Storage/{{storage}}/Volumes",
        volumes,
        post=make_volume,
        accepts={"RAIDType": Anything(), "Links": Anything()},
    ),
    Resource(f"{_SYSTEM}/SecureBoot", secure_boot, patch=change_secure_boot, writable={"SecureBootEnable": Flag()}),
)
