"""Chassis: the box that is not there. It has no power supply, fan or sensor, and shows none."""

from __future__ import annotations

from rackless.bmc.redfish.messages import Json
from rackless.bmc.redfish.resource import ROOT, Resource, Scope, collection, link, status
from rackless.bmc.redfish.root import VENDOR
from rackless.bmc.redfish.schemas import SCHEMAS
from rackless.bmc.redfish.systems import power_state

_CHASSIS = f"{ROOT}/Chassis/{{chassis}}"


def enclosures(scope: Scope) -> Json:
    seen = (id for id, chassis in scope.service.systems.items() if chassis.present() is not None)
    return collection(f"{ROOT}/Chassis", "ChassisCollection", "Chassis", (f"{ROOT}/Chassis/{id}" for id in seen))


def enclosure(scope: Scope) -> Json:
    server = scope.chassis.server()
    return {
        "@odata.id": scope.chassis_uri,
        "@odata.type": SCHEMAS["Chassis"],
        "Id": scope.id,
        "Name": f"Chassis of {server.name}",
        "ChassisType": "RackMount",
        "Manufacturer": VENDOR,
        "Model": "virtual server",
        "SerialNumber": str(server.uuid),
        "PowerState": power_state(scope.chassis),
        "Status": status(),
        "Power": link(f"{scope.chassis_uri}/Power"),
        "Thermal": link(f"{scope.chassis_uri}/Thermal"),
        "Links": {"ComputerSystems": [link(scope.system_uri)], "ManagedBy": [link(scope.manager_uri)]},
    }


def power(scope: Scope) -> Json:
    scope.chassis.server()
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["Power"],
        "Id": "Power",
        "Name": "Power",
        "PowerControl": [
            {
                "@odata.id": f"{scope.path}#/PowerControl/0",
                "MemberId": "0",
                "Name": "System Power Control",
                "PowerConsumedWatts": None,
                "Status": {"State": "UnavailableOffline"},
            }
        ],
        "PowerControl@odata.count": 1,
        "PowerSupplies": [],
        "PowerSupplies@odata.count": 0,
    }


def thermal(scope: Scope) -> Json:
    scope.chassis.server()
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["Thermal"],
        "Id": "Thermal",
        "Name": "Thermal",
        "Temperatures": [],
        "Temperatures@odata.count": 0,
        "Fans": [],
        "Fans@odata.count": 0,
    }


RESOURCES = (
    Resource(f"{ROOT}/Chassis", enclosures),
    Resource(_CHASSIS, enclosure),
    Resource(f"{_CHASSIS}/Power", power),
    Resource(f"{_CHASSIS}/Thermal", thermal),
)
