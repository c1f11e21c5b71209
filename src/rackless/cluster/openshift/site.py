"""What a bootstrap Ignition config says of the cluster it is for: names, VIPs, certificates, hosts with their BMCs. Pure."""

from __future__ import annotations

import base64
import binascii
import configparser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

import yaml

from rackless.cluster.openshift.ignition import Bootstrap, NoIgnition
from rackless.installer.install_config.config import DISABLED

HOME = "/opt/openshift"
_INFRASTRUCTURE = f"{HOME}/manifests/cluster-infrastructure-02-config.yml"
_INSTALL_CONFIG = f"{HOME}/manifests/cluster-config.yaml"
_TLS = f"{HOME}/tls"
_CONNECTIONS = "/etc/NetworkManager/system-connections/"
SERVING = (
    "kube-apiserver-lb-server", "kube-apiserver-internal-lb-server", "kube-apiserver-localhost-server",
    "kube-apiserver-service-network-server",
)  # fmt: skip
"""The API's certificates: for people outside, for nodes, for itself, for pods. The first is shown to who names none."""


@dataclass(frozen=True, slots=True)
class ClusterMetal:
    manifest: dict[str, Any] = field(repr=False)
    name: str
    control_plane: bool
    mac: str
    bmc: str
    """Its address as the manifest has it."""
    username: str
    password: str = field(repr=False)
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Static:
    """A bootstrap's fixed address."""

    address: IPv4Interface
    gateway: IPv4Address | None
    dns: tuple[str, ...]
    mac: str = ""
    """Of the NIC that has it; empty where the installer's config names none."""


@dataclass(frozen=True, slots=True)
class BootstrapLeg:
    """The network that hosts boot from, as the bootstrap machine stands on it."""

    address: IPv4Interface
    mac: str


@dataclass(frozen=True, slots=True)
class ClusterSite:
    infrastructure: str
    """The name that the installer has given to all it makes."""
    api: str
    api_internal: str
    api_vip: IPv4Address
    ingress_vip: IPv4Address
    apps: str
    hosts: tuple[ClusterMetal, ...]
    static: Static | None
    bootstrap: Bootstrap

    def tls(self, name: str) -> tuple[bytes, bytes]:
        files = self.bootstrap.files
        try:
            return files[f"{_TLS}/{name}.crt"], files[f"{_TLS}/{name}.key"]
        except KeyError as error:
            raise NoIgnition(f"the installer's config has no certificate {name}") from error

    @property
    def install_config(self) -> dict[str, Any]:
        """With the installer's defaults, and without secrets. Raises NoIgnition."""
        with _known("install-config"):
            text = yaml.safe_load(self.bootstrap.text(_INSTALL_CONFIG))["data"]["install-config"]
            return dict(yaml.safe_load(text))

    @property
    def machine_network(self) -> IPv4Network:
        """The one that has the API VIP. Raises NoIgnition."""
        with _known("machine networks"):
            listed = [IPv4Network(one["cidr"]) for one in self.install_config["networking"]["machineNetwork"]]
            return next((one for one in listed if self.api_vip in one), listed[0])

    @property
    def boot_network(self) -> BootstrapLeg | None:
        """None with `provisioningNetwork: Disabled`. Raises NoIgnition."""
        with _known("provisioning network"):
            metal = self.install_config["platform"]["baremetal"]
            if metal["provisioningNetwork"] == DISABLED:
                return None
            prefix = str(metal["provisioningNetworkCIDR"]).partition("/")[2]
            own = IPv4Interface(f"{metal['bootstrapProvisioningIP']}/{prefix}")
            return BootstrapLeg(own, str(metal["provisioningMACAddress"]).lower())

    @property
    def client_ca(self) -> str:
        return self.bootstrap.text(f"{_TLS}/kube-apiserver-complete-client-ca-bundle.crt")

    @property
    def root_ca(self) -> str:
        return self.bootstrap.text(f"{_TLS}/root-ca.crt")


@contextmanager
def _known(what: str) -> Iterator[None]:
    try:
        yield
    except NoIgnition:
        raise
    except (KeyError, TypeError, ValueError, IndexError, yaml.YAMLError) as error:
        raise NoIgnition(f"the {what} in the installer's config cannot be read: {error!r}") from error


def read(bootstrap: Bootstrap) -> ClusterSite:
    """Raises NoIgnition."""
    try:
        status = yaml.safe_load(bootstrap.text(_INFRASTRUCTURE))["status"]
        metal = status["platformStatus"]["baremetal"]
        return ClusterSite(
            infrastructure=str(status["infrastructureName"]),
            api=_host(status["apiServerURL"]),
            api_internal=_host(status["apiServerInternalURI"]),
            api_vip=IPv4Address(_first(metal, "apiServerInternalIP")),
            ingress_vip=IPv4Address(_first(metal, "ingressIP")),
            apps=_apps(bootstrap),
            hosts=tuple(_hosts(bootstrap)),
            static=_static(bootstrap),
            bootstrap=bootstrap,
        )
    except (KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise NoIgnition(f"the installer's config is not of a bare-metal cluster: {error}") from error


def _host(url: str) -> str:
    return url.partition("://")[2].partition(":")[0]


def _first(metal: dict[str, Any], name: str) -> str:
    """In either spelling: one address, or a list of them."""
    several = metal.get(f"{name}s")
    return str(several[0]) if several else str(metal[name])


def _apps(bootstrap: Bootstrap) -> str:
    manifest = yaml.safe_load(bootstrap.text(f"{HOME}/manifests/cluster-ingress-02-config.yml"))
    return str(manifest["spec"]["domain"])


def _manifests(bootstrap: Bootstrap, kind: str) -> Iterator[dict[str, Any]]:
    for path, data in sorted(bootstrap.files.items()):
        if not path.startswith(f"{HOME}/openshift/") or b"kind: " + kind.encode() not in data:
            continue
        for document in yaml.safe_load_all(data):
            if isinstance(document, dict) and document.get("kind") == kind:
                yield document


def _hosts(bootstrap: Bootstrap) -> Iterator[ClusterMetal]:
    secrets = {secret["metadata"]["name"]: secret for secret in _manifests(bootstrap, "Secret")}
    for manifest in _manifests(bootstrap, "BareMetalHost"):
        spec, metadata = manifest.get("spec") or {}, manifest["metadata"]
        bmc = spec.get("bmc") or {}
        account = secrets.get(bmc.get("credentialsName") or "", {})
        role = (metadata.get("labels") or {}).get("installer.openshift.io/role", "")
        yield ClusterMetal(
            manifest,
            str(metadata["name"]),
            role == "control-plane",
            str(spec.get("bootMACAddress") or ""),
            str(bmc.get("address") or ""),
            _secret(account, "username"),
            _secret(account, "password"),
            not bmc.get("disableCertificateVerification", False),
        )


def _secret(secret: dict[str, Any], name: str) -> str:
    if plain := (secret.get("stringData") or {}).get(name):
        return str(plain)
    try:
        return base64.b64decode((secret.get("data") or {}).get(name) or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"the Secret of a BMC is damaged: {name} is no base64 of a text") from error


def _static(bootstrap: Bootstrap) -> Static | None:
    """From NetworkManager's files, where the install-config gives the bootstrap a fixed address."""
    for path in sorted(bootstrap.files):
        if not path.startswith(_CONNECTIONS):
            continue
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        try:
            parser.read_string(bootstrap.text(path))
        except configparser.Error:
            continue
        if "ipv4" not in parser or not (first := _first_address(parser["ipv4"])):
            continue
        address, _, gateway = first.partition(",")
        gateway = gateway or parser["ipv4"].get("gateway", "")
        dns = tuple(part for part in parser["ipv4"].get("dns", "").replace(",", ";").split(";") if part)
        mac = parser["ethernet"].get("mac-address", "").lower() if "ethernet" in parser else ""
        return Static(IPv4Interface(address), IPv4Address(gateway) if gateway else None, dns, mac)
    return None


def _first_address(ipv4: configparser.SectionProxy) -> str:
    """In either spelling of NetworkManager's: `address1=10.0.0.9/24,10.0.0.1`, and the installer's `addresses=10.0.0.9/24`."""
    return ipv4.get("address1", "") or ipv4.get("addresses", "").replace(",", ";").partition(";")[0].strip()
