"""VirtualMedia: the CD drive, under the system and, for older clients, under the manager. One drive, two addresses."""

from __future__ import annotations

from dataclasses import replace

from rackless.bmc.core.media import FetchFailed
from rackless.bmc.core.state import BmcMemory
from rackless.bmc.redfish.body import Flag, Needed, OneOf, Shape, Text
from rackless.bmc.redfish.messages import Json, Refusal, message, missing
from rackless.bmc.redfish.resource import ROOT, Answer, Resource, Scope, collection
from rackless.bmc.redfish.schemas import SCHEMAS
from rackless.bmc.redfish.tasks import accept

_INSERT: Shape = {
    "Image": Needed(Text(2048)),
    "Inserted": Flag(),
    "WriteProtected": Flag(),
    "TransferProtocolType": OneOf(("HTTP", "HTTPS")),
    "TransferMethod": OneOf(("Stream", "Upload")),
    "MediaType": OneOf(("CD", "DVD")),
    "UserName": Text(null=True),
    "Password": Text(null=True),
}
_PATCH: Shape = {
    "Image": Text(2048, null=True),
    "Inserted": Flag(),
    "WriteProtected": Flag(null=True),
    "UserName": Text(null=True),
    "Password": Text(null=True),
    "VerifyCertificate": Flag(null=True),
    "TransferProtocolType": OneOf(("HTTP", "HTTPS"), null=True),
    "TransferMethod": OneOf(("Stream", "Upload"), null=True),
}


def drives(scope: Scope) -> Json:
    scope.chassis.server()
    return collection(scope.path, "VirtualMediaCollection", "Virtual Media", [f"{scope.path}/Cd"])


def drive(scope: Scope) -> Json:
    if scope.names[1] != "Cd":
        raise missing(scope.path)
    found = scope.chassis.drive()
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["VirtualMedia"],
        "Id": "Cd",
        "Name": "Virtual CD",
        "MediaTypes": ["CD", "DVD"],
        "Image": found.url,
        "ImageName": _name(found.url) or (found.file.name if found.file else None),
        "Inserted": found.inserted,
        "WriteProtected": True,
        "ConnectedVia": "URI" if found.inserted else "NotConnected",
        "UserName": found.username,
        "Password": None,
        "TransferMethod": "Upload" if found.inserted else None,
        "TransferProtocolType": _protocol(found.url),
        "VerifyCertificate": _verify(scope.chassis.memory),
        "Actions": {
            "#VirtualMedia.InsertMedia": {
                "target": f"{scope.path}/Actions/VirtualMedia.InsertMedia",
                "TransferProtocolType@Redfish.AllowableValues": ["HTTP", "HTTPS"],
            },
            "#VirtualMedia.EjectMedia": {"target": f"{scope.path}/Actions/VirtualMedia.EjectMedia"},
        },
    }


def _name(url: str | None) -> str | None:
    return url.partition("?")[0].rpartition("/")[2] or url if url else None


def _protocol(url: str | None) -> str | None:
    return {"http": "HTTP", "https": "HTTPS"}.get((url or "").partition(":")[0].lower())


def _verify(memory: BmcMemory) -> bool:
    return bool(memory.settings.get("verify_media", True))


async def insert(scope: Scope, values: Json) -> Answer:
    drive(scope)
    if values.get("WriteProtected") is False:
        raise Refusal(400, message("PropertyValueConflict", "WriteProtected", "MediaTypes"))
    if scope.patient:
        await _insert(scope, values)
        return None
    return accept(scope.service.tasks.start("Insert Media", _insert(scope, values)))


async def _insert(scope: Scope, values: Json) -> None:
    try:
        await scope.chassis.insert(
            values["Image"],
            username=values.get("UserName"),
            password=values.get("Password"),
            verify=_verify(scope.chassis.memory),
        )
    except FetchFailed as failure:
        raise refusal_of(failure) from failure


async def eject(scope: Scope, values: Json) -> Answer:
    drive(scope)
    await scope.chassis.eject()
    return None


async def change(scope: Scope, values: Json) -> Answer:
    """Older clients insert and eject by PATCH: an Image is inserted, a null Image or Inserted false ejects."""
    if values.get("VerifyCertificate") is not None:
        verify = values["VerifyCertificate"]
        await scope.chassis.update(lambda memory: replace(memory, settings={**memory.settings, "verify_media": verify}))
    if values.get("Image") and values.get("Inserted", True):
        await insert(scope, values)
    elif ("Image" in values and values["Image"] is None) or values.get("Inserted") is False:
        await scope.chassis.eject()
    elif values.get("Inserted") and not scope.chassis.drive().inserted:
        raise Refusal(400, message("PropertyMissing", "Image", about=["#/Image"]))
    return None


def refusal_of(failure: FetchFailed) -> Refusal:
    url, why = failure.url, failure.why
    match failure.kind:
        case "unsupported":
            return Refusal(400, message("SourceDoesNotSupportProtocol", url, url.partition(":")[0], note=why))
        case "missing":
            return Refusal(400, message("ResourceMissingAtURI", url, note=why))
        case "unauthorized":
            return Refusal(400, message("ResourceAtUriUnauthorized", url, why))
        case "space":
            return Refusal(507, message("ResourceExhaustion", "media storage", note=why))
        case "busy":
            return Refusal(503, message("ResourceInUse", note=why), headers={"Retry-After": "10"})
        case "unusable":
            return Refusal(400, message("ResourceAtUriInUnknownFormat", url, note=why))
        case _:
            return Refusal(400, message("CouldNotEstablishConnection", url, note=why))


def _resources(parent: str) -> tuple[Resource, ...]:
    media = f"{parent}/VirtualMedia"
    return (
        Resource(media, drives),
        Resource(f"{media}/{{media}}", drive, patch=change, writable=_PATCH, fetches=True),
        Resource(
            f"{media}/{{media}}/Actions/VirtualMedia.InsertMedia",
            post=insert,
            accepts=_INSERT,
            action="VirtualMedia.InsertMedia",
        ),
        Resource(
            f"{media}/{{media}}/Actions/VirtualMedia.EjectMedia",
            post=eject,
            accepts={},
            action="VirtualMedia.EjectMedia",
        ),
    )


RESOURCES = (*_resources(f"{ROOT}/Systems/{{system}}"), *_resources(f"{ROOT}/Managers/{{manager}}"))
