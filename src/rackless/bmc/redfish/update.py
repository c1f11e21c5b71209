"""UpdateService: which firmware there is, and updates of it, of which only the version is real (`updates`)."""

from __future__ import annotations

from dataclasses import dataclass

from rackless.bmc.core import updates
from rackless.bmc.core.chassis import Chassis
from rackless.bmc.core.media import FetchFailed
from rackless.bmc.core.updates import Component
from rackless.bmc.redfish.body import Anything, ListOf, Needed, OneOf, Text
from rackless.bmc.redfish.media import refusal_of
from rackless.bmc.redfish.messages import Json, Refusal, message, missing
from rackless.bmc.redfish.resource import ROOT, Answer, Resource, Scope, collection, link, status
from rackless.bmc.redfish.root import VENDOR
from rackless.bmc.redfish.schemas import SCHEMAS
from rackless.bmc.redfish.tasks import accept

_SERVICE = f"{ROOT}/UpdateService"
_INVENTORY = f"{_SERVICE}/FirmwareInventory"
_UPDATE = "UpdateService.SimpleUpdate"
_PROTOCOLS = ("HTTP", "HTTPS")


@dataclass(frozen=True, slots=True)
class _Firmware:
    component: Component
    chassis: Chassis
    owner: str


def service(scope: Scope) -> Json:
    return {
        "@odata.id": _SERVICE,
        "@odata.type": SCHEMAS["UpdateService"],
        "Id": "UpdateService",
        "Name": "Update Service",
        "ServiceEnabled": True,
        "Status": status(),
        "FirmwareInventory": link(_INVENTORY),
        "Actions": {
            f"#{_UPDATE}": {
                "target": f"{_SERVICE}/Actions/{_UPDATE}",
                "TransferProtocol@Redfish.AllowableValues": list(_PROTOCOLS),
            }
        },
    }


async def simple_update(scope: Scope, values: Json) -> Answer:
    found = _targets(scope, values)
    return accept(scope.service.tasks.start("Update Firmware", _update(found, values)))


def _targets(scope: Scope, values: Json) -> list[_Firmware]:
    """Firmware, or what has it: a server has its own, a manager the BMC's. Without a word the image's name decides."""
    known = _firmware(scope)
    wanted = values.get("Targets") or []
    if not wanted:
        if len(scope.service.systems) != 1:
            raise Refusal(400, message("ActionParameterMissing", _UPDATE, "Targets", about=["#/Targets"]))
        component = Component.BMC if "bmc" in _name(values["ImageURI"]).lower() else Component.BIOS
        return [one for one in known.values() if one.component is component]
    found = []
    for target in wanted:
        uri = target.rstrip("/")
        match = [one for id, one in known.items() if uri in (f"{_INVENTORY}/{id}", one.owner)]
        if not match:
            raise Refusal(
                400, message("ActionParameterValueNotInList", target, "Targets", _UPDATE, about=["#/Targets"])
            )
        found += match
    return found


async def _update(wanted: list[_Firmware], values: Json) -> None:
    for one in wanted:
        try:
            await one.chassis.update_firmware(
                one.component,
                values["ImageURI"],
                _name(values["ImageURI"]),
                username=values.get("Username"),
                password=values.get("Password"),
            )
        except FetchFailed as failure:
            raise refusal_of(failure) from failure


def _name(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def _firmware(scope: Scope) -> dict[str, _Firmware]:
    """By id."""
    found: dict[str, _Firmware] = {}
    for id, chassis in scope.service.systems.items():
        suffix = "" if id == "1" else f"-{id}"
        found[f"BMC{suffix}"] = _Firmware(Component.BMC, chassis, f"{ROOT}/Managers/{id}")
        if chassis.present() is not None:
            found[f"BIOS{suffix}"] = _Firmware(Component.BIOS, chassis, f"{ROOT}/Systems/{id}")
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
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["SoftwareInventory"],
        "Id": scope.names[0],
        "Name": "BMC firmware" if found.component is Component.BMC else "System firmware",
        "Manufacturer": VENDOR,
        "Version": updates.version(found.chassis.memory, found.component),
        "Updateable": True,
        "Status": status(),
        "RelatedItem": [link(found.owner)],
        "RelatedItem@odata.count": 1,
    }


RESOURCES = (
    Resource(_SERVICE, service),
    Resource(
        f"{_SERVICE}/Actions/{_UPDATE}",
        post=simple_update,
        accepts={
            "ImageURI": Needed(Text(2048)),
            "Targets": ListOf(Text(1024)),
            "TransferProtocol": OneOf(_PROTOCOLS),
            "Username": Text(null=True),
            "Password": Text(null=True),
            "ForceUpdate": Anything(),
        },
        action=_UPDATE,
    ),
    Resource(_INVENTORY, inventory),
    Resource(f"{_INVENTORY}/{{firmware}}", firmware),
)
