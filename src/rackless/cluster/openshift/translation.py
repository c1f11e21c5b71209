"""The installer's bootstrap Ignition config as one of ours, for a full rehearsal. Pure, but for keys that are made.

From the installer's come names, VIPs, manifests, the certificates by which its kubeconfig knows the API, its client CAs, and the
machine-config server's certificate. etcd, the API server, Ironic and the controllers are ours, with CAs of their own, as after
`rackless install create cluster`. Hosts and machines that would be written by OpenShift's deploy step get the reference system.
"""

from __future__ import annotations

import json
import secrets as random
import string
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

import yaml

from rackless.api.access.keys import CLIENTS, NAMED
from rackless.api.definitions.hosts import HOSTS
from rackless.api.definitions.machines import MACHINES
from rackless.api.kinds.builtin import BUILTIN
from rackless.cluster.openshift import payload
from rackless.cluster.openshift.ignition import NoIgnition
from rackless.cluster.openshift.payload import Json
from rackless.cluster.openshift.site import HOME, ClusterSite
from rackless.errors import InputError
from rackless.installer.assets.certificates import ADMIN, ADMINS, BOOTSTRAP, NodeToken, kubeconfig, shown
from rackless.installer.assets.documents import render, render_json
from rackless.installer.assets.ignition import bootstrap_units, control_plane, front
from rackless.installer.assets.ignition.machines import OneCluster, OneMachine
from rackless.installer.assets.ignition.merging import merge
from rackless.installer.assets.ignition.parts import SPEC, file, unit, user
from rackless.installer.assets.manifests.definitions import DEFINITIONS
from rackless.installer.assets.manifests.images import METHOD
from rackless.installer.assets.manifests.objects import thing
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
_GROUND = "manifests/00_rehearsal.yaml"
_ACCESS = "manifests/node-bootstrapper-access.yaml"
_VIRTUAL_MEDIA = ("redfish-virtualmedia", "idrac-virtualmedia", "ilo5-virtualmedia", "redfish-uefihttp")


@dataclass(frozen=True, slots=True)
class BootstrapNic:
    """Where the bootstrap machine stands on the cluster network."""

    address: IPv4Interface
    mac: str


def refuse(site: ClusterSite) -> None:
    """Raises InputError for what the rehearsal's bootstrap cannot install yet."""
    network = (_provisioning(site).get("spec") or {}).get("provisioningNetwork")
    if network != "Disabled":
        raise InputError(
            f"a full rehearsal needs provisioningNetwork: Disabled, and here it is {network}",
            why="the rehearsal's bootstrap installs hosts by virtual media so far",
            hint="rehearse it with --quick",
        )
    for host in site.hosts:
        refuse_host(host.name, host.bmc, str((host.manifest.get("spec") or {}).get("bootMode") or "UEFI"))


def refuse_host(name: str, bmc: str, boot_mode: str) -> None:
    scheme = bmc.partition("://")[0].partition("+")[0]
    if scheme not in _VIRTUAL_MEDIA:
        raise InputError(
            f"a full rehearsal cannot install {name}",
            why=f"its BMC is reached by {scheme}, and the rehearsal's bootstrap installs by virtual media only",
            hint="rehearse it with --quick",
        )
    if boot_mode.lower() == "legacy":
        raise InputError(
            f"a full rehearsal cannot install {name}",
            why="it boots in legacy mode, and the rehearsal's bootstrap installs by UEFI only",
            hint="rehearse it with --quick",
        )


def read_release(text: str) -> dict[str, ReleaseFile]:
    """The release server's list. Raises NoIgnition."""
    try:
        return {name: ReleaseFile(str(each["url"]), str(each["sha256"])) for name, each in json.loads(text).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoIgnition(f"the release server's list cannot be read: {error}") from error


def translate(site: ClusterSite, nic: BootstrapNic, release: Release) -> str:
    """`release` names the node image and the payload. Raises NoIgnition, and InputError for what cannot be installed."""
    refuse(site)
    names, ssh = _names(site)
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
        *_materials(site, names, nic, release, etcd, api, token),
    ]
    tree = {
        "ignition": {"version": SPEC},
        "passwd": {"users": [user(ssh)]},
        "storage": {"files": files, "directories": control_plane.folders()},
        "systemd": {
            "units": [
                *control_plane.units(machine, cluster),
                *bootstrap_units.units(names.api_vips[0], payload=PAYLOAD in release),
            ]
        },
    }
    return render_json(tree)


def _names(site: ClusterSite) -> tuple[ClusterNames, str]:
    """And the public keys of who may log in."""
    text = yaml.safe_load(site.bootstrap.text(f"{HOME}/manifests/cluster-config.yaml"))["data"]["install-config"]
    config = yaml.safe_load(text)
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
    if site.static is None:
        return
    found = site.static
    more = f"Gateway={found.gateway}\n" if found.gateway else ""
    more += "".join(f"DNS={server}\n" for server in found.dns)
    text = f"[Match]\nName={front.INTERFACE}\n\n[Network]\nDHCP=no\nIPv6AcceptRA=no\nAddress={found.address}\n{more}"
    yield file("/etc/systemd/network/10-cluster.network", text)


def _materials(
    site: ClusterSite, names: ClusterNames, nic: BootstrapNic, release: Release, etcd: KeyPair, api: KeyPair,
    token: NodeToken,
) -> Iterator[Json]:  # fmt: skip
    found = manifests(site, release[NODE])
    server, server_key = (part.decode() for part in site.tls("machine-config-server"))
    admin = sign(api, ADMIN, uses=(Use.CLIENT,), groups=(ADMINS,))
    loopback = kubeconfig(names.cluster, api.certificate, f"https://localhost:{API_PORT}", "admin", shown(admin))
    joining = node_kubeconfig(names, api.certificate, f"{token.id}.{token.secret}")
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
        **{f"machine-config/{role}.ign": render_json(_rendered(role, names, nic, joining, found)) for role in ROLES},
    }
    for path, text in kept.items():
        yield file(f"{bootstrap_units.ROOT}/{path}", text, mode=0o600)


def _rendered(
    role: str, names: ClusterNames, nic: BootstrapNic, joining: str, found: Mapping[str, str]
) -> dict[str, Any]:
    config = rendered(role, names, joining, found)
    if role != MASTER:
        return config
    # a bootstrap whose MAC nobody knew beforehand has no name in the site's DNS
    hosts = f"127.0.0.1 localhost\n::1 localhost\n{nic.address.ip} {BOOTSTRAP}.{names.domain} {BOOTSTRAP}\n"
    ours = {
        "ignition": {"version": SPEC},
        "storage": {"files": [file("/etc/hosts", hosts)]},
        "systemd": {"units": [unit(REHEARSAL_UNIT, _REHEARSAL.format(apps=f"apps.{names.domain}"))]},
    }
    return merge(config, ours)


_REHEARSAL = """\
[Unit]
Description=What the installer waits for after its bootstrap: etcd's word, operators, the cluster's version
Requires=rackless-control-plane.service
After=rackless-control-plane.service
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/rackless bootstrap operators --apps {apps}
Restart=on-failure
RestartSec=5
StandardOutput=journal+console

[Install]
WantedBy=multi-user.target
"""


# manifests


class _Texts(yaml.SafeLoader):
    """Dates stay texts, as JSON has them and as the installer means them."""


_Texts.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in listed if tag != "tag:yaml.org,2002:timestamp"]
    for first, listed in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def manifests(site: ClusterSite, node: ReleaseFile) -> dict[str, str]:
    """By path: the installer's, with the reference system for hosts; before them what OpenShift's payload would bring."""
    found: dict[str, str] = {}
    objects: list[Json] = []
    for path, data in sorted(site.bootstrap.files.items()):
        folder, _, name = path.removeprefix(f"{HOME}/").partition("/")
        if (
            not path.startswith(f"{HOME}/")
            or folder not in ("manifests", "openshift")
            or "/" in name
            or not data.strip()
        ):
            continue
        if not name.endswith((".yaml", ".yml", ".json")):
            continue
        things = [_with_system(each, node) for each in yaml.load_all(data, _Texts) if each]
        if things:
            found[f"{folder}/{name}"] = render(*things)
        objects += things
    return {_GROUND: render(*_ground(objects)), **found}


def _with_system(each: Json, node: ReleaseFile) -> Json:
    """`install_coreos` as an image to be written; what only another API server would take is left out."""
    each = deepcopy(each)
    if each["kind"] == "ClusterVersion":
        each["metadata"].pop("namespace", None)  # it has none, whatever its manifest says
    if each["kind"] == "Provisioning":
        each["spec"]["provisioningOSDownloadURL"] = (
            ""  # the live ISO's, from the installer's environment: no system for hosts
        )
    places = {
        "BareMetalHost": ("spec",),
        "Machine": ("spec", "providerSpec", "value"),
        "MachineSet": ("spec", "template", "spec", "providerSpec", "value"),
    }
    steps = places.get(each["kind"])
    if steps is None:
        return each
    spec: Any = each
    for step in steps:
        spec = spec.get(step) or {}
    if isinstance(spec.get("bmc"), dict):
        spec["bmc"]["disableCertificateVerification"] = True  # a twin's BMCs have certificates of the lab's CA
    if (spec.get("customDeploy") or {}).get("method") == METHOD:
        del spec["customDeploy"]
        spec["image"] = {"url": node.url, "checksum": node.sha256, "checksumType": "sha256"}
    return each


def _ground(objects: list[Json]) -> list[Json]:
    """Namespaces and definitions of all kinds that the objects are of and no API of ours has by itself."""
    spaces = {str(each["metadata"].get("namespace") or "") for each in objects} | set(payload.NAMESPACES)
    known = {("" if not each.group else each.group, each.kind) for each in BUILTIN}
    ours = (*HOSTS, *MACHINES)  # the API server has these from its start
    known |= {(each["spec"]["group"], each["spec"]["names"]["kind"]) for each in ours}
    made = [*DEFINITIONS]
    for each in (*payload.definitions(), *(_free_definition(one) for one in objects if "/" in one["apiVersion"])):
        place = each["spec"]["group"], each["spec"]["names"]["kind"]
        if place not in known and place not in {(one["spec"]["group"], one["spec"]["names"]["kind"]) for one in made}:
            made.append(each)
    there = ("", "default", "kube-system", "kube-public", "kube-node-lease")
    return [*(thing("v1", "Namespace", name) for name in sorted(spaces) if name not in there), *made]


def _free_definition(each: Json) -> Json:
    group, _, version = each["apiVersion"].rpartition("/")
    kind = each["kind"]
    plural = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"
    return payload.definition(group, version, kind, plural, bool(each["metadata"].get("namespace")))


def _provisioning(site: ClusterSite) -> Json:
    for path, data in site.bootstrap.files.items():
        if path.startswith(f"{HOME}/openshift/") and b"kind: Provisioning" in data:
            found: Json = yaml.safe_load(data)
            return found
    raise NoIgnition("the installer's config has no Provisioning")
