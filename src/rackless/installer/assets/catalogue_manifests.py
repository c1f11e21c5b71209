"""The assets that are manifests, in the order in which they are applied; what people add comes last."""

from __future__ import annotations

from typing import Any

from rackless.installer.assets.asset import Asset
from rackless.installer.assets.manifests.cluster import CLUSTER_MANIFESTS
from rackless.installer.assets.manifests.ground import DEFINITION_MANIFESTS, NAMESPACE_MANIFESTS
from rackless.installer.assets.manifests.machine_configs import EXTRA_MANIFESTS, MACHINE_CONFIG_MANIFESTS
from rackless.installer.assets.manifests.machines import (
    HOST_MANIFESTS,
    MACHINE_MANIFESTS,
    MACHINE_SET_MANIFESTS,
    PROVISIONING_MANIFEST,
    USER_DATA_MANIFESTS,
)
from rackless.installer.assets.manifests.trust import (
    ACCESS_MANIFESTS,
    FENCING_MANIFESTS,
    TRUST_MANIFESTS,
)

ALL_MANIFESTS: tuple[Asset[Any], ...] = (
    NAMESPACE_MANIFESTS, DEFINITION_MANIFESTS, CLUSTER_MANIFESTS, TRUST_MANIFESTS, ACCESS_MANIFESTS,
    PROVISIONING_MANIFEST, HOST_MANIFESTS, USER_DATA_MANIFESTS, MACHINE_MANIFESTS, MACHINE_SET_MANIFESTS,
    FENCING_MANIFESTS, MACHINE_CONFIG_MANIFESTS, EXTRA_MANIFESTS,
)  # fmt: skip
