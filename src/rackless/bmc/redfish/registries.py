"""Registries: the words of the messages and the BIOS attributes, for clients that look them up."""

from __future__ import annotations

from rackless.bmc.redfish import bios
from rackless.bmc.redfish.messages import Json, missing
from rackless.bmc.redfish.resource import ROOT, Resource, Scope, collection
from rackless.bmc.redfish.schemas import SCHEMAS
from rackless.bmc.redfish.texts import REGISTRIES, MessageRegistry, Template

_REGISTRIES = f"{ROOT}/Registries"
_FILES = {
    **{name: f"{name}.{registry.version}" for name, registry in REGISTRIES.items()},
    bios.REGISTRY: bios.REGISTRY,
}
_FORMER_NAMES = {"BiosAttributeRegistry": bios.REGISTRY}
"""Clients look for it by the name that Bios gives, version and all; it was listed without once."""


def registries(scope: Scope) -> Json:
    return collection(
        _REGISTRIES, "MessageRegistryFileCollection", "Registries", (f"{_REGISTRIES}/{name}" for name in _FILES)
    )


def file(scope: Scope) -> Json:
    name = _FORMER_NAMES.get(scope.names[0], scope.names[0])
    if name not in _FILES:
        raise missing(scope.path)
    standard = REGISTRIES.get(name)
    location: Json = {"Language": "en", "Uri": f"{_REGISTRIES}/{name}/{_FILES[name]}.json"}
    if standard:
        location["PublicationUri"] = f"https://redfish.dmtf.org/registries/{name}.{standard.version}.json"
    return {
        "@odata.id": f"{_REGISTRIES}/{name}",
        "@odata.type": SCHEMAS["MessageRegistryFile"],
        "Id": name,
        "Name": f"{name} File",
        "Languages": ["en"],
        "Registry": f"{name}.{standard.version.rpartition('.')[0]}" if standard else bios.REGISTRY,
        "Location": [location],
    }


def content(scope: Scope) -> Json:
    name, wanted = _FORMER_NAMES.get(scope.names[0], scope.names[0]), scope.names[1]
    if wanted != f"{_FILES.get(name)}.json":
        raise missing(scope.path)
    return _render(REGISTRIES[name]) if name in REGISTRIES else bios.registry()


def _render(registry: MessageRegistry) -> Json:
    return {
        "@odata.type": "#MessageRegistry.v1_6_3.MessageRegistry",
        "Id": f"{registry.prefix}.{registry.version}",
        "Name": registry.name,
        "Description": f"The messages of DMTF's {registry.prefix} registry that this service says",
        "Language": "en",
        "OwningEntity": "DMTF",
        "RegistryPrefix": registry.prefix,
        "RegistryVersion": registry.version,
        "Messages": {key: _entry(template) for key, template in registry.messages.items()},
    }


def _entry(template: Template) -> Json:
    count = max((number for number in range(1, 4) if f"%{number}" in template.text), default=0)
    return {
        "Description": template.text,
        "Message": template.text,
        "MessageSeverity": template.severity,
        "Severity": template.severity,  # deprecated by DMTF, and what sushy reads
        "NumberOfArgs": count,
        "ParamTypes": ["string"] * count,
        "Resolution": template.resolution,
    }


RESOURCES = (
    Resource(_REGISTRIES, registries),
    Resource(f"{_REGISTRIES}/{{registry}}", file),
    Resource(f"{_REGISTRIES}/{{registry}}/{{file}}", content),
)
