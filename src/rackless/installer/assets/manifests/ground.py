"""What must be there before any other manifest: namespaces, and the definitions of kinds."""

from __future__ import annotations

from rackless.installer.assets.asset import Asset, Given, Parts, as_is
from rackless.installer.assets.documents import render
from rackless.installer.assets.manifests.checking import mistakes
from rackless.installer.assets.manifests.definitions import DEFINITIONS
from rackless.installer.assets.manifests.objects import MACHINE_API, MACHINE_CONFIG, thing

NAMESPACES = ("openshift-config", "openshift-etcd", MACHINE_API, MACHINE_CONFIG)
_NAMESPACES = "manifests/00_namespaces.yaml"
_DEFINITIONS = "manifests/00_definitions.yaml"


def _make_namespaces(given: Given) -> Parts:
    return {_NAMESPACES: render(*(thing("v1", "Namespace", name) for name in NAMESPACES))}


def _make_definitions(given: Given) -> Parts:
    return {_DEFINITIONS: render(*DEFINITIONS)}


NAMESPACE_MANIFESTS = Asset(
    "namespace-manifests", "Namespaces", _make_namespaces, as_is, files=(_NAMESPACES,), check=mistakes
)
DEFINITION_MANIFESTS = Asset(
    "definition-manifests", "Definitions", _make_definitions, as_is, files=(_DEFINITIONS,), check=mistakes
)
