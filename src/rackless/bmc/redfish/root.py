"""The way in: /redfish, the service root, OData's service document and metadata. All readable without login."""

from __future__ import annotations

from rackless import __version__
from rackless.bmc.redfish import query
from rackless.bmc.redfish.messages import Json
from rackless.bmc.redfish.resource import ROOT, Resource, Scope, link
from rackless.bmc.redfish.schemas import SCHEMAS, metadata

_READABLE = frozenset({"GET", "HEAD"})
VENDOR = "rackless"
VERSION = __version__

_ENTRIES = {
    "Systems": "Systems",
    "Managers": "Managers",
    "Chassis": "Chassis",
    "SessionService": "SessionService",
}


def versions(scope: Scope) -> Json:
    return {"v1": f"{ROOT}/"}


def root(scope: Scope) -> Json:
    return {
        "@odata.id": f"{ROOT}/",
        "@odata.type": SCHEMAS["ServiceRoot"],
        "Id": "RootService",
        "Name": "Root Service",
        "RedfishVersion": "1.20.0",
        "UUID": str(scope.service.uuid),
        "Vendor": VENDOR,
        "Product": "rackless BMC",
        "ProtocolFeaturesSupported": {
            "ExcerptQuery": False,
            "ExpandQuery": {
                "ExpandAll": True,
                "Levels": True,
                "Links": True,
                "NoLinks": True,
                "MaxLevels": query.MAX_LEVELS,
            },
            "FilterQuery": False,
            "OnlyMemberQuery": True,
            "SelectQuery": True,
            "TopSkipQuery": True,
            "DeepOperations": {"DeepPATCH": False, "DeepPOST": False},
        },
        **{name: link(f"{ROOT}/{path}") for name, path in _ENTRIES.items()},
        "Links": {"Sessions": link(f"{ROOT}/SessionService/Sessions")},
    }


def odata(scope: Scope) -> Json:
    entries = {"Service": "", **_ENTRIES, "Sessions": "SessionService/Sessions"}
    return {
        "@odata.context": f"{ROOT}/$metadata",
        "value": [{"name": name, "kind": "Singleton", "url": f"{ROOT}/{path}"} for name, path in entries.items()],
    }


RESOURCES = (
    Resource("/redfish", versions, public=_READABLE),
    Resource(ROOT, root, public=_READABLE),
    Resource(f"{ROOT}/odata", odata, public=_READABLE),
    Resource(f"{ROOT}/$metadata", lambda _: {"text": metadata()}, public=_READABLE, media_type="application/xml"),
)
