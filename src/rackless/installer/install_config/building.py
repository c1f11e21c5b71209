"""Decoded values → `Config`: old fields converted, defaults filled in, the way the installer does it."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

from rackless.installer.install_config.config import (
    DISABLED,
    MANAGED,
    METAL,
    OVN,
    UNMANAGED,
    BareMetalPlatform,
    BgpPeer,
    Config,
    Credential,
    HostEntry,
    MachinePool,
    Networking,
    PodNetwork,
)
from rackless.installer.install_config.decode import Value
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.site import Site
from rackless.installer.install_config.values import Cidr, parse_cidr, parse_ip

Values = dict[str, Value]

_ROLE_ORDER = {"master": -1, "arbiter": 0, "worker": 1, "": 2}


def conversion_problems(values: Values) -> Iterator[RuleProblem]:
    """What stops the installer while it converts old fields."""
    version = text(values, "apiVersion")
    if version not in ("v1", "v1beta3", "v1beta4"):
        said = f"cannot upconvert from version {version}" if version else "no version was provided"
        yield RuleProblem(
            "apiVersion", f"the version of the format is missing or unknown ({said})", "write apiVersion: v1"
        )
    platform = struct(values, "platform")
    if "baremetal" not in platform or "aws" in platform or "azure" in platform:
        return
    metal = struct(platform, "baremetal")
    old, new = text(metal, "provisioningHostIP"), text(metal, "clusterProvisioningIP")
    if old and new and old != new:
        yield RuleProblem(f"{METAL}.provisioningHostIP",
                      f"{old} differs from clusterProvisioningIP {new}; both are the same field",
                      "remove provisioningHostIP")  # fmt: skip
    for singular, plural in (("apiVIP", "apiVIPs"), ("ingressVIP", "ingressVIPs")):
        one, several = text(metal, singular), texts(metal, plural)
        if one and several and one not in several:
            yield RuleProblem(f"{METAL}.{plural}", f"{singular} {one} is not among {plural}; both are the same field",
                          f"remove {singular}", at=f"{METAL}.{singular}")  # fmt: skip


def build(values: Values, release: Release, site: Site) -> Config:
    platform = struct(values, "platform")
    networking = _networking(struct(values, "networking"), release)
    compute = tuple(_pool(one, f"compute[{i}]", "", 3) for i, one in enumerate(structs(values, "compute")))
    if not any(pool.name == "worker" for pool in compute):
        compute += (_pool({"name": "worker"}, f"compute[{len(compute)}]", "", 3, added=True),)
    return Config(
        release=release,
        site=site,
        values=values,
        name=text(struct(values, "metadata"), "name"),
        base_domain=text(values, "baseDomain"),
        networking=networking,
        control_plane=_pool(struct(values, "controlPlane"), "controlPlane", "master", 3),
        arbiter=_pool(struct(values, "arbiter"), "arbiter", "", 0) if "arbiter" in values else None,
        compute=compute,
        platforms=tuple(platform),
        metal=_metal(struct(platform, "baremetal"), networking, release) if "baremetal" in platform else None,
    )


def _networking(values: Values, release: Release) -> Networking:
    machine = [_cidr(one, "cidr") for one in structs(values, "machineNetwork")]
    if not machine and "machineCIDR" in values:
        machine = [_cidr(values, "machineCIDR")]
    service = [parse_cidr(one) for one in texts(values, "serviceNetwork")]
    if not service and "serviceCIDR" in values:
        service = [_cidr(values, "serviceCIDR")]
    cluster = [_cluster_network(one) for one in structs(values, "clusterNetwork") or structs(values, "clusterNetworks")]
    written = text(values, "networkType") or text(values, "type")
    kind = {OVN.lower(): OVN, "openshiftsdn": "OpenShiftSDN"}.get(written.lower(), written)
    ovn = values.get("ovnKubernetesConfig")
    return Networking(
        type=kind or (OVN if release >= Release(4, 12) else "OpenShiftSDN"),
        machine=tuple(machine) or (parse_cidr("10.0.0.0/16"),),
        cluster=tuple(cluster) or (PodNetwork(parse_cidr("10.128.0.0/14"), 23),),
        service=tuple(service) or (parse_cidr("172.30.0.0/16"),),
        mtu=integer(values, "clusterNetworkMTU") or 0,
        ovn=ovn is not None,
        join=_cidr(struct(struct(values, "ovnKubernetesConfig"), "ipv4"), "internalJoinSubnet"),
        written_type=written,
    )


def _cluster_network(values: Values) -> PodNetwork:
    cidr = _cidr(values, "cidr")
    prefix, length = integer(values, "hostPrefix") or 0, integer(values, "hostSubnetLength") or 0
    if prefix == 0 and length and cidr:
        prefix = cidr.address.max_prefixlen - length
    return PodNetwork(cidr, prefix)


def _pool(values: Values, path: str, name: str, replicas: int, *, added: bool = False) -> MachinePool:
    count = integer(values, "replicas")
    fencing = struct(values, "fencing")
    return MachinePool(
        path=path,
        name=name or text(values, "name"),
        replicas=replicas if count is None else count,
        architecture=text(values, "architecture") or "amd64",
        hyperthreading=text(values, "hyperthreading") or "Enabled",
        platforms=tuple(struct(values, "platform")),
        fencing="fencing" in values,
        credentials=tuple(
            Credential(
                f"{path}.fencing.credentials[{i}]", text(one, "hostName"), text(one, "macAddress"),
                text(one, "username"), text(one, "password"), text(one, "address"),
                text(one, "certificateVerification"),
            )
            for i, one in enumerate(structs(fencing, "credentials"))
        ),
        disk_setup=bool(values.get("diskSetup")),
        management=text(values, "management"),
        added=added,
    )  # fmt: skip


def _metal(values: Values, networking: Networking, release: Release) -> BareMetalPlatform:
    provisioning = text(values, "provisioningNetwork")
    if not provisioning:
        provisioning = UNMANAGED if values.get("provisioningDHCPExternal") is True else MANAGED
    written = _cidr(values, "provisioningNetworkCIDR")
    bootstrap_ip = text(values, "bootstrapProvisioningIP")
    cluster_ip = text(values, "clusterProvisioningIP") or text(values, "provisioningHostIP")
    dhcp_range = text(values, "provisioningDHCPRange")
    cidr = written
    if provisioning == DISABLED:
        wanted = parse_ip(cluster_ip)
        cidr = written or next((one for one in networking.machine_cidrs if wanted and wanted in one), None)
    else:
        cidr = cidr or Cidr(IPv4Address("172.22.0.0"), 24)
        bootstrap_ip = bootstrap_ip or _nth(cidr, 2)
        cluster_ip = cluster_ip or _nth(cidr, 3)
        if provisioning == MANAGED and not dhcp_range:
            dhcp_range = f"{_nth(cidr, 10)},{_last_but_one(cidr)}"
    bgp = struct(values, "bgpVIPConfig")
    singular = release < Release(4, 12)
    balancer = struct(values, "loadBalancer")
    return BareMetalPlatform(
        api_vips=_vips(values, "apiVIPs", "apiVIP", singular),
        ingress_vips=_vips(values, "ingressVIPs", "ingressVIP", singular),
        hosts=_hosts(values) if "hosts" in values else None,
        provisioning=provisioning,
        cidr=cidr,
        written_cidr=written is not None,
        interface=text(values, "provisioningNetworkInterface"),
        gateway=text(values, "provisioningNetworkGateway"),
        dhcp_range=dhcp_range,
        bootstrap_ip=bootstrap_ip,
        cluster_ip=cluster_ip,
        provisioning_bridge=text(values, "provisioningBridge") or "provisioning",
        provisioning_mac=text(values, "provisioningMACAddress"),
        external_bridge=text(values, "externalBridge") or "baremetal",
        external_mac=text(values, "externalMACAddress"),
        libvirt_uri=text(values, "libvirtURI") or "qemu:///system",
        static_ip=text(values, "bootstrapExternalStaticIP"),
        static_gateway=text(values, "bootstrapExternalStaticGateway"),
        static_dns=text(values, "bootstrapExternalStaticDNS"),
        ntp_servers=texts(values, "additionalNTPServers"),
        load_balancer=text(balancer, "type") if "loadBalancer" in values else None,
        dns_records=text(values, "dnsRecordsType"),
        bgp="bgpVIPConfig" in values,
        local_asn=integer(bgp, "localASN") or 0,
        bgp_peers=_peers(bgp, "peers", f"{METAL}.bgpVIPConfig.peers"),
        communities=texts(bgp, "communities"),
        images={name: text(values, name) for name in ("bootstrapOSImage", "clusterOSImage") if text(values, name)},
    )


def _vips(values: Values, plural: str, singular: str, old: bool) -> tuple[str, ...]:
    one = text(values, singular)
    several = texts(values, plural)
    if old or not several:
        return (one,) if one else ()
    return several


def _hosts(values: Values) -> tuple[HostEntry, ...]:
    written = [(i, one) for i, one in enumerate(structs(values, "hosts"))]
    written.sort(key=lambda entry: _ROLE_ORDER.get(text(entry[1], "role"), 0))
    return tuple(_host(one, f"{METAL}.hosts[{index}]", f"{METAL}.hosts[{i}]") for index, (i, one) in enumerate(written))


def _host(values: Values, path: str, at: str) -> HostEntry:
    bmc = struct(values, "bmc")
    return HostEntry(
        path=path,
        at=at,
        name=text(values, "name"),
        role=text(values, "role"),
        boot_mac=text(values, "bootMACAddress"),
        boot_mode=text(values, "bootMode"),
        hardware_profile=text(values, "hardwareProfile"),
        device_name=text(struct(values, "rootDeviceHints"), "deviceName"),
        bmc_address=text(bmc, "address"),
        bmc_username=text(bmc, "username"),
        bmc_password=text(bmc, "password"),
        verify_certificate=bmc.get("disableCertificateVerification") is not True,
        network_config=values.get("networkConfig"),
        bgp_peers=_peers(values, "bgpPeers", f"{path}.bgpPeers"),
    )


def _peers(values: Values, name: str, path: str) -> tuple[BgpPeer, ...]:
    return tuple(
        BgpPeer(
            f"{path}[{i}]", text(one, "peerAddress"), integer(one, "peerASN") or 0, integer(one, "port"),
            text(one, "bfdEnabled"), text(one, "ebgpMultiHop"), text(one, "holdTime"), text(one, "keepaliveTime"),
        )
        for i, one in enumerate(structs(values, name))
    )  # fmt: skip


def _nth(cidr: Cidr, index: int) -> str:
    network = cidr.network
    return str(network[index]) if index < network.num_addresses else "<nil>"


def _last_but_one(cidr: Cidr) -> str:
    network = cidr.network
    return str(network[-2]) if network.num_addresses > 1 else str(network[0])


def _cidr(values: Values, name: str) -> Cidr | None:
    return parse_cidr(text(values, name))


def text(values: Values, name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def texts(values: Values, name: str) -> tuple[str, ...]:
    value = values.get(name)
    return tuple(str(one) for one in value) if isinstance(value, list) else ()


def integer(values: Values, name: str) -> int | None:
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def struct(values: Values, name: str) -> Values:
    value = values.get(name)
    return value if isinstance(value, dict) else {}


def structs(values: Values, name: str) -> list[Values]:
    value = values.get(name)
    return [one if isinstance(one, dict) else {} for one in value] if isinstance(value, list) else []
