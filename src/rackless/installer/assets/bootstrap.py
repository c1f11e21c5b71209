"""The bootstrap machine's Ignition config: a control plane of one member, with all manifests, keys and rendered configs of the
cluster.

Its etcd and its API server answer on loopback, and haproxy and the VIP stand before them as on every control plane: so the
API has its VIP only while it is ready, and no address of the machine's own has to be known beforehand. Manifests, keys and
rendered configs lie under /opt/openshift, where OpenShift's have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, ip_address
from typing import Any

from rackless.installer.assets import certificates as trust
from rackless.installer.assets.asset import Asset, Given, Parts, as_is
from rackless.installer.assets.catalogue_manifests import ALL_MANIFESTS
from rackless.installer.assets.documents import render_json
from rackless.installer.assets.ignition import bootstrap_units, control_plane, front
from rackless.installer.assets.ignition.machines import OneCluster, OneMachine
from rackless.installer.assets.ignition.parts import SPEC, file, user
from rackless.installer.assets.install_config import INSTALL_CONFIG
from rackless.installer.assets.names import API_PORT, NAMES, ClusterNames
from rackless.installer.assets.pointers import ignition_mistakes
from rackless.installer.assets.release import PAYLOAD, RELEASE
from rackless.installer.assets.rendered import RENDERED
from rackless.installer.install_config.config import BareMetalPlatform, Config
from rackless.installer.install_config.values import parse_ip

FILE = "bootstrap.ign"
PROVISIONING_INTERFACE = "provision0"


def _make(given: Given) -> Parts:
    config, names = given.of(INSTALL_CONFIG), given.of(NAMES)
    metal = config.metal
    assert metal is not None
    machine = OneMachine(
        trust.BOOTSTRAP, f"{trust.BOOTSTRAP}.{names.domain}", IPv4Address("127.0.0.1"), metal.external_mac
    )
    cluster = OneCluster(names.cluster, names.domain, ip_address(names.api_vips[0]), (machine,))
    secrets = _secrets(given)
    files = [
        file("/etc/hostname", f"{trust.BOOTSTRAP}\n"),
        # its etcd is known by this name, and looks itself up when it starts
        file("/etc/hosts", f"127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {machine.fqdn} {machine.name}\n"),
        file("/etc/rackless-release", f"CLUSTER={names.domain}\nROLE={trust.BOOTSTRAP}\n"),
        *control_plane.files(machine, cluster, secrets),
        *_networks(config, metal),
        *_materials(given, names),
    ]
    units = [
        *control_plane.units(machine, cluster),
        *bootstrap_units.units(
            names.api_vips[0],
            payload=PAYLOAD in given.of(RELEASE),
            provisioning="" if metal.disabled else PROVISIONING_INTERFACE,
        ),
    ]
    tree = {
        "ignition": {"version": SPEC},
        "passwd": {"users": [user(config.text("sshKey"))]},
        "storage": {"files": files, "directories": control_plane.folders()},
        "systemd": {"units": units},
    }
    return {FILE: render_json(tree)}


def _secrets(given: Given) -> control_plane.ControlPlaneSecrets:
    etcd, member, client = given.of(trust.ETCD_CA), given.of(trust.ETCD_MEMBER), given.of(trust.ETCD_CLIENT)
    api = given.of(trust.API_CA)
    return control_plane.ControlPlaneSecrets(
        etcd_ca=etcd.certificate,
        etcd_certificate=member.certificate,
        etcd_key=member.key,
        store_certificate=client.certificate,
        store_key=client.key,
        api_ca=api.certificate,
        api_ca_key=api.key,
        api_token_key=given.of(trust.TOKEN_KEY),
    )


def _networks(config: Config, metal: BareMetalPlatform) -> Iterator[dict[str, Any]]:
    """A fixed address where the site has no DHCP for it, and the well-known one on the provisioning network."""
    if metal.static_ip:
        yield _network("10-cluster", front.INTERFACE, metal.static_ip, _prefix(config, metal.static_ip),
                       metal.static_gateway, metal.static_dns)  # fmt: skip
    if not metal.disabled and metal.cidr is not None:
        link = f"[Match]\nMACAddress={metal.provisioning_mac}\n\n[Link]\nName={PROVISIONING_INTERFACE}\n"
        yield file("/etc/systemd/network/10-provisioning.link", link)
        yield _network("10-provisioning", PROVISIONING_INTERFACE, metal.bootstrap_ip, metal.cidr.prefix)


def _network(name: str, interface: str, address: str, prefix: int, gateway: str = "", dns: str = "") -> dict[str, Any]:
    more = (f"Gateway={gateway}\n" if gateway else "") + (f"DNS={dns}\n" if dns else "")
    text = f"[Match]\nName={interface}\n\n[Network]\nDHCP=no\nIPv6AcceptRA=no\nAddress={address}/{prefix}\n{more}"
    return file(f"/etc/systemd/network/{name}.network", text)


def _prefix(config: Config, address: str) -> int:
    found = parse_ip(address)
    return next((one.prefix for one in config.networking.machine_cidrs if found is not None and found in one), 24)


def _materials(given: Given, names: ClusterNames) -> Iterator[dict[str, Any]]:
    manifests: dict[str, str] = {}
    for asset in ALL_MANIFESTS:
        manifests |= given.parts(asset)
    server, root, etcd = given.of(trust.MACHINE_CONFIG_SERVER), given.of(trust.ROOT_CA), given.of(trust.ETCD_CA)
    admin = given.of(trust.ADMIN_CERTIFICATE)
    loopback = trust.kubeconfig(
        names.cluster, given.of(trust.API_CA).certificate, f"https://localhost:{API_PORT}", "admin", trust.shown(admin)
    )
    kept: Mapping[str, str] = {
        **dict(sorted(manifests.items())),
        **given.parts(RELEASE),
        "auth/kubeconfig": given.parts(trust.ADMIN_KUBECONFIG)[trust.KUBECONFIG],
        "auth/kubeconfig-loopback": loopback,
        "tls/machine-config-server.crt": server.certificate,
        "tls/machine-config-server.key": server.key,
        "tls/root-ca.crt": root.certificate,
        "tls/etcd-ca.crt": etcd.certificate,
        "tls/etcd-ca.key": etcd.key,
        **{f"machine-config/{role}.ign": text for role, text in given.of(RENDERED).items()},
    }
    for path, text in kept.items():
        yield file(f"{bootstrap_units.ROOT}/{path}", text, mode=0o600)


BOOTSTRAP_CONFIG = Asset(
    "bootstrap", "Bootstrap Ignition Config", _make, as_is,
    (
        INSTALL_CONFIG, NAMES, trust.ROOT_CA, trust.ETCD_CA, trust.ETCD_MEMBER, trust.ETCD_CLIENT, trust.API_CA,
        trust.TOKEN_KEY, trust.MACHINE_CONFIG_SERVER, trust.ADMIN_CERTIFICATE, trust.ADMIN_KUBECONFIG, RENDERED,
        RELEASE, *ALL_MANIFESTS,
    ),
    files=(FILE,), check=ignition_mistakes, options={"ignition": SPEC},
)  # fmt: skip
