"""metadata.json: what must be known of a cluster to take it away again."""

from __future__ import annotations

from rackless.installer.assets.asset import Asset, Given, Parts, as_is
from rackless.installer.assets.documents import render_json
from rackless.installer.assets.install_config import INSTALL_CONFIG
from rackless.installer.assets.names import CLUSTER_ID, NAMES

FILE = "metadata.json"


def _make(given: Given) -> Parts:
    metal, identity = given.of(INSTALL_CONFIG).metal, given.of(CLUSTER_ID)
    assert metal is not None
    found = {
        "clusterName": given.of(NAMES).cluster,
        "clusterID": identity.cluster,
        "infraID": identity.infra,
        "baremetal": {
            "libvirtURI": metal.libvirt_uri,
            "bootstrapProvisioningIP": metal.bootstrap_ip,
            "provisioningHostIP": metal.cluster_ip,
        },
    }
    return {FILE: render_json(found)}


METADATA = Asset("metadata", "Metadata", _make, as_is, (INSTALL_CONFIG, NAMES, CLUSTER_ID), files=(FILE,))
