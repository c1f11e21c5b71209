"""Manifests about the cluster as a whole: names, addresses, networks, and the install-config it came from, without secrets."""

from __future__ import annotations

from rackless.installer.assets.asset import Asset, Given, Parts, as_is
from rackless.installer.assets.completing import redacted
from rackless.installer.assets.documents import render
from rackless.installer.assets.install_config import INSTALL_CONFIG, tree
from rackless.installer.assets.manifests.checking import mistakes
from rackless.installer.assets.manifests.objects import Json, config_map, secret, thing
from rackless.installer.assets.names import API_PORT, CLUSTER_ID, NAMES, ClusterId, ClusterNames
from rackless.installer.install_config.config import BareMetalPlatform, Config

_CONFIG = "config.openshift.io/v1"
_BARE_METAL = "BareMetal"


def _make(given: Given) -> Parts:
    config, names, identity = given.of(INSTALL_CONFIG), given.of(NAMES), given.of(CLUSTER_ID)
    made = {
        "cluster-config.yaml": config_map(
            "cluster-config-v1", "kube-system", {"install-config": render(redacted(tree(config)))}
        ),
        "cluster-dns-02-config.yml": _cluster("DNS", {"baseDomain": names.domain}),
        "cluster-infrastructure-02-config.yml": infrastructure(config, names, identity),
        "cluster-ingress-02-config.yml": _ingress(config, names),
        "cluster-network-02-config.yml": _cluster("Network", _networks(config)),
        "cluster-proxy-01-config.yaml": _cluster("Proxy", _proxy(config)),
        "cluster-scheduler-02-config.yml": _cluster("Scheduler", {"mastersSchedulable": _workerless(config)}),
        "openshift-config-secret-pull-secret.yaml": secret(
            "pull-secret", "openshift-config", {".dockerconfigjson": config.text("pullSecret").strip()},
            type="kubernetes.io/dockerconfigjson",
        ),
    }  # fmt: skip
    if config.text("additionalTrustBundle"):
        bundle = {"ca-bundle.crt": config.text("additionalTrustBundle")}
        made["user-ca-bundle-config.yaml"] = config_map("user-ca-bundle", "openshift-config", bundle)
    return {f"manifests/{file}": render(made_object) for file, made_object in made.items()}


def infrastructure(config: Config, names: ClusterNames, identity: ClusterId) -> Json:
    assert config.metal is not None
    networks = [str(one) for one in config.networking.machine_cidrs]
    wanted = {
        "apiServerInternalIPs": list(names.api_vips),
        "ingressIPs": list(names.ingress_vips),
        "machineNetworks": networks,
        **_load_balancer(config.metal),
    }
    found = {
        **wanted,
        "apiServerInternalIP": names.api_vips[0],
        "ingressIP": names.ingress_vips[0],
        "dnsRecordsType": config.metal.dns_records or "Internal",
    }
    status: Json = {
        "apiServerInternalURI": f"https://{names.api_internal}:{API_PORT}",
        "apiServerURL": names.api_url,
        "controlPlaneTopology": _topology(config),
        "cpuPartitioning": "None",
        "etcdDiscoveryDomain": "",
        "infrastructureName": identity.infra,
        "infrastructureTopology": _spread(config),
        "platform": _BARE_METAL,
        "platformStatus": {"baremetal": found, "type": _BARE_METAL},
    }
    spec = {"cloudConfig": {"name": ""}, "platformSpec": {"baremetal": wanted, "type": _BARE_METAL}}
    return _cluster("Infrastructure", spec, status)


def _load_balancer(metal: BareMetalPlatform) -> Json:
    return {"loadBalancer": {"type": metal.load_balancer}} if metal.load_balancer else {}


def _topology(config: Config) -> str:
    replicas = config.control_plane.replicas
    if config.arbiter is not None and config.arbiter.replicas:
        return "HighlyAvailableArbiter"
    return {1: "SingleReplica", 2: "DualReplica"}.get(replicas, "HighlyAvailable")


def _spread(config: Config) -> str:
    workers = sum(pool.replicas for pool in config.compute)
    alone = workers == 1 or (workers == 0 and config.control_plane.replicas == 1)
    return "SingleReplica" if alone else "HighlyAvailable"


def _workerless(config: Config) -> bool:
    return sum(pool.replicas for pool in config.compute) == 0


def _ingress(config: Config, names: ClusterNames) -> Json:
    placement = "ControlPlane" if config.control_plane.replicas == 1 and _workerless(config) else "Workers"
    return _cluster("Ingress", {"domain": f"apps.{names.domain}"}, {"defaultPlacement": placement})


def _networks(config: Config) -> Json:
    networking = config.networking
    return {
        "clusterNetwork": [{"cidr": str(one.cidr), "hostPrefix": one.host_prefix} for one in networking.cluster],
        "networkType": networking.type,
        "serviceNetwork": [str(one) for one in networking.service_cidrs],
    }


def _proxy(config: Config) -> Json:
    given = config.values.get("proxy")
    wanted = {name: value for name, value in given.items() if value} if isinstance(given, dict) else {}
    bundle = config.text("additionalTrustBundle")
    trusted = bundle and (wanted or config.text("additionalTrustBundlePolicy") == "Always")
    return {**wanted, "trustedCA": {"name": "user-ca-bundle" if trusted else ""}}


def _cluster(kind: str, spec: Json, status: Json | None = None) -> Json:
    return thing(_CONFIG, kind, "cluster", spec=spec) | ({"status": status} if status else {})


CLUSTER_MANIFESTS = Asset(
    "cluster-manifests", "Common Manifests", _make, as_is, (INSTALL_CONFIG, NAMES, CLUSTER_ID),
    files=(
        "manifests/cluster-*.yaml", "manifests/cluster-*.yml", "manifests/openshift-config-*.yaml",
        "manifests/user-ca-bundle-config.yaml",
    ),
    check=mistakes,
)  # fmt: skip
