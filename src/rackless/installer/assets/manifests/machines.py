"""Manifests of hosts and machines, in Metal3's and OpenShift's shapes: BareMetalHosts with their secrets, the control plane's
Machines, the workers' MachineSet, and the Provisioning that says how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from rackless.installer.assets.asset import Asset, Given, Parts, as_is
from rackless.installer.assets.documents import render
from rackless.installer.assets.install_config import INSTALL_CONFIG
from rackless.installer.assets.manifests.checking import mistakes
from rackless.installer.assets.manifests.images import METHOD, os_image
from rackless.installer.assets.manifests.objects import MACHINE_API, Json, secret, thing
from rackless.installer.assets.manifests.roles import ARBITER, MASTER, WORKER, Placed, place
from rackless.installer.assets.names import CLUSTER_ID
from rackless.installer.assets.pointers import POINTERS
from rackless.installer.assets.release import RELEASE, Release
from rackless.installer.install_config.config import Config, MachinePool

_MACHINE = "machine.openshift.io/v1beta1"
_PREFIX = "openshift/99_openshift-cluster-api_"
_PROVISIONING = "openshift/99_baremetal-provisioning-config.yaml"
PAUSED = "baremetalhost.metal3.io/paused"
"""Until the cluster is there to look after them: the bootstrap machine installs the control plane and nothing else."""
ROLE_LABEL = "installer.openshift.io/role"
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


def _make_hosts(given: Given) -> Parts:
    config, infra, release = given.of(INSTALL_CONFIG), given.of(CLUSTER_ID).infra, given.of(RELEASE)
    kinds: dict[str, list[Json]] = {}
    for placed in place(config):
        stem = f"{_PREFIX}arbiter_" if placed.role == ARBITER else _PREFIX
        for kind, each in _host_objects(placed, config, infra, release):
            kinds.setdefault(f"{stem}{kind}", []).append(each)
    return {path: text for stem, listed in kinds.items() for path, text in _numbered(stem, listed).items()}


def _numbered(stem: str, listed: list[Json]) -> dict[str, str]:
    """A file each, with numbers of one length, so that their names sort as they do."""
    width = len(str(len(listed)))
    return {f"{stem}-{number:0{width}}.yaml": render(each) for number, each in enumerate(listed)}


def _host_objects(placed: Placed, config: Config, infra: str, release: Release) -> Iterator[tuple[str, Json]]:
    host = placed.host
    password = {"username": host.bmc_username, "password": host.bmc_password}
    yield "host-bmc-secrets", secret(f"{host.name}-bmc-secret", MACHINE_API, password)
    if host.network_config is not None:
        nmstate = yaml.safe_dump(host.network_config, sort_keys=True)
        network = secret(f"{host.name}-network-config-secret", MACHINE_API, {"nmstate": nmstate})
        yield "host-network-config-secrets", network
    yield "hosts", _host(placed, config, infra, release)


def _host(placed: Placed, config: Config, infra: str, release: Release) -> Json:
    host = placed.host
    bmc: Json = {"address": host.bmc_address, "credentialsName": f"{host.name}-bmc-secret"}
    if not host.verify_certificate:
        bmc["disableCertificateVerification"] = True
    pool = placed.pool or config.control_plane
    spec: Json = {
        "architecture": _ARCHITECTURES.get(pool.architecture, pool.architecture),
        "bmc": bmc,
        "bootMACAddress": host.boot_mac,
        "bootMode": host.boot_mode or "UEFI",
        "hardwareProfile": "unknown" if host.hardware_profile in ("", "default") else host.hardware_profile,
        "online": True,
    }
    if hints := placed.hints:
        spec["rootDeviceHints"] = hints
    if host.network_config is not None:
        spec["preprovisioningNetworkDataName"] = f"{host.name}-network-config-secret"
    if placed.machine is None:
        return thing("metal3.io/v1alpha1", "BareMetalHost", host.name, MACHINE_API, annotations={PAUSED: ""}, spec=spec)
    name = machine_name(infra, placed.role, placed.machine)
    spec["consumerRef"] = {"apiVersion": _MACHINE, "kind": "Machine", "name": name, "namespace": MACHINE_API}
    spec["userData"] = {"name": user_data(placed.role)}
    spec |= _system(config, release)
    labels = {ROLE_LABEL: "control-plane"}
    return thing("metal3.io/v1alpha1", "BareMetalHost", host.name, MACHINE_API, labels=labels, spec=spec)


def _system(config: Config, release: Release) -> Json:
    """What is put on the host: the image of `clusterOSImage`, or what the deploy ramdisk brings along."""
    image = os_image(config, release)
    return {"image": image} if image else {"customDeploy": {"method": METHOD}}


HOST_MANIFESTS = Asset(
    "host-manifests", "Hosts", _make_hosts, as_is, (INSTALL_CONFIG, CLUSTER_ID, RELEASE),
    files=tuple(f"{_PREFIX}{arbiter}{kind}-*.yaml" for arbiter in ("", "arbiter_")
                for kind in ("hosts", "host-bmc-secrets", "host-network-config-secrets")),
    check=mistakes,
)  # fmt: skip


def machine_name(infra: str, role: str, number: int) -> str:
    return f"{infra}-{role}-{number}"


def user_data(role: str) -> str:
    return f"{role}-user-data-managed"


def _provider_spec(config: Config, role: str, release: Release) -> Json:
    value: Json = {
        "apiVersion": "baremetal.cluster.k8s.io/v1alpha1",
        "kind": "BareMetalMachineProviderSpec",
        "hostSelector": {},
        "image": os_image(config, release) or {"checksum": "", "url": ""},
        "metadata": {},
        "userData": {"name": user_data(role)},
    }
    if os_image(config, release) is None:
        value["customDeploy"] = {"method": METHOD}
    return {"value": value}


def _labels(infra: str, role: str) -> dict[str, str]:
    prefix = "machine.openshift.io/cluster-api"
    return {f"{prefix}-cluster": infra, f"{prefix}-machine-role": role, f"{prefix}-machine-type": role}


def _make_machines(given: Given) -> Parts:
    config, infra, release = given.of(INSTALL_CONFIG), given.of(CLUSTER_ID).infra, given.of(RELEASE)
    pools = [(MASTER, config.control_plane), *([(ARBITER, config.arbiter)] if config.arbiter else [])]
    made: dict[str, str] = {}
    for role, pool in pools:
        spec = {"providerSpec": _provider_spec(config, role, release)}
        names = [machine_name(infra, role, number) for number in range(pool.replicas)]
        machines = [
            thing(_MACHINE, "Machine", name, MACHINE_API, labels=_labels(infra, role), spec=spec) for name in names
        ]
        made |= _numbered(f"{_PREFIX}{role}-machines", machines)
    return made


MACHINE_MANIFESTS = Asset(
    "machine-manifests", "Control Plane Machines", _make_machines, as_is, (INSTALL_CONFIG, CLUSTER_ID, RELEASE),
    files=(f"{_PREFIX}master-machines-*.yaml", f"{_PREFIX}arbiter-machines-*.yaml"), check=mistakes,
)  # fmt: skip


def _make_set(given: Given) -> Parts:
    config, infra, release = given.of(INSTALL_CONFIG), given.of(CLUSTER_ID).infra, given.of(RELEASE)
    pools = [pool for pool in config.compute if pool.name == WORKER]
    sets = [_machine_set(config, pool, infra, number, release) for number, pool in enumerate(pools)]
    return _numbered(f"{_PREFIX}worker-machineset", sets)


def _machine_set(config: Config, pool: MachinePool, infra: str, number: int, release: Release) -> Json:
    name, labels = machine_name(infra, WORKER, number), _labels(infra, WORKER)
    own = {"machine.openshift.io/cluster-api-machineset": name}
    chosen = {"machine.openshift.io/cluster-api-cluster": infra, **own}
    spec: dict[str, Any] = {
        "replicas": pool.replicas,
        "selector": {"matchLabels": chosen},
        "template": {
            "metadata": {"labels": {**labels, **own}},
            "spec": {"providerSpec": _provider_spec(config, WORKER, release)},
        },
    }
    return thing(_MACHINE, "MachineSet", name, MACHINE_API, labels=labels, spec=spec)


MACHINE_SET_MANIFESTS = Asset(
    "machine-set-manifests", "Worker Machines", _make_set, as_is, (INSTALL_CONFIG, CLUSTER_ID, RELEASE),
    files=(f"{_PREFIX}worker-machineset-*.yaml",), check=mistakes,
)  # fmt: skip


def _make_user_data(given: Given) -> Parts:
    made = {}
    for role, pointer in given.of(POINTERS).items():
        data = {"userData": pointer, "disableTemplating": "true\n"}
        each = secret(user_data(role), MACHINE_API, data, type="Opaque")
        made[f"{_PREFIX}{role}-user-data-secret.yaml"] = render(each)
    return made


USER_DATA_MANIFESTS = Asset(
    "user-data-manifests", "User Data", _make_user_data, as_is, (POINTERS,),
    files=tuple(f"{_PREFIX}{role}-user-data-secret.yaml" for role in (MASTER, ARBITER, WORKER)), check=mistakes,
)  # fmt: skip


def _make_provisioning(given: Given) -> Parts:
    config = given.of(INSTALL_CONFIG)
    metal = config.metal
    assert metal is not None
    spec = {
        "additionalNTPServers": list(metal.ntp_servers),
        "provisioningDHCPRange": metal.dhcp_range,
        "provisioningIP": metal.cluster_ip,
        "provisioningInterface": metal.interface,
        "provisioningNetwork": metal.provisioning,
        "provisioningNetworkCIDR": str(metal.cidr) if metal.cidr else "",
        "provisioningNetworkGateway": metal.gateway,
        "provisioningOSDownloadURL": metal.images.get("clusterOSImage", ""),
        "watchAllNamespaces": False,
    }
    return {_PROVISIONING: render(thing("metal3.io/v1alpha1", "Provisioning", "provisioning-configuration", spec=spec))}


PROVISIONING_MANIFEST = Asset(
    "provisioning-manifest", "Provisioning", _make_provisioning, as_is, (INSTALL_CONFIG,), files=(_PROVISIONING,),
    check=mistakes,
)  # fmt: skip
