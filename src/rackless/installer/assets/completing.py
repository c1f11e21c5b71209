"""Completing an install-config: deprecated fields converted, defaults filled in, as the installer does it. Pure.

Completing a complete one changes nothing, so assets are not made anew when a person gives it back.
"""

from __future__ import annotations

from typing import cast

from rackless.installer.install_config.config import (
    MANAGED,
    BareMetalPlatform,
    Config,
    HostEntry,
    MachinePool,
    Networking,
)
from rackless.installer.install_config.decode import Value

Tree = dict[str, Value]

_OLD_NETWORKING = ("clusterNetworks", "machineCIDR", "serviceCIDR", "type")
_OLD_METAL = ("apiVIP", "ingressVIP", "provisioningHostIP", "provisioningDHCPExternal")
_DEFAULT_PROFILE = "default"


def complete(config: Config, external_mac: str, provisioning_mac: str) -> Tree:
    """`external_mac` and `provisioning_mac` are the bootstrap VM's, where the file says none."""
    tree: Tree = dict(config.values)
    tree.setdefault("additionalTrustBundlePolicy", "Proxyonly")
    tree.setdefault("publish", "External")
    tree["networking"] = _networking(_struct(config.values, "networking"), config.networking)
    tree["controlPlane"] = _pool(_struct(config.values, "controlPlane"), config.control_plane)
    if config.arbiter is not None:
        tree["arbiter"] = _pool(_struct(config.values, "arbiter"), config.arbiter)
    written = cast(list[Tree], config.values.get("compute") or [])
    tree["compute"] = [
        _pool(written[index] if index < len(written) else {}, pool) for index, pool in enumerate(config.compute)
    ]
    if config.metal is not None:
        platform = _struct(config.values, "platform")
        metal = _metal(_struct(platform, "baremetal"), config.metal, external_mac, provisioning_mac)
        tree["platform"] = {**platform, "baremetal": metal}
    return tree


def redacted(tree: Tree) -> Tree:
    """The install-config without secrets, for a ConfigMap of the cluster."""
    made: Tree = {**tree, "pullSecret": ""}
    platform = _struct(made, "platform")
    metal = _struct(platform, "baremetal")
    if metal:
        hosts = [_without_credentials(host) for host in cast(list[Tree], metal.get("hosts") or [])]
        made["platform"] = {**platform, "baremetal": {**metal, "hosts": cast(Value, hosts)}}
    plane = _struct(made, "controlPlane")
    if "fencing" in plane:
        made["controlPlane"] = {name: value for name, value in plane.items() if name != "fencing"}
    return made


def _without_credentials(host: Tree) -> Tree:
    return {**host, "bmc": {**_struct(host, "bmc"), "username": "", "password": ""}}


def _networking(written: Tree, found: Networking) -> Tree:
    return {
        **{name: value for name, value in written.items() if name not in _OLD_NETWORKING},
        "networkType": found.type,
        "machineNetwork": [{"cidr": str(one)} for one in found.machine_cidrs],
        "clusterNetwork": [{"cidr": str(one.cidr), "hostPrefix": one.host_prefix} for one in found.cluster],
        "serviceNetwork": [str(one) for one in found.service_cidrs],
    }


def _pool(written: Tree, found: MachinePool) -> Tree:
    return {
        "platform": {},
        **written,
        "name": found.name,
        "replicas": found.replicas,
        "architecture": found.architecture,
        "hyperthreading": found.hyperthreading,
    }


def _metal(written: Tree, found: BareMetalPlatform, external_mac: str, provisioning_mac: str) -> Tree:
    made: Tree = {name: value for name, value in written.items() if name not in _OLD_METAL}
    made["apiVIPs"], made["ingressVIPs"] = list(found.api_vips), list(found.ingress_vips)
    made["provisioningNetwork"] = found.provisioning
    made["libvirtURI"] = found.libvirt_uri
    made["externalBridge"] = found.external_bridge
    made["externalMACAddress"] = found.external_mac or external_mac
    made["provisioningMACAddress"] = found.provisioning_mac or provisioning_mac
    made.setdefault("dnsRecordsType", "Internal")
    if not found.disabled:
        made["provisioningBridge"] = found.provisioning_bridge
        made["bootstrapProvisioningIP"], made["clusterProvisioningIP"] = found.bootstrap_ip, found.cluster_ip
        if found.provisioning == MANAGED:
            made["provisioningDHCPRange"] = found.dhcp_range
    if found.cidr is not None:
        made["provisioningNetworkCIDR"] = str(found.cidr)
    by_place = {f"platform.baremetal.hosts[{i}]": one for i, one in enumerate(cast(list[Tree], written["hosts"]))}
    made["hosts"] = [_host(by_place[host.at], host) for host in found.hosts or ()]
    return made


def _host(written: Tree, found: HostEntry) -> Tree:
    bmc: Tree = {**_struct(written, "bmc"), "disableCertificateVerification": not found.verify_certificate}
    return {
        **written,
        "role": found.role,
        "bmc": bmc,
        "bootMode": found.boot_mode or "UEFI",
        "hardwareProfile": found.hardware_profile or _DEFAULT_PROFILE,
    }


def _struct(values: Tree, name: str) -> Tree:
    value = values.get(name)
    return value if isinstance(value, dict) else {}
