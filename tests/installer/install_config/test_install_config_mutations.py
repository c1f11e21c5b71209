# ruff: noqa: E501  (a table: one mutation a line)
"""A sensible file stays sensible; one mistake in a rule's subject is found by that rule, in its phase."""

import copy
import json
import re
from dataclasses import dataclass, replace
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rackless.installer.install_config.checking import check
from rackless.installer.install_config.cluster_input import ClusterInput
from rackless.installer.install_config.release import NEWEST, Release
from rackless.installer.install_config.rules import ALL
from rackless.installer.install_config.writing import render

Tree = dict[str, Any]
GONE = object()
_METAL = "platform.baremetal"
_HOST = f"{_METAL}.hosts[{{i}}]"

garbage = st.text("abcxyz!?*", min_size=1, max_size=8)
index = st.integers(0, 1)
last_octet = st.integers(30, 250)


@dataclass(frozen=True)
class Mutation:
    rule: str
    mode: str
    changes: dict[str, Any]
    """Path → value, or a strategy for it; `{i}` in a path is a host or entry chosen at random."""
    release: Release = NEWEST


def on(rule: str, mode: str, changes: dict[str, Any], release: Release = NEWEST) -> Mutation:
    return Mutation(rule, mode, changes, release)


def metal(rule: str, mode: str, field: str, value: Any, release: Release = NEWEST) -> Mutation:
    return Mutation(rule, mode, {f"{_METAL}.{field}": value}, release)


def host(rule: str, mode: str, field: str, value: Any, release: Release = NEWEST) -> Mutation:
    return Mutation(rule, mode, {f"{_HOST}.{field}": value}, release)


def outside() -> st.SearchStrategy[str]:
    return last_octet.map(lambda n: f"10.77.0.{n}")


_PEER: dict[str, Any] = {"peerAddress": "192.168.111.1", "peerASN": 64513}
_BGP: dict[str, Any] = {"localASN": 64512, "peers": [_PEER], "communities": ["1:2"]}
_BAD_PEERS: list[dict[str, Any]] = [
    {"peerAddress": "x"},
    {"peerASN": 0},
    {"port": 0},
    {"holdTime": "90s"},
    {"bfdEnabled": "no!"},
]
_DEV = {"featureSet": "DevPreviewNoUpgrade"}
_DUAL = {"serviceNetwork": ["172.30.0.0/16", "fd02::/112"]}
_IMAGE = "http://images.example.com/x.qcow2?sha256=" + "a" * 64
_NMSTATE = {"interfaces": [{"name": "enp1s0", "type": "ethernet", "state": "up"}]}

MUTATIONS = [
    on("cluster-name", "compact", {"metadata.name": st.one_of(st.just("a.b"), st.just("a" * 55), garbage.map("A".__add__))}),
    on("base-domain", "compact", {"baseDomain": st.one_of(st.just(GONE), st.just("exa mple.com"), garbage.map("-".__add__))}),
    on("publish", "compact", {"publish": st.one_of(st.sampled_from(["Internal", "Mixed"]), garbage)}),
    on("publish", "compact", {"operatorPublishingStrategy": {"ingress": "Internal"}}),
    on("credentials-mode", "compact", {"credentialsMode": st.sampled_from(["Mint", "Manual", "Passthrough"])}),
    on("ssh-key", "compact", {"sshKey": st.one_of(garbage, garbage.map("ssh-rsa ".__add__))}),
    on("fips-host", "compact", {"fips": True}),
    on("trust-bundle", "mirrors", {"additionalTrustBundle": garbage}),
    on("trust-bundle", "mirrors", {"additionalTrustBundlePolicy": garbage}),
    on("pull-secret", "compact", {"pullSecret": st.one_of(garbage, st.sampled_from(["{}", '{"auths":{}}', '{"auths":{"a":{}}}', "[]"]))}),
    on("network-type", "compact", {"networking.networkType": st.sampled_from(["OpenShiftSDN", "openshiftsdn", "Kuryr"])}),
    on("network-form", "compact", {"networking.machineNetwork[0].cidr": st.sampled_from(["192.168.111.5/24", "0.0.0.0/0", "0.0.0.0/8"])}),
    on("network-form", "compact", {"networking.serviceNetwork[0]": st.sampled_from(["172.30.1.0/16", "10.0.0.0/11"])}),
    on("network-overlap", "compact", {"networking.serviceNetwork[0]": st.sampled_from(["10.128.0.0/16", "192.168.0.0/16", "192.168.111.128/25"])}),
    on("network-ovn-inside", "compact", {"networking.clusterNetwork[0].cidr": st.sampled_from(["100.64.0.0/14", "100.88.0.0/16", "169.254.0.0/18"])}),
    on("host-prefix", "compact", {"networking.clusterNetwork[0].hostPrefix": st.one_of(st.just(GONE), st.integers(-5, 13))}),
    on("host-prefix", "dual-stack", {"networking.clusterNetwork[1].hostPrefix": st.sampled_from([56, 63, 65, 72])}),
    on("cluster-network-mtu", "compact", {"networking.clusterNetworkMTU": st.integers(1, 9000)}),
    on("ovn-config", "compact", {"networking.ovnKubernetesConfig": {"ipv4": {"internalJoinSubnet": "10.128.0.0/16"}}}),
    on("ovn-config", "compact", {"networking.ovnKubernetesConfig": {"ipv4": {"internalJoinSubnet": "100.70.0.0/28"}}}),
    on("network-observability", "compact", {"networkObservability": {"installationPolicy": "Perhaps"}}),
    on("docker-bridge", "compact", {"networking.serviceNetwork[0]": "172.17.0.0/16"}),
    on("stacks", "compact", {"networking.serviceNetwork": st.sampled_from([["172.30.0.0/16", "172.31.0.0/16"], _DUAL["serviceNetwork"]])}),
    metal("vip-present", "compact", "apiVIPs", st.sampled_from([GONE, [], ["192.168.111.5", "192.168.111.6", "192.168.111.7"]])),
    metal("vip-address", "compact", "ingressVIPs[0]", st.one_of(garbage, last_octet.map(lambda n: f"192.168.111.{n + 300}"))),
    metal("vip-in-machine-network", "three-and-two", "apiVIPs[0]", outside()),
    metal("vip-different", "compact", "apiVIPs[0]", "192.168.111.4"),
    metal("vip-two-families", "compact", "apiVIPs", ["192.168.111.5", "192.168.111.6"]),
    metal("vip-primary-family", "dual-stack", "apiVIPs", st.sampled_from([["fd2e:6f44:5dd8:c956::5"], ["fd2e:6f44:5dd8:c956::5", "192.168.111.5"]])),
    on("one-platform", "compact", {"platform": {}}),
    on("one-platform", "compact", {"platform.vsphere": {"a": 1}}),
    on("other-platform", "compact", {"platform": {"vsphere": {}}}),
    metal("provisioning-mode", "compact", "provisioningNetwork", st.one_of(garbage, st.sampled_from(["managed", "disabled"]))),
    metal("provisioning-addresses", "managed-ipmi", "bootstrapProvisioningIP", garbage),
    metal("load-balancer", "compact", "loadBalancer", st.one_of(st.just({}), garbage.map(lambda g: {"type": g}))),
    metal("dns-records", "compact", "dnsRecordsType", "External"),
    on("single-node", "compact", {"bootstrapInPlace": {"installationDisk": "/dev/sda"}, "controlPlane.replicas": 1}),
    metal("hosts-present", "compact", "hosts", GONE),
    on("hosts-enough", "compact", {"controlPlane.replicas": st.integers(4, 9)}),
    on("hosts-enough", "compact", {"compute": st.sampled_from([GONE, []])}),
    host("host-name", "compact", "name", st.sampled_from([GONE, "", "master-2"])),
    host("host-name-form", "compact", "name", garbage.map(lambda g: g + "_X")),
    host("host-boot-mac", "compact", "bootMACAddress", st.sampled_from([GONE, "", "02:00:00:00:00:16"])),
    host("host-boot-mode", "compact", "bootMode", st.one_of(garbage, st.just("uefi"))),
    host("host-boot-mode", "managed-ipmi", "bootMode", "UEFISecureBoot"),
    host("host-root-device", "compact", "rootDeviceHints", st.sampled_from(["sda", "/dev/disk/by-id/x"]).map(lambda d: {"deviceName": d})),
    host("host-network-config", "compact", "networkConfig", st.sampled_from(["text", [1, 2], 7])),
    host("host-network-mtu", "static-hosts", "networkConfig.interfaces[0].mtu", st.sampled_from(["1500", True, "big"])),
    host("host-role", "three-and-two", "role", st.one_of(st.just(GONE), garbage)),
    host("bmc-address", "compact", "bmc.address", st.sampled_from([GONE, "redfish-virtualmedia+https://192.168.112.22/redfish/v1/Systems/1"])),
    host("bmc-account", "compact", "bmc.username", st.sampled_from([GONE, ""])),
    host("bmc-account", "compact", "bmc.password", GONE),
    on("pool", "compact", {"controlPlane.hyperthreading": garbage}),
    on("pool", "compact", {"compute[0].replicas": st.integers(-9, -1)}),
    on("pool", "compact", {"controlPlane.architecture": garbage}),
    on("pool", "compact", {"compute[0].platform": {"aws": {}}}),
    on("control-plane", "compact", {"controlPlane.replicas": 0}),
    on("arbiter", "arbiter", {"arbiter.name": garbage}),
    on("arbiter", "arbiter", {"arbiter.replicas": 0}),
    on("arbiter", "arbiter", {"controlPlane.replicas": 1}),
    on("compute", "compact", {"compute[0].name": st.one_of(garbage, st.just("edge"))}),
    on("compute", "compact", {"compute": [{"name": "worker", "replicas": 0}] * 2}),
    on("architectures", "compact", {"compute[0].architecture": st.sampled_from(["ppc64le", "s390x"])}),
    on("architectures", "compact", {"controlPlane.architecture": "arm64"}),
    on("fencing-count", "arbiter", {"arbiter": GONE}),
    on("fencing-count", "fencing", {"controlPlane.fencing.credentials[1]": GONE}),
    on("fencing-platform", "fencing", {"platform": {"vsphere": {}}}),
    on("fencing-credentials", "fencing", {"controlPlane.fencing.credentials[{i}].address": "ipmi://192.168.112.20"}),
    on("fencing-credentials", "fencing", {"controlPlane.fencing.credentials[{i}].username": GONE}),
    on("fencing-credentials", "fencing", {"controlPlane.fencing.credentials[{i}].hostName": GONE}),
    on("proxy", "proxy", {"proxy.httpProxy": st.one_of(garbage, st.sampled_from(["https://p:1", "ftp://p", "http://10.128.0.5:3128"]))}),
    on("proxy", "proxy", {"proxy.noProxy": st.sampled_from(["a b", "*.example.com", "a, b", "!!"])}),
    on("proxy", "proxy", {"proxy": {"noProxy": "example.com"}}),
    on("mirrors", "mirrors", {"imageDigestSources[{i}].source": st.sampled_from(["quay.io/a:tag", "https://quay.io/a", "Quay/a b", "", "a/b"])}),
    on("mirrors", "mirrors", {"imageDigestSources[{i}].mirrors[0]": st.sampled_from(["m.example.com/a@sha256:" + "a" * 64, "!!"])}),
    on("mirrors", "mirrors", {"imageDigestSources[{i}].sourcePolicy": garbage}),
    on("mirror-account", "mirrors", {"imageDigestSources[{i}].mirrors[0]": "elsewhere.example.com/x"}),
    on("capability-names", "compact", {"capabilities": garbage.map(lambda g: {"baselineCapabilitySet": "vCurrent", "additionalEnabledCapabilities": [g]})}),
    on("capability-names", "compact", {"capabilities": garbage.map(lambda g: {"baselineCapabilitySet": g})}),
    on("capability-needed", "compact", {"capabilities": {"baselineCapabilitySet": "None"}}),
    on("capability-machine-api", "compact", {"capabilities": {"baselineCapabilitySet": "None", "additionalEnabledCapabilities": ["baremetal", "Ingress"]}}),
    on("feature-set", "compact", {"featureSet": garbage}),
    on("feature-set", "compact", {"featureGates": ["A=true"]}),
    on("feature-set", "compact", {"featureSet": "CustomNoUpgrade", "featureGates": garbage.map(lambda g: [g])}),
    on("gated-fields", "compact", {"pki": {"a": 1}}),
    on("gated-fields", "compact", {f"{_METAL}.bgpVIPConfig": _BGP}),
    on("gated-fields", "fencing", {}, Release(4, 20)),
    on("os-image-stream", "compact", {"osImageStream": garbage}),
    on("bgp", "compact", {**_DEV, f"{_METAL}.bgpVIPConfig": st.sampled_from([{**_BGP, "localASN": 0}, {**_BGP, "peers": []}, {**_BGP, "communities": ["a"]}, {**_BGP, "peers": [_PEER] * 17}])}),
    on("bgp", "compact", {**_DEV, f"{_METAL}.bgpVIPConfig": st.sampled_from(_BAD_PEERS).map(lambda p: {**_BGP, "peers": [_PEER | p]})}),
    metal("provisioning-ip", "managed-ipmi", "clusterProvisioningIP", outside()),
    metal("provisioning-ip", "compact", "bootstrapProvisioningIP", outside()),
    metal("provisioning-network", "managed-ipmi", "provisioningNetworkCIDR", st.sampled_from(["172.22.0.1/24", "192.168.0.0/16", "fd00:1101::/56"])),
    metal("provisioning-gateway", "managed-redfish", "provisioningNetworkGateway", st.sampled_from(["10.0.0.1", "172.22.0.3", "172.22.0.0", "172.22.0.255", "172.22.0.50"])),
    metal("provisioning-dhcp-range", "managed-ipmi", "provisioningDHCPRange", st.one_of(garbage, st.sampled_from(["172.22.0.10, 172.22.0.20", "172.22.0.1,172.22.0.9", "10.0.0.1,10.0.0.2", "a,b,c"]))),
    on("provisioning-dhcp-range", "managed-ipmi", {f"{_METAL}.provisioningDHCPRange": GONE, f"{_METAL}.provisioningNetworkCIDR": "172.22.0.0/29"}),
    metal("ntp-servers", "managed-ipmi", "additionalNTPServers", garbage.map(lambda g: ["-" + g])),
    metal("provisioning-interface", "managed-ipmi", "provisioningNetworkInterface", GONE, Release(4, 8)),
    host("bmc-scheme", "compact", "bmc.address", st.sampled_from(["ipmi://192.168.112.77", "redfish://192.168.112.77/redfish/v1/Systems/1", "foo://x", "192.168.112.77"])),
    metal("libvirt-uri", "compact", "libvirtURI", garbage),
    metal("bridges", "compact", "externalBridge", garbage),
    metal("bridges", "managed-ipmi", "provisioningBridge", garbage),
    metal("bootstrap-macs", "compact", "externalMACAddress", st.one_of(garbage, st.sampled_from(["7d:ce:e3:29:35:6f", "52:54:00:00:00"]))),
    metal("bootstrap-macs", "managed-ipmi", "provisioningMACAddress", "52:54:00:00:00:01"),
    metal("os-images", "compact", "clusterOSImage", st.sampled_from(["ftp://x/y", "x", "http://h/i", "http://h/i?sha256=abc"])),
    metal("os-images-not-asked", "compact", "clusterOSImage", _IMAGE),
    metal("static-bootstrap", "static-bootstrap", "bootstrapExternalStaticDNS", GONE),
    metal("static-bootstrap", "static-bootstrap", "bootstrapExternalStaticIP", GONE),
    metal("vip-edge", "compact", "apiVIPs[0]", st.sampled_from(["192.168.111.0", "192.168.111.255"])),
    metal("vip-taken", "static-bootstrap", "apiVIPs[0]", st.sampled_from(["192.168.111.9", "192.168.111.1"])),
    metal("dhcp-range-reversed", "managed-ipmi", "provisioningDHCPRange", last_octet.map(lambda n: f"172.22.0.{n},172.22.0.10")),
    metal("provisioning-twins", "managed-ipmi", "clusterProvisioningIP", st.sampled_from(["172.22.0.2", "172.22.0.0", "172.22.0.255"])),
    metal("provisioning-twins", "managed-redfish", "provisioningNetworkGateway", "172.22.0.2"),
    on("provisioning-overlap", "managed-ipmi", {f"{_METAL}.provisioningDHCPRange": GONE, f"{_METAL}.provisioningNetworkCIDR": st.sampled_from(["10.129.0.0/24", "172.30.4.0/24"])}),
    on("pods-per-host", "compact", {"networking.clusterNetwork[0].hostPrefix": st.integers(29, 32)}),
    on("nodes-per-network", "three-and-two", {"networking.clusterNetwork[0]": {"cidr": "10.128.0.0/22", "hostPrefix": 23}}),
    on("few-pods", "compact", {"networking.clusterNetwork[0].hostPrefix": st.integers(25, 28)}),
    metal("static-bootstrap-values", "static-bootstrap", "bootstrapExternalStaticDNS", garbage),
    metal("static-bootstrap-place", "static-bootstrap", "bootstrapExternalStaticIP", outside()),
    metal("static-bootstrap-place", "static-bootstrap", "bootstrapExternalStaticGateway", outside()),
    metal("one-bridge", "managed-ipmi", "provisioningBridge", "baremetal"),
    host("boot-mac", "compact", "bootMACAddress", st.one_of(garbage, st.sampled_from(["01:00:00:00:00:01", "52:54:00:00:00:01", "02-00-00-00-00-16"]))),
    host("bmc-address-works", "managed-ipmi", "bmc.address", st.sampled_from(["foo://x", "ipmi://bad_name", "redfish://192.168.112.77", "ipmi://192.168.112.22:623"])),
    host("pxe-without-network", "compact", "bmc.address", "ipmi://192.168.112.77", Release(4, 10)),
    host("role-less-masters", "managed-ipmi", "role", st.sampled_from([GONE, "control"])),
    host("long-label", "compact", "name", st.just("a" * 64)),
    host("static-address-taken", "static-hosts", "networkConfig.interfaces[0].ipv4.address[0].ip", st.sampled_from(["192.168.111.5", "192.168.111.22"])),
    host("quoted-mtu", "static-hosts", "networkConfig.interfaces[0].mtu", "1500", Release(4, 19)),
    host("nmstate-form", "static-hosts", "networkConfig", st.sampled_from([{"interface": []}, {"interfaces": [{"type": "ethernet"}]}])),
    host("hardware-profile", "compact", "hardwareProfile", garbage),
    on("network-type-known", "compact", {"networking.networkType": st.one_of(garbage, st.just("ovnkubernetes"))}),
    metal("vip-one-family", "dual-stack", "apiVIPs", ["192.168.111.5"]),
    metal("vip-other-family", "compact", "ingressVIPs", ["192.168.111.4", "fd2e::4"]),
    on("vip-user-managed", "own-load-balancer", {}),
    on("ssh-key-missing", "compact", {"sshKey": st.sampled_from([GONE, "", "\n"])}),
    on("pull-secret-complete", "compact", {"pullSecret": '{"auths":{"quay.io":{"auth":"dTpw"}}}'}),
    on("pull-secret-works", "compact", {"pullSecret": st.sampled_from(["!!", 7]).map(lambda a: json.dumps({"auths": {"quay.io": {"auth": a}}}))}),
    on("control-plane-size", "compact", {"controlPlane.replicas": 1}),
    on("two-without-quorum", "compact", {"controlPlane.replicas": 2}, Release(4, 18)),
    metal("disabled-leftovers", "compact", "provisioningDHCPRange", garbage),
    metal("disabled-leftovers", "compact", "provisioningNetworkCIDR", "172.22.0.0/24"),
    on("words-of-the-api", "compact", {"cpuPartitioningMode": garbage}),
    metal("words-of-the-api", "own-load-balancer", "dnsRecordsType", garbage),
    metal("vip-of-the-router", "compact", "apiVIPs[0]", "192.168.111.1"),
    on("hidden-platform", "compact", {"platform.none": {}}),
    on("single-label-domain", "compact", {"baseDomain": "lan"}),
    on("single-node-in-place", "compact", {"bootstrapInPlace": {"installationDisk": "/dev/sda"}}, Release(4, 20)),
]  # fmt: skip


_TREES: dict[tuple[str, Release], Tree] = {}


def _tree(wanted: ClusterInput, mode: str, release: Release) -> Tree:
    if (mode, release) not in _TREES:
        _TREES[mode, release] = yaml.safe_load(render(replace(wanted, release=release)))
    return _TREES[mode, release]


def _steps(path: str) -> list[str | int]:
    return [int(number) if number else name for name, number in re.findall(r"([A-Za-z0-9_-]+)|\[(\d+)\]", path)]


def put(tree: Tree, path: str, value: Any) -> None:
    *parents, last = _steps(path)
    here: Any = tree
    for step in parents:
        here = here[step] if isinstance(step, int) else here.setdefault(step, {})
    if value is GONE:
        if isinstance(last, int):
            del here[last]
        else:
            here.pop(last, None)
    else:
        here[last] = value


def test_every_rule_has_a_mutation() -> None:
    assert {one.rule for one in MUTATIONS} == {rule.name for rule in ALL}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: f"{one.rule}-{one.mode}")
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_mistake_is_found_by_its_rule(
    mutation: Mutation, every_mode: dict[str, ClusterInput], data: st.DataObject
) -> None:
    tree = copy.deepcopy(_tree(every_mode[mutation.mode], mutation.mode, mutation.release))
    if mutation.rule == "gated-fields" and not mutation.changes:
        del tree["featureSet"]
    chosen = data.draw(index)
    for path, value in mutation.changes.items():
        drawn = data.draw(value) if isinstance(value, st.SearchStrategy) else value
        put(tree, path.replace("{i}", str(chosen)), drawn)
    rule = next(one for one in ALL if one.name == mutation.rule)
    report = check(json.dumps(tree, indent=1), mutation.release)
    found = [one for one in report.findings if one.rule == mutation.rule]
    assert found, [(one.rule, one.path, one.message) for one in report.findings]
    assert {(one.severity, one.phase) for one in found} == {(rule.severity, rule.phase)}
    assert all(one.fix and one.message and one.line >= 1 and one.column >= 1 for one in found)


names = st.from_regex(r"\A[a-z][a-z0-9-]{0,20}[a-z0-9]\Z")


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    name=names,
    domain=st.from_regex(r"\A[a-z]{1,10}\.[a-z]{2,6}\Z"),
    third=st.integers(0, 250),
    mode=st.sampled_from(["compact", "three-and-two", "managed-ipmi", "managed-redfish", "unmanaged-redfish", "proxy"]),
    release=st.sampled_from([Release(4, 6), Release(4, 9), Release(4, 12), Release(4, 16), Release(4, 20), NEWEST]),
    vips=st.lists(st.integers(2, 18), min_size=2, max_size=2, unique=True),
)
def test_a_sensible_cluster_stays_sensible(
    every_mode: dict[str, ClusterInput],
    name: str,
    domain: str,
    third: int,
    mode: str,
    release: Release,
    vips: list[int],
) -> None:
    network = f"192.168.{third}." if third not in (112,) else "192.168.250."
    wanted = replace(
        every_mode[mode],
        release=release,
        name=name,
        base_domain=domain,
        machine_networks=(network + "0/24",),
        api_vips=(network + str(vips[0]),),
        ingress_vips=(network + str(vips[1]),),
    )
    report = check(render(wanted), release)
    assert report.accepted and report.clean, report.findings


def test_findings_point_at_the_line_of_the_mistake(every_mode: dict[str, ClusterInput]) -> None:
    text = render(every_mode["compact"])
    lines = text.splitlines()
    where = next(i for i, line in enumerate(lines) if "02:00:00:00:00:15" in line)
    lines[where] = lines[where].replace("02:00:00:00:00:15", "not-a-mac")
    (finding,) = [one for one in check("\n".join(lines)).findings if one.rule == "boot-mac"]
    assert finding.line == where + 1
    assert lines[where][finding.column - 1 :] == "not-a-mac"


def test_the_path_of_a_host_is_the_installers_and_the_line_is_the_files(every_mode: dict[str, ClusterInput]) -> None:
    """The installer sorts masters before workers; the worker is written first here."""
    wanted = every_mode["three-and-two"]
    reordered = replace(wanted, hosts=(*wanted.of("worker"), *wanted.of("master")))
    tree = yaml.safe_load(render(reordered))
    tree["platform"]["baremetal"]["hosts"][0]["bootMACAddress"] = "nope"
    text = yaml.safe_dump(tree, sort_keys=False)
    (finding,) = [one for one in check(text).findings if one.rule == "boot-mac"]
    assert finding.path == "platform.baremetal.hosts[3].bootMACAddress"
    assert "nope" in text.splitlines()[finding.line - 1]
