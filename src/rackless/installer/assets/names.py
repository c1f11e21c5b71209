"""Who a cluster is: its names and addresses, narrowed from the install-config, and the ids invented for it.

What is made of the names alone (certificates, ids) is not made anew when somebody adds a worker.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import asdict, dataclass
from uuid import UUID

from rackless.installer.assets.asset import Asset, Given, Parts, only
from rackless.installer.assets.install_config import INSTALL_CONFIG

API_PORT = 6443
MACHINE_CONFIG_PORT = 22623
_NAME_PART, _INVENTED = 21, 5
"""Letters of the cluster's name in its infrastructure id, and invented ones behind: 27 in all, as every cloud takes them."""
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels, so that no word comes of it."""


@dataclass(frozen=True, slots=True)
class ClusterNames:
    cluster: str
    base_domain: str
    api_vips: tuple[str, ...]
    ingress_vips: tuple[str, ...]

    @property
    def domain(self) -> str:
        return f"{self.cluster}.{self.base_domain}"

    @property
    def api(self) -> str:
        return f"api.{self.domain}"

    @property
    def api_internal(self) -> str:
        return f"api-int.{self.domain}"

    @property
    def api_url(self) -> str:
        return f"https://{self.api}:{API_PORT}"

    @property
    def machine_config_url(self) -> str:
        """By address: a host that boots for the first time may have no name server that knows the cluster."""
        vip = self.api_vips[0]
        return f"https://{f'[{vip}]' if ':' in vip else vip}:{MACHINE_CONFIG_PORT}"


def _make_names(given: Given) -> Parts:
    config = given.of(INSTALL_CONFIG)
    assert config.metal is not None
    base = config.base_domain.removesuffix(".")
    return {
        "names": json.dumps(asdict(ClusterNames(config.name, base, config.metal.api_vips, config.metal.ingress_vips)))
    }


def _read_names(parts: Parts) -> ClusterNames:
    found = json.loads(only(parts))
    return ClusterNames(found["cluster"], found["base_domain"], tuple(found["api_vips"]), tuple(found["ingress_vips"]))


NAMES = Asset("names", "Names", _make_names, _read_names, (INSTALL_CONFIG,))


@dataclass(frozen=True, slots=True)
class ClusterId:
    infra: str
    """Part of the name of every machine."""
    cluster: str


def _make_id(given: Given) -> Parts:
    name = re.sub("[^A-Za-z0-9-]", "-", given.of(CLUSTER_NAME))[:_NAME_PART].rstrip("-")
    invented = "".join(secrets.choice(_LETTERS) for _ in range(_INVENTED))
    return {"infra": f"{name}-{invented}", "cluster": str(UUID(bytes=secrets.token_bytes(16), version=4))}


CLUSTER_NAME = Asset("cluster-name", "Cluster Name", lambda given: {"name": given.of(NAMES).cluster}, only, (NAMES,))
CLUSTER_ID = Asset(
    "cluster-id", "Cluster ID", _make_id, lambda parts: ClusterId(parts["infra"], parts["cluster"]), (CLUSTER_NAME,),
    chance=True,
)  # fmt: skip
