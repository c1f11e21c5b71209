"""The installer's bootstrap Ignition config as one of ours, for a full rehearsal. Pure, but for keys that are made.

From the installer's come names, VIPs, networks, manifests (`manifests`), the certificates by which its kubeconfig knows the API,
its client CAs, and the machine-config server's certificate. etcd, the API server, Ironic and the controllers are ours, with CAs of
their own, as after `rackless install create cluster`.
"""

from __future__ import annotations

import json
import secrets as random
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

from rackless.api.access.keys import CLIENTS, NAMED
from rackless.cluster.openshift.driving import refuse_host
from rackless.cluster.openshift.faults import PLAYED_AFTERWARDS, InstallFault
from rackless.cluster.openshift.ignition import NoIgnition
from rackless.cluster.openshift.manifests import provisioning, translate_manifests
from rackless.cluster.openshift.payload import Json
from rackless.cluster.openshift.site import HOME, ClusterSite
from rackless.installer.assets.bootstrap import PROVISIONING_INTERFACE
from rackless.installer.assets.certificates import ADMIN, ADMINS, BOOTSTRAP, NodeToken, kubeconfig, shown
from rackless.installer.assets.documents import render, render_json
from rackless.installer.assets.ignition import bootstrap_units, control_plane, front
from rackless.installer.assets.ignition.machines import OneCluster, OneMachine
from rackless.installer.assets.ignition.merging import merge
from rackless.installer.assets.ignition.parts import SPEC, file, unit, user
from rackless.installer.assets.manifests.machine_configs import configs_of
from rackless.installer.assets.manifests.roles import ARBITER
from rackless.installer.assets.manifests.trust import access_objects
from rackless.installer.assets.names import API_PORT, ClusterNames
from rackless.installer.assets.release import NODE, PAYLOAD, Release, ReleaseFile, render_release
from rackless.installer.assets.rendered import MASTER, node_kubeconfig, rendered
from rackless.installer.assets.signing import KeyPair, make_authority, make_token_key, sign
from rackless.trust.authority import BOTH_USES, Use

ROLES = (MASTER, "worker")
SERVED = {"api": "kube-apiserver-lb-server", "api-int": "kube-apiserver-internal-lb-server"}
"""Certificates of the installer's that the API shows to who calls it by that name; our own clients call it by address."""
REHEARSAL_UNIT = "rackless-rehearsal.service"
_ACCESS = "manifests/node-bootstrapper-access.yaml"
_HAND_OVER = "rackless-hand-over.service"


@dataclass(frozen=True, slots=True)
class BootstrapNic:
    """Where the bootstrap machine stands on the cluster network."""

    address: IPv4Interface
    mac: str


def refuse(site: ClusterSite) -> None:
    """Raises InputError for what the rehearsal's bootstrap cannot install."""
    mode = str((provisioning(site).get("spec") or {}).get("provisioningNetwork"))
    for host in site.hosts:
        refuse_host(host.name, host.bmc, mode)


def read_release(text: str) -> dict[str, ReleaseFile]:
    """The release server's list. Raises NoIgnition."""
    try:
        return {name: ReleaseFile(str(each["url"]), str(each["sha256"])) for name, each in json.loads(text).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoIgnition(f"the release server's list cannot be read: {error}") from error


def translate(site: ClusterSite, nic: BootstrapNic, release: Release, fault: InstallFault | None = None) -> str:
    """`release` names the node image and the payload. Raises NoIgnition, and InputError for what cannot be installed."""
    refuse(site)
    names, ssh = _names(site)
    boots = site.boot_network
    machine = OneMachine(BOOTSTRAP, f"{BOOTSTRAP}.{names.domain}", IPv4Address("127.0.0.1"), nic.mac)
    cluster = OneCluster(names.cluster, names.domain, site.api_vip, (machine,))
    etcd, api = make_authority("etcd-signer"), make_authority("kube-apiserver-signer")
    token = _make_token()
    files = [
        file("/etc/hostname", f"{BOOTSTRAP}\n"),
        file("/etc/hosts", f"127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {machine.fqdn} {machine.name}\n"),
        file("/etc/rackless-release", f"CLUSTER={names.domain}\nROLE={BOOTSTRAP}\n"),
        *control_plane.files(machine, cluster, _secrets(etcd, api, machine, nic)),
        *_api_trust(site),
        *_network(site),
        *_materials(site, names, nic, release, etcd, api, token, fault),
    ]
    units = bootstrap_units.units(
        names.api_vips[0],
        payload=PAYLOAD in release,
        provisioning=PROVISIONING_INTERFACE if boots is not None else "",
    )
    if fault is InstallFault.CONFIG_MAP_MISSING:
        units = [each for each in units if each["name"] != _HAND_OVER]
    tree = {
        "ignition": {"version": SPEC},
        "passwd": {"users": [user(ssh)]},
        "storage": {"files": files, "directories": control_plane.folders()},
        "systemd": {"units": [*control_plane.units(machine, cluster), *units]},
    }
    return render_json(tree)


def _names(site: ClusterSite) -> tuple[ClusterNames, str]:
    """And the public keys of who may log in."""
    config = site.install_config
    base = str(config["baseDomain"]).removesuffix(".")
    names = ClusterNames(str(config["metadata"]["name"]), base, (str(site.api_vip),), (str(site.ingress_vip),))
    if names.api != site.api:
        raise NoIgnition(f"the cluster's API is {site.api} in one manifest and {names.api} in another")
    return names, str(config.get("sshKey") or "")


def _make_token() -> NodeToken:
    letters = string.ascii_lowercase + string.digits
    first, second = ("".join(random.choice(letters) for _ in range(size)) for size in (6, 16))
    return NodeToken(first, second)


def _secrets(etcd: KeyPair, api: KeyPair, machine: OneMachine, nic: BootstrapNic) -> control_plane.ControlPlaneSecrets:
    hosts = ["127.0.0.1", "localhost", machine.name, machine.fqdn, str(nic.address.ip)]
    member, client = (
        sign(etcd, BOOTSTRAP, hosts, uses=BOTH_USES),
        sign(etcd, f"api-{BOOTSTRAP}", uses=(Use.CLIENT,)),
    )
    return control_plane.ControlPlaneSecrets(
        etcd_ca=etcd.certificate, etcd_certificate=member.certificate, etcd_key=member.key,
        store_certificate=client.certificate, store_key=client.key,
        api_ca=api.certificate, api_ca_key=api.key, api_token_key=make_token_key(),
    )  # fmt: skip


def _api_trust(site: ClusterSite) -> Iterator[Json]:
    """What the API shows to who calls it by its names, and whose client certificates it takes besides its own CA's."""
    for name, theirs in SERVED.items():
        certificate, key = site.tls(theirs)
        place = f"{control_plane.PKI}/{NAMED}/{name}"
        yield file(f"{place}.crt", certificate.decode(), user=control_plane.API_USER)
        yield file(f"{place}.key", key.decode(), mode=0o600, user=control_plane.API_USER)
    yield file(f"{control_plane.PKI}/{CLIENTS}", site.client_ca, user=control_plane.API_USER)


def _network(site: ClusterSite) -> Iterator[Json]:
    """A fixed address where the site has no DHCP for it, and the well-known one on the network that hosts boot from."""
    if (found := site.static) is not None:
        more = f"Gateway={found.gateway}\n" if found.gateway else ""
        more += "".join(f"DNS={server}\n" for server in found.dns)
        yield _network_file("10-cluster", front.INTERFACE, found.address, more)
    if (boots := site.boot_network) is not None:
        link = f"[Match]\nMACAddress={boots.mac}\n\n[Link]\nName={PROVISIONING_INTERFACE}\n"
        yield file("/etc/systemd/network/10-provisioning.link", link)
        yield _network_file("10-provisioning", PROVISIONING_INTERFACE, boots.address)


def _network_file(name: str, interface: str, address: IPv4Interface, more: str = "") -> Json:
    text = f"[Match]\nName={interface}\n\n[Network]\nDHCP=no\nIPv6AcceptRA=no\nAddress={address}\n{more}"
    return file(f"/etc/systemd/network/{name}.network", text)


def _materials(
    site: ClusterSite, names: ClusterNames, nic: BootstrapNic, release: Release, etcd: KeyPair, api: KeyPair,
    token: NodeToken, fault: InstallFault | None,
) -> Iterator[Json]:  # fmt: skip
    found = translate_manifests(site, release[NODE], fault)
    server, server_key = (part.decode() for part in site.tls("machine-config-server"))
    admin = sign(api, ADMIN, uses=(Use.CLIENT,), groups=(ADMINS,))
    loopback = kubeconfig(names.cluster, api.certificate, f"https://localhost:{API_PORT}", "admin", shown(admin))
    joining = node_kubeconfig(names, api.certificate, f"{token.id}.{token.secret}")
    roles = (*ROLES, ARBITER) if site.install_config.get("arbiter") else ROLES
    kept: Mapping[str, str] = {
        **found,
        _ACCESS: render(*access_objects(token)),
        "release.json": render_release({name: release[name] for name in (NODE, PAYLOAD) if name in release}),
        "auth/kubeconfig": site.bootstrap.text(f"{HOME}/auth/kubeconfig"),
        "auth/kubeconfig-loopback": loopback,
        "tls/machine-config-server.crt": server,
        "tls/machine-config-server.key": server_key,
        "tls/root-ca.crt": site.root_ca,
        "tls/etcd-ca.crt": etcd.certificate,
        "tls/etcd-ca.key": etcd.key,
        **{
            f"machine-config/{role}.ign": render_json(_rendered(role, names, nic, joining, found, fault))
            for role in roles
        },
    }
    for path, text in kept.items():
        yield file(f"{bootstrap_units.ROOT}/{path}", text, mode=0o600)


def _rendered(
    role: str,
    names: ClusterNames,
    nic: BootstrapNic,
    joining: str,
    found: Mapping[str, str],
    fault: InstallFault | None,
) -> dict[str, Any]:
    if role not in (MASTER, ARBITER):
        return rendered(role, names, joining, found)
    config = rendered(MASTER, names, joining, found)
    if role == ARBITER:  # a control plane like the others, but for its MachineConfigs
        for each in configs_of(ARBITER, found):
            config = merge(config, each)
    # a bootstrap whose MAC nobody knew beforehand has no name in the site's DNS
    hosts = f"127.0.0.1 localhost\n::1 localhost\n{nic.address.ip} {BOOTSTRAP}.{names.domain} {BOOTSTRAP}\n"
    words = f"--apps apps.{names.domain}"
    if fault is not None and fault in PLAYED_AFTERWARDS:
        words += f" --fail {fault.value}"
    ours = {
        "ignition": {"version": SPEC},
        "storage": {"files": [file("/etc/hosts", hosts)]},
        "systemd": {"units": [unit(REHEARSAL_UNIT, _REHEARSAL.format(words=words))]},
    }
    return merge(config, ours)


_REHEARSAL = """\
[Unit]
Description=What the installer waits for after its bootstrap: etcd's word, operators, the cluster's version
Requires=rackless-control-plane.service
After=rackless-control-plane.service
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/rackless bootstrap operators {words}
Restart=on-failure
RestartSec=5
StandardOutput=journal+console

[Install]
WantedBy=multi-user.target
"""
