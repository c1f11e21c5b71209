"""BootOptions: the devices a server can start from, and the order in which its firmware tries them.

The definition has one device first and the others in a fixed order. A PATCH with any other order is refused rather than
half kept.
"""

from __future__ import annotations

from functools import cache

from rackless.bmc.redfish.messages import Json, Refusal, message, missing
from rackless.bmc.redfish.resource import ROOT, Answer, Resource, Scope, collection
from rackless.bmc.redfish.schemas import SCHEMAS
from rackless.ports.hypervisor import BootDevice, ServerState

_OPTIONS = {
    "Boot0001": (BootDevice.DISK, "Hdd", "Hard disk"),
    "Boot0002": (BootDevice.NETWORK, "Pxe", "Network"),
    "Boot0003": (BootDevice.CDROM, "Cd", "Virtual CD"),
}
_BOOT = f"{ROOT}/Systems/{{system}}/BootOptions"


def references(server: ServerState) -> tuple[str, ...]:
    """Of the devices it has."""
    return _references(bool(server.disks), bool(server.macs))


@cache
def _references(disk: bool, network: bool) -> tuple[str, ...]:
    there = {BootDevice.DISK: disk, BootDevice.NETWORK: network, BootDevice.CDROM: True}
    return tuple(reference for reference, (device, _, _) in _OPTIONS.items() if there[device])


def order(server: ServerState, first: BootDevice | None = None) -> list[str]:
    """As it is, or as it would be with another device first."""
    return list(_order(references(server), first or server.boot_first))


@cache
def _order(references: tuple[str, ...], first: BootDevice) -> tuple[str, ...]:
    return tuple(sorted(references, key=lambda reference: _OPTIONS[reference][0] is not first))


def first_of(server: ServerState, wanted: list[str]) -> BootDevice:
    """The device that must be first for the order to be this; what is not named comes behind, as always."""
    if wanted and all(reference in references(server) for reference in wanted):
        first = _OPTIONS[wanted[0]][0]
        if order(server, first)[: len(wanted)] == wanted:
            return first
    note = "One of " + ", ".join(str(order(server, _OPTIONS[one][0])) for one in references(server)) + "."
    raise Refusal(400, message("PropertyValueError", "BootOrder", about=["#/Boot/BootOrder"], note=note))


def options(scope: Scope) -> Json:
    found = references(scope.chassis.server())
    return collection(scope.path, "BootOptionCollection", "Boot Options", (f"{scope.path}/{one}" for one in found))


def option(scope: Scope) -> Json:
    reference = scope.names[1]
    if reference not in references(scope.chassis.server()):
        raise missing(scope.path)
    _, alias, name = _OPTIONS[reference]
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["BootOption"],
        "Id": reference,
        "Name": f"Boot Option {name}",
        "BootOptionReference": reference,
        "DisplayName": name,
        "BootOptionEnabled": True,
        "Alias": alias,
    }


async def set_default(scope: Scope, values: Json) -> Answer:
    await scope.chassis.boot_first_from(BootDevice.DISK)
    return None


RESOURCES = (
    Resource(_BOOT, options),
    Resource(f"{_BOOT}/{{option}}", option),
    Resource(
        f"{ROOT}/Systems/{{system}}/Actions/ComputerSystem.SetDefaultBootOrder",
        post=set_default,
        accepts={},
        action="ComputerSystem.SetDefaultBootOrder",
    ),
)
