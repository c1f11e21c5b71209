"""`ClusterInput` → install-config.yaml, in the words of its release. What is written passes our own check.

What a release cannot be told, and cannot do without, is an error; what it merely lacks is left out, and said in a
comment at the top.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from rackless.errors import InputError
from rackless.installer.install_config.checking import check
from rackless.installer.install_config.cluster_input import ClusterInput, HostAddressing, HostInput
from rackless.installer.install_config.config import OVN
from rackless.installer.install_config.decode import Value
from rackless.installer.install_config.findings import Severity
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rules.gates import GATES, TECH
from rackless.installer.install_config.site import DEFAULT_BRIDGES, Site

Tree = dict[str, Value]


def write(wanted: ClusterInput) -> str:
    """The file, checked; an InputError says what about the input cannot work."""
    text = render(wanted)
    bridges = DEFAULT_BRIDGES | {wanted.bootstrap.bridge, wanted.provisioning.bridge}
    report = check(text, wanted.release, Site(bridges=bridges))
    if not report.clean:
        wrong = [finding for finding in report.findings if finding.severity is not Severity.WARNING]
        raise InputError(
            f"this would not be an install-config that {wanted.release} can use",
            why="\n".join(f"{finding.path}: {finding.message} ({finding.fix})" for finding in wrong),
            hint="change the lab, or the version",
        )
    return text


def render(wanted: ClusterInput) -> str:
    _refuse(wanted)
    notes: list[str] = []
    tree: Tree = {
        "apiVersion": "v1",
        "baseDomain": wanted.base_domain,
        "metadata": {"name": wanted.name},
        "networking": _networking(wanted),
        "controlPlane": _control_plane(wanted),
        "compute": [{"name": "worker", "replicas": len(wanted.of("worker"))}],
        "platform": {"baremetal": _metal(wanted, notes)},
    }
    if wanted.of("arbiter"):
        tree["arbiter"] = {"name": "arbiter", "replicas": len(wanted.of("arbiter")), "platform": {"baremetal": {}}}
    tree.update(_ways_in(wanted, notes))
    feature_set = _feature_set(wanted, notes)
    if feature_set:
        tree["featureSet"] = feature_set
    tree["pullSecret"] = wanted.pull_secret.strip()
    tree["sshKey"] = wanted.ssh_key.strip()
    return "".join(f"# {note}\n" for note in notes) + _yaml(tree)


def _refuse(wanted: ClusterInput) -> None:
    """What this release has no words for, although the cluster depends on it."""
    release, lacking = wanted.release, []
    for needed, since, what in (
        (bool(wanted.bootstrap.static_ip), Release(4, 11), "a fixed address for the bootstrap VM"),
        (any(host.network for host in wanted.hosts), Release(4, 10), "a network configuration for hosts"),
        (bool(wanted.of("arbiter")), Release(4, 19), "an arbiter"),
        (wanted.fenced, Release(4, 19), "two control planes with fencing"),
        (wanted.user_managed_load_balancer, Release(4, 13), "a load balancer of one's own"),
        (len(wanted.api_vips) > 1, Release(4, 12), "two VIPs"),
    ):
        if needed and release < since:
            lacking.append(f"{what} needs {since}")
    if lacking:
        raise InputError(
            f"{release} cannot install this cluster", why="; ".join(lacking), hint="choose a newer version"
        )


def _networking(wanted: ClusterInput) -> Tree:
    return {
        "networkType": OVN,
        "machineNetwork": [{"cidr": one} for one in wanted.machine_networks],
        "clusterNetwork": [{"cidr": cidr, "hostPrefix": prefix} for cidr, prefix in wanted.cluster_networks],
        "serviceNetwork": list(wanted.service_networks),
    }


def _control_plane(wanted: ClusterInput) -> Tree:
    pool: Tree = {"name": "master", "replicas": len(wanted.of("master")), "platform": {"baremetal": {}}}
    if wanted.fenced:
        pool["fencing"] = {"credentials": [_credential(host) for host in wanted.of("master")]}
    return pool


def _credential(host: HostInput) -> Tree:
    scheme, _, rest = host.bmc_address.partition("://")
    transport = scheme.partition("+")[2] or "https"
    credential: Tree = {
        "hostName": host.name,
        "username": host.bmc_username,
        "password": host.bmc_password,
        "address": f"redfish+{transport}://{rest}" if "redfish" in scheme else host.bmc_address,
    }
    if not host.verify_certificate:
        credential["certificateVerification"] = "Disabled"
    return credential


def _metal(wanted: ClusterInput, notes: list[str]) -> Tree:
    release, bootstrap = wanted.release, wanted.bootstrap
    metal: Tree = {}
    if release >= Release(4, 12):
        metal["apiVIPs"], metal["ingressVIPs"] = list(wanted.api_vips), list(wanted.ingress_vips)
    else:
        metal["apiVIP"], metal["ingressVIP"] = wanted.api_vips[0], wanted.ingress_vips[0]
    if wanted.user_managed_load_balancer:
        metal["loadBalancer"] = {"type": "UserManaged"}
    if bootstrap.libvirt_uri:
        metal["libvirtURI"] = bootstrap.libvirt_uri
    metal["externalBridge"] = bootstrap.bridge
    _put(metal, "externalMACAddress", bootstrap.mac, release, Release(4, 7), notes)
    if bootstrap.static_ip:
        metal["bootstrapExternalStaticIP"] = bootstrap.static_ip
        metal["bootstrapExternalStaticGateway"] = bootstrap.gateway
        _put(metal, "bootstrapExternalStaticDNS", bootstrap.dns, release, Release(4, 14), notes)
    metal.update(_provisioning(wanted, notes))
    _put(metal, "additionalNTPServers", list(wanted.ntp_servers), release, Release(4, 18), notes)
    metal["hosts"] = [_host(host, release) for host in wanted.hosts]
    return metal


def _provisioning(wanted: ClusterInput, notes: list[str]) -> Tree:
    release, given = wanted.release, wanted.provisioning
    made: Tree = {"provisioningNetwork": given.mode}
    cluster_ip = "clusterProvisioningIP" if release >= Release(4, 7) else "provisioningHostIP"
    if given.has_network:
        made["provisioningNetworkCIDR"] = given.cidr
        made["provisioningBridge"] = given.bridge
        if release <= Release(4, 8):
            made["provisioningNetworkInterface"] = given.interface
        _put(made, "provisioningMACAddress", given.mac, release, Release(4, 7), notes)
        _put(made, "provisioningNetworkGateway", given.gateway, release, Release(4, 22), notes)
        if given.serves_dhcp and given.dhcp_range:
            made["provisioningDHCPRange"] = given.dhcp_range
    if given.bootstrap_ip:
        made["bootstrapProvisioningIP"] = given.bootstrap_ip
    if given.cluster_ip:
        made[cluster_ip] = given.cluster_ip
    return made


def _host(host: HostInput, release: Release) -> Tree:
    bmc: Tree = {"address": host.bmc_address, "username": host.bmc_username, "password": host.bmc_password}
    if not host.verify_certificate:
        bmc["disableCertificateVerification"] = True
    made: Tree = {"name": host.name, "role": host.role, "bootMACAddress": host.boot_mac, "bmc": bmc}
    if host.boot_mode:
        made["bootMode"] = host.boot_mode
    if host.root_device_hints:
        made["rootDeviceHints"] = dict(host.root_device_hints)
    if isinstance(host.network, HostAddressing):
        made["networkConfig"] = nmstate(host.network)
    elif host.network is not None:
        made["networkConfig"] = dict(host.network)
    return made


def nmstate(network: HostAddressing) -> Tree:
    """One address, one default route, name servers; on a VLAN where there is one."""
    family = "ipv6" if ":" in network.address else "ipv4"
    other = "ipv4" if family == "ipv6" else "ipv6"
    addressed: Tree = {
        family: {
            "enabled": True,
            "dhcp": False,
            "address": [{"ip": network.address, "prefix-length": network.prefix}],
        },
        other: {"enabled": False},
    }
    nic: Tree = {"name": network.interface, "type": "ethernet", "state": "up", "mac-address": network.mac}
    carrier, interfaces = network.interface, [nic]
    if network.mtu:
        nic["mtu"] = network.mtu
    if network.vlan is None:
        nic.update(addressed)
    else:
        carrier = f"{network.interface}.{network.vlan}"
        vlan: Tree = {"name": carrier, "type": "vlan", "state": "up"}
        vlan["vlan"] = {"base-iface": network.interface, "id": network.vlan}
        nic.update({"ipv4": {"enabled": False}, "ipv6": {"enabled": False}})
        interfaces.append({**vlan, **addressed})
    anywhere = "::/0" if family == "ipv6" else "0.0.0.0/0"
    return {
        "interfaces": list(interfaces),
        "dns-resolver": {"config": {"server": list(network.dns)}},
        "routes": {
            "config": [
                {"destination": anywhere, "next-hop-address": network.gateway, "next-hop-interface": carrier},
            ]
        },
    }


def _ways_in(wanted: ClusterInput, notes: list[str]) -> Tree:
    """Proxy, mirrors and the certificates they need."""
    made: Tree = {}
    if wanted.proxy:
        names = {
            "httpProxy": wanted.proxy.http,
            "httpsProxy": wanted.proxy.https,
            "noProxy": ",".join(wanted.proxy.no_proxy),
        }
        made["proxy"] = {name: value for name, value in names.items() if value}
    if wanted.mirrors:
        field = "imageDigestSources" if wanted.release >= Release(4, 14) else "imageContentSources"
        made[field] = [{"mirrors": list(one.mirrors), "source": one.source} for one in wanted.mirrors]
    if wanted.trust_bundle:
        made["additionalTrustBundle"] = wanted.trust_bundle.strip() + "\n"
        policy = "Always" if wanted.trust_always else ""
        _put(made, "additionalTrustBundlePolicy", policy, wanted.release, Release(4, 13), notes)
    return made


def _feature_set(wanted: ClusterInput, notes: list[str]) -> str:
    needed = [("HighlyAvailableArbiter", "an arbiter")] if wanted.of("arbiter") else []
    needed += [("DualReplica", "fencing")] if wanted.fenced else []
    for gate, what in needed:
        general = GATES[gate].general
        if not wanted.feature_set and (general is None or wanted.release < general):
            notes.append(
                f"{what} is a preview in this release, so featureSet is set; such a cluster cannot be upgraded"
            )
            return TECH
    return wanted.feature_set


def _put(tree: Tree, name: str, value: Value, release: Release, since: Release, notes: list[str]) -> None:
    if not value:
        return
    if release >= since:
        tree[name] = value
    else:
        notes.append(f"left out, since this release does not know it: {name}")


class _Dumper(yaml.SafeDumper):
    """Lists indented under their key, long texts as blocks, nothing folded."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else "'" if value.startswith("{") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def _yaml(tree: Mapping[str, Value]) -> str:
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
