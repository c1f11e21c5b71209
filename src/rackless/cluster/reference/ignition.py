"""What a node of the reference cluster is told at its first boot, as an Ignition config. Pure.

Every node gets its name, the user `core` with the lab's ssh key, and a host key we know in advance, so that the first
ssh is already sure whom it talks to. Control planes also get etcd with TLS, as members of one cluster.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

from rackless.plan.addressing import LabPlan, PlannedServer
from rackless.spec.lab import Role

SPEC = "3.3.0"
HEARTBEAT_MS = 500
ELECTION_MS = 5000
"""Slow machines are the rule: an emulated node may not be scheduled for a second without being dead."""

ETCD = "/etc/etcd"


@dataclass(frozen=True, slots=True)
class NodeSecrets:
    """What one node is given that nobody else may read."""

    ssh_host_key: str = field(repr=False)
    etcd_key: str = field(default="", repr=False)
    etcd_certificate: str = ""
    etcd_ca: str = ""


def render(server: PlannedServer, plan: LabPlan, authorized_key: str, secrets: NodeSecrets) -> str:
    files = [
        _file("/etc/hostname", f"{server.name}\n"),
        _file("/etc/hosts", _hosts(plan)),
        _file("/etc/ssh/ssh_host_ed25519_key", secrets.ssh_host_key, mode=0o600),
        _file("/etc/rackless-release", f"LAB={plan.name}\nSERVER={server.name}\nROLE={server.role}\n"),
    ]
    units: list[dict[str, Any]] = []
    if server.role is Role.CONTROL_PLANE:
        files += _etcd_files(server, plan, secrets)
        units.append(
            {"name": "etcd.service", "enabled": True, "dropins": [{"name": "10-slow.conf", "contents": _DROPIN}]}
        )
    config = {
        "ignition": {"version": SPEC},
        "passwd": {
            "users": [{"name": "core", "groups": ["sudo"], "sshAuthorizedKeys": [authorized_key], "shell": "/bin/bash"}]
        },
        "storage": {"files": files},
        "systemd": {"units": units},
    }
    return json.dumps(config, sort_keys=True)


_DROPIN = """\
[Unit]
Wants=network-online.target
After=network-online.target
[Service]
# members start minutes apart on a slow machine; the first one waits for a second without being called failed
TimeoutStartSec=infinity
Restart=always
RestartSec=2
"""


def _etcd_files(server: PlannedServer, plan: LabPlan, secrets: NodeSecrets) -> list[dict[str, Any]]:
    return [
        _file("/etc/default/etcd", etcd_environment(server, plan)),
        _file(f"{ETCD}/ca.crt", secrets.etcd_ca),
        _file(f"{ETCD}/member.crt", secrets.etcd_certificate),
        _file(f"{ETCD}/member.key", secrets.etcd_key, mode=0o600, user="etcd"),
    ]


def etcd_environment(server: PlannedServer, plan: LabPlan) -> str:
    members = ",".join(f"{member.name}=https://{member.address}:2380" for member in plan.control_planes)
    settings = {
        "ETCD_NAME": server.name,
        "ETCD_DATA_DIR": "/var/lib/etcd/default",
        "ETCD_INITIAL_CLUSTER": members,
        "ETCD_INITIAL_CLUSTER_STATE": "new",
        "ETCD_INITIAL_CLUSTER_TOKEN": plan.domain,
        "ETCD_INITIAL_ADVERTISE_PEER_URLS": f"https://{server.address}:2380",
        "ETCD_LISTEN_PEER_URLS": f"https://{server.address}:2380",
        "ETCD_LISTEN_CLIENT_URLS": f"https://{server.address}:2379,https://127.0.0.1:2379",
        "ETCD_ADVERTISE_CLIENT_URLS": f"https://{server.address}:2379",
        "ETCD_HEARTBEAT_INTERVAL": HEARTBEAT_MS,
        "ETCD_ELECTION_TIMEOUT": ELECTION_MS,
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


def _hosts(plan: LabPlan) -> str:
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    lines += [f"{server.address} {server.fqdn} {server.name}" for server in plan.servers]
    return "\n".join(lines) + "\n"


def _file(path: str, content: str, *, mode: int = 0o644, user: str | None = None) -> dict[str, Any]:
    encoded = base64.b64encode(content.encode()).decode()
    return {
        "path": path,
        "overwrite": True,
        "mode": mode,
        "contents": {"source": f"data:;base64,{encoded}"},
        **({"user": {"name": user}} if user else {}),
    }
