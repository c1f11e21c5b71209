"""UpdateService: which firmware there is. None of it can be updated, and nothing pretends that it can."""

from __future__ import annotations

from rackless.bmc.redfish.body import Anything, Needed, Text
from rackless.bmc.redfish.messages import Json, Refusal, message, missing
from rackless.bmc.redfish.resource import ROOT, Answer, Resource, Scope, collection, link, status
from rackless.bmc.redfish.root import VENDOR, VERSION
from rackless.bmc.redfish.schemas import SCHEMAS

_SERVICE = f"{ROOT}/UpdateService"
_INVENTORY = f"{_SERVICE}/FirmwareInventory"


def service(scope: Scope) -> Json:
    return {
        "@odata.id": _SERVICE,
        "@odata.type": SCHEMAS["UpdateService"],
        "Id": "UpdateService",
        "Name": "Update Service",
        "ServiceEnabled": False,
        "Status": status("Disabled"),
        "FirmwareInventory": link(_INVENTORY),
        "Actions": {"#UpdateService.SimpleUpdate": {"target": f"{_SERVICE}/Actions/UpdateService.SimpleUpdate"}},
    }


async def simple_update(scope: Scope, values: Json) -> Answer:
    raise Refusal(400, message("ServiceDisabled", _SERVICE))


def _firmware(scope: Scope) -> dict[str, tuple[str, str]]:
    """By id: a name and what it belongs to."""
    found: dict[str, tuple[str, str]] = {}
    for id, chassis in scope.service.systems.items():
        suffix = "" if id == "1" else f"-{id}"
        found[f"BMC{suffix}"] = "BMC firmware", f"{ROOT}/Managers/{id}"
        if chassis.present() is not None:
            found[f"BIOS{suffix}"] = "System firmware", f"{ROOT}/Systems/{id}"
    return found


def inventory(scope: Scope) -> Json:
    return collection(
        _INVENTORY,
        "SoftwareInventoryCollection",
        "Firmware Inventory",
        (f"{_INVENTORY}/{id}" for id in _firmware(scope)),
    )


def firmware(scope: Scope) -> Json:
    found = _firmware(scope).get(scope.names[0])
    if found is None:
        raise missing(scope.path)
    name, owner = found
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["SoftwareInventory"],
        "Id": scope.names[0],
        "Name": name,
        "Manufacturer": VENDOR,
        "Version": VERSION,
        "Updateable": False,
        "Status": status(),
        "RelatedItem": [link(owner)],
        "RelatedItem@odata.count": 1,
    }


RESOURCES = (
    Resource(_SERVICE, service),
    Resource(
        f"{_SERVICE}/Actions/UpdateService.SimpleUpdate",
        post=simple_update,
        accepts={
            "ImageURI": Needed(Text(2048)),
            "Targets": Anything(),
            "TransferProtocol": Anything(),
            "Username": Anything(),
            "Password": Anything(),
            "ForceUpdate": Anything(),
        },
        action="UpdateService.SimpleUpdate",
    ),
    Resource(_INVENTORY, inventory),
    Resource(f"{_INVENTORY}/{{firmware}}", firmware),
)
