"""Managers: the BMC itself, its address and its protocols."""

from __future__ import annotations

from datetime import UTC, datetime

from rackless.bmc.core import updates
from rackless.bmc.core.log import LogKind
from rackless.bmc.core.updates import Component
from rackless.bmc.redfish.body import OneOf
from rackless.bmc.redfish.messages import Json, missing
from rackless.bmc.redfish.resource import ROOT, Answer, Resource, Scope, collection, link, status
from rackless.bmc.redfish.root import VENDOR
from rackless.bmc.redfish.schemas import SCHEMAS

_MANAGER = f"{ROOT}/Managers/{{manager}}"
_RESETS = ("GracefulRestart", "ForceRestart")


def managers(scope: Scope) -> Json:
    return collection(
        f"{ROOT}/Managers", "ManagerCollection", "Managers", (f"{ROOT}/Managers/{id}" for id in scope.service.systems)
    )


def manager(scope: Scope) -> Json:
    uri = scope.manager_uri
    server = scope.chassis.present()  # while the hypervisor is away nobody knows what is managed: 503
    return {
        "@odata.id": uri,
        "@odata.type": SCHEMAS["Manager"],
        "Id": scope.id,
        "Name": f"BMC of {scope.chassis.name}",
        "ManagerType": "BMC",
        "Manufacturer": VENDOR,
        "Model": "rackless BMC",
        "FirmwareVersion": updates.version(scope.chassis.memory, Component.BMC),
        "UUID": str(scope.service.manager_uuid(scope.id)),
        "ServiceEntryPointUUID": str(scope.service.uuid),
        "DateTime": datetime.now(UTC).isoformat(timespec="seconds"),
        "DateTimeLocalOffset": "+00:00",
        "PowerState": "On",
        "Status": status(),
        "EthernetInterfaces": link(f"{uri}/EthernetInterfaces"),
        "NetworkProtocol": link(f"{uri}/NetworkProtocol"),
        "LogServices": link(f"{uri}/LogServices"),
        **({"VirtualMedia": link(f"{uri}/VirtualMedia")} if server else {}),
        "Links": {
            "ManagerForServers": [link(scope.system_uri)] if server else [],
            "ManagerForServers@odata.count": 1 if server else 0,
            "ManagerForChassis": [link(scope.chassis_uri)] if server else [],
            "ManagerForChassis@odata.count": 1 if server else 0,
            **({"ManagerInChassis": link(scope.chassis_uri)} if server else {}),
        },
        "Actions": {
            "#Manager.Reset": {
                "target": f"{uri}/Actions/Manager.Reset",
                "ResetType@Redfish.AllowableValues": list(_RESETS),
            }
        },
    }


def interfaces(scope: Scope) -> Json:
    scope.chassis  # noqa: B018 - says 404 when there is no such manager
    return collection(scope.path, "EthernetInterfaceCollection", "Ethernet Interfaces", [f"{scope.path}/1"])


def interface(scope: Scope) -> Json:
    address = scope.chassis.address
    if scope.names[1] != "1":
        raise missing(scope.path)
    six = ":" in address
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["EthernetInterface"],
        "Id": "1",
        "Name": "Management Interface",
        "InterfaceEnabled": True,
        "LinkStatus": "LinkUp",
        "HostName": f"bmc-{scope.chassis.name}",
        "Status": status(),
        "IPv4Addresses": [] if six else [{"Address": address, "AddressOrigin": "Static"}],
        "IPv6Addresses": [{"Address": address, "AddressOrigin": "Static"}] if six else [],
    }


def protocol(scope: Scope) -> Json:
    service = scope.service
    ipmi = service.ipmi_port(scope.chassis.name)
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["ManagerNetworkProtocol"],
        "Id": "NetworkProtocol",
        "Name": "Manager Network Protocol",
        "HostName": f"bmc-{scope.chassis.name}",
        "Status": status(),
        "HTTP": {"ProtocolEnabled": not service.tls, "Port": 80 if service.tls else service.port},
        "HTTPS": {"ProtocolEnabled": service.tls, "Port": service.port if service.tls else 443},
        "IPMI": {"ProtocolEnabled": ipmi is not None, "Port": ipmi or 623},
    }


async def reset(scope: Scope, values: Json) -> Answer:
    """A BMC that restarts forgets who is logged in; the server does not notice."""
    scope.chassis  # noqa: B018
    for session in scope.service.accounts.sessions():
        scope.service.accounts.close_session(session.id)
    scope.service.log.add(LogKind.CHANGED, "The BMC was reset; all sessions are closed.")
    return None


RESOURCES = (
    Resource(f"{ROOT}/Managers", managers),
    Resource(_MANAGER, manager),
    Resource(f"{_MANAGER}/EthernetInterfaces", interfaces),
    Resource(f"{_MANAGER}/EthernetInterfaces/{{interface}}", interface),
    Resource(f"{_MANAGER}/NetworkProtocol", protocol),
    Resource(
        f"{_MANAGER}/Actions/Manager.Reset",
        post=reset,
        accepts={"ResetType": OneOf(_RESETS)},
        action="Manager.Reset",
        privilege="ConfigureManager",
    ),
)
