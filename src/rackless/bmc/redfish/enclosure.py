"""Chassis: the box that is not there."""

from __future__ import annotations

from rackless.bmc.redfish.messages import Json
from rackless.bmc.redfish.resource import ROOT, Resource, Scope, collection, link, status
from rackless.bmc.redfish.root import VENDOR
from rackless.bmc.redfish.schemas import SCHEMAS
from rackless.ports.hypervisor import Power


def enclosures(scope: Scope) -> Json:
    return collection(
        f"{ROOT}/Chassis", "ChassisCollection", "Chassis", (f"{ROOT}/Chassis/{id}" for id in scope.service.systems)
    )


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
        "PowerState": "On" if server.power is Power.ON else "Off",
        "Status": status(),
        "Links": {"ComputerSystems": [link(scope.system_uri)], "ManagedBy": [link(scope.manager_uri)]},
    }


RESOURCES = (
    Resource(f"{ROOT}/Chassis", enclosures),
    Resource(f"{ROOT}/Chassis/{{chassis}}", enclosure),
)
