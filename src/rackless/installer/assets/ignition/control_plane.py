"""What makes a node a control plane: a member of etcd, an API server on it, haproxy and the VIP before it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rackless.installer.assets.ignition import front
from rackless.installer.assets.ignition.machines import ConfiguredCluster, ConfiguredMachine
from rackless.installer.assets.ignition.parts import file, folder, unit

HEARTBEAT_MS = 500
ELECTION_MS = 5000
"""Slow machines are the rule: an emulated node may not be scheduled for a second without being dead. Heartbeats four times as
rare saved 3 %, which is within the noise: an idle member's time goes into timers and handshakes."""

ETCD = "/etc/etcd"
ENVIRONMENT = "/etc/default/etcd"
PKI = "/etc/rackless/pki"
STORE = "/etc/rackless/etcd"
API_USER = "rackless"
"""Of the API server; the image has it."""


@dataclass(frozen=True, slots=True)
class ControlPlaneSecrets:
    """The secrets of one control plane, and the certificates that go with them."""

    etcd_ca: str
    etcd_certificate: str
    etcd_key: str = field(repr=False)
    store_certificate: str
    """The client certificate of the API server for etcd."""
    store_key: str = field(repr=False)
    api_ca: str
    """The same on all control planes, with its key and the tokens': what one has signed is good at all."""
    api_ca_key: str = field(repr=False)
    api_token_key: str = field(repr=False)


def files(
    server: ConfiguredMachine,
    plan: ConfiguredCluster,
    secrets: ControlPlaneSecrets,
) -> list[dict[str, Any]]:
    return [
        membership(server, plan),
        file(f"{ETCD}/ca.crt", secrets.etcd_ca),
        file(f"{ETCD}/member.crt", secrets.etcd_certificate),
        file(f"{ETCD}/member.key", secrets.etcd_key, mode=0o600, user="etcd"),
        file(f"{STORE}/ca.crt", secrets.etcd_ca),
        file(f"{STORE}/client.crt", secrets.store_certificate),
        file(f"{STORE}/client.key", secrets.store_key, mode=0o600, user=API_USER),
        file(f"{PKI}/ca.crt", secrets.api_ca, user=API_USER),
        file(f"{PKI}/ca.key", secrets.api_ca_key, mode=0o600, user=API_USER),
        file(f"{PKI}/sa.key", secrets.api_token_key, mode=0o600, user=API_USER),
        link(server.mac),
        file("/etc/haproxy/haproxy.cfg", front.haproxy_cfg(plan)),
    ]


def membership(server: ConfiguredMachine, plan: ConfiguredCluster, joins: str = "") -> dict[str, Any]:
    """`joins` are the members of an etcd that is there, for one that comes later."""
    return file(ENVIRONMENT, etcd_environment(server, plan, joins))


def folders() -> list[dict[str, Any]]:
    """Where the API server keeps the certificate that it makes for itself."""
    return [folder(PKI, user=API_USER)]


def units(server: ConfiguredMachine, plan: ConfiguredCluster, *, interface: str = "") -> list[dict[str, Any]]:
    """`interface` is its NIC, where that keeps the name it has."""
    return [
        unit("etcd.service", dropin=_ETCD),
        unit("rackless-api.service", api_unit(server, plan)),
        unit("haproxy.service", dropin=_HAPROXY),
        unit(front.VIP_UNIT, front.vip_unit(plan.api_vip, interface or front.INTERFACE, STORE, API_USER, _SLACK)),
    ]


_SLACK = "TimerSlackNSec=100ms"
"""Timers may fire this late, several at once. Go's runtime sets itself one of 20 µs whenever it works, and etcd several of
100 ms even when nobody asks; on an emulated node that was a third of an idle control plane's time. What comes over the
network wakes at once, as before."""
_ETCD_SLACK = "TimerSlackNSec=400ms"
"""An idle member wakes 16 times a second with this and 28 times with 100 ms. Less than a heartbeat: then ticks come late, but none
is left out, and an election begins as soon as it would."""

_ETCD = f"""\
[Unit]
Wants=network-online.target
After=network-online.target
[Service]
# members start minutes apart on a slow machine; the first one waits for a second without being called failed
TimeoutStartSec=infinity
Restart=always
RestartSec=2
{_ETCD_SLACK}
"""
_HAPROXY = f"""\
[Service]
{_SLACK}
"""


def api_unit(server: ConfiguredMachine, plan: ConfiguredCluster) -> str:
    stores = ",".join(["https://127.0.0.1:2379", *(f"https://{m.address}:2379" for m in _others(server, plan))])
    names = [str(plan.api_vip), f"api.{plan.domain}", f"api-int.{plan.domain}", server.name, server.fqdn]
    words = [
        "/usr/bin/rackless api serve",
        f"--store etcd:{stores}",
        f"--store-ca {STORE}/ca.crt --store-cert {STORE}/client.crt --store-key {STORE}/client.key",
        f"--address {server.address} --port {front.SERVER_PORT} --pki {PKI}",
        f"--advertise https://api.{plan.domain}:{front.API_PORT}",
        " ".join(f"--name {name}" for name in names),
    ]
    return f"""\
[Unit]
Description=Kubernetes API on etcd
Wants=network-online.target
After=network-online.target etcd.service
StartLimitIntervalSec=0

[Service]
User={API_USER}
ExecStart={_CONTINUED.join(words)}
Restart=always
RestartSec=2
{_SLACK}

[Install]
WantedBy=multi-user.target
"""


_CONTINUED = " \\\n    "


def etcd_environment(server: ConfiguredMachine, plan: ConfiguredCluster, joins: str = "") -> str:
    """A machine that does not know its address beforehand listens on all, and is known to others by its name."""
    unknown = server.address.is_loopback
    listens = "0.0.0.0" if unknown else str(server.address)
    places = {member.name: member.fqdn if unknown else str(member.address) for member in plan.control_planes}
    own = places[server.name]
    members = ",".join(filter(None, [joins, *(f"{name}=https://{place}:2380" for name, place in places.items())]))
    clients = dict.fromkeys([f"https://{listens}:2379", *([] if unknown else ["https://127.0.0.1:2379"])])
    settings = {
        "ETCD_NAME": server.name,
        "ETCD_DATA_DIR": "/var/lib/etcd/default",
        "ETCD_INITIAL_CLUSTER": members,
        "ETCD_INITIAL_CLUSTER_STATE": "existing" if joins else "new",
        "ETCD_INITIAL_CLUSTER_TOKEN": plan.domain,
        "ETCD_INITIAL_ADVERTISE_PEER_URLS": f"https://{own}:2380",
        "ETCD_LISTEN_PEER_URLS": f"https://{listens}:2380",
        "ETCD_LISTEN_CLIENT_URLS": ",".join(clients),
        "ETCD_ADVERTISE_CLIENT_URLS": f"https://{own}:2379",
        "ETCD_HEARTBEAT_INTERVAL": HEARTBEAT_MS,
        "ETCD_ELECTION_TIMEOUT": ELECTION_MS,
        "ETCD_PRE_VOTE": "true",  # or a member that comes back from being cut off costs the others their leader
        "ETCD_CERT_FILE": f"{ETCD}/member.crt",
        "ETCD_KEY_FILE": f"{ETCD}/member.key",
        "ETCD_TRUSTED_CA_FILE": f"{ETCD}/ca.crt",
        "ETCD_CLIENT_CERT_AUTH": "true",
        "ETCD_PEER_CERT_FILE": f"{ETCD}/member.crt",
        "ETCD_PEER_KEY_FILE": f"{ETCD}/member.key",
        "ETCD_PEER_TRUSTED_CA_FILE": f"{ETCD}/ca.crt",
        "ETCD_PEER_CLIENT_CERT_AUTH": "true",
    }
    return "".join(f'{name}="{value}"\n' for name, value in settings.items())


def link(mac: str) -> dict[str, Any]:
    """The NIC is known by its MAC: which number the kernel gives it depends on the others."""
    text = f"[Match]\nMACAddress={mac}\n\n[Link]\nName={front.INTERFACE}\n"
    return file("/etc/systemd/network/10-cluster.link", text)


def _others(server: ConfiguredMachine, plan: ConfiguredCluster) -> list[ConfiguredMachine]:
    return [member for member in plan.control_planes if member is not server]
