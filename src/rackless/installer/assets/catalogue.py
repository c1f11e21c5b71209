"""The targets that can be asked for, in the order in which one leads to the next."""

from __future__ import annotations

from rackless.installer.assets.bootstrap import BOOTSTRAP_CONFIG
from rackless.installer.assets.catalogue_manifests import ALL_MANIFESTS
from rackless.installer.assets.certificates import ADMIN_KUBECONFIG
from rackless.installer.assets.graph import AssetTarget, Graph
from rackless.installer.assets.install_config import INSTALL_CONFIG
from rackless.installer.assets.metadata import METADATA
from rackless.installer.assets.pointers import POINTERS

GRAPH = Graph((
    AssetTarget("install-config", "Install-Config", (INSTALL_CONFIG,)),
    AssetTarget("manifests", "Manifests", ALL_MANIFESTS),
    AssetTarget("ignition-configs", "Ignition-Configs", (ADMIN_KUBECONFIG, POINTERS, BOOTSTRAP_CONFIG, METADATA)),
))  # fmt: skip
