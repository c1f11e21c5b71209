"""Managers: the BMC itself."""

from __future__ import annotations

from datetime import UTC, datetime

from rackless.bmc.redfish.messages import Json
from rackless.bmc.redfish.resource import ROOT, Resource, Scope, collection, link, status
from rackless.bmc.redfish.root import VENDOR, VERSION
from rackless.bmc.redfish.schemas import SCHEMAS


def managers(scope: Scope) -> Json:
    return collection(
        f"{ROOT}/Managers", "ManagerCollection", "Managers", (f"{ROOT}/Managers/{id}" for id in scope.service.systems)
    )


def manager(scope: Scope) -> Json:
    uri = scope.manager_uri
    name = scope.chassis.name
    return {
        "@odata.id": uri,
        "@odata.type": SCHEMAS["Manager"],
        "Id": scope.id,
        "Name": f"BMC of {name}",
        "ManagerType": "BMC",
        "Manufacturer": VENDOR,
        "Model": "rackless BMC",
        "FirmwareVersion": VERSION,
        "UUID": str(scope.service.manager_uuid(scope.id)),
        "ServiceEntryPointUUID": str(scope.service.uuid),
        "DateTime": datetime.now(UTC).isoformat(timespec="seconds"),
        "DateTimeLocalOffset": "+00:00",
        "PowerState": "On",
        "Status": status(),
        "VirtualMedia": link(f"{uri}/VirtualMedia"),
        "Links": {
            "ManagerForServers": [link(scope.system_uri)],
            "ManagerForChassis": [link(scope.chassis_uri)],
            "ManagerInChassis": link(scope.chassis_uri),
        },
    }


RESOURCES = (
    Resource(f"{ROOT}/Managers", managers),
    Resource(f"{ROOT}/Managers/{{manager}}", manager),
)
