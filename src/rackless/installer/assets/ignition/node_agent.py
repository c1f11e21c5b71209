"""The unit of the node agent, which joins a node to the cluster's API, and the paths of its files. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rackless.installer.assets.ignition.parts import file, unit

KUBECONFIG = "/etc/kubernetes/bootstrap-kubeconfig"
SETTINGS = "/etc/rackless/node.json"
UNIT = "rackless-node.service"
CONTROL_PLANE_TAINT = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


def files(kubeconfig: str, taints: Sequence[dict[str, str]]) -> list[dict[str, Any]]:
    return [
        file(KUBECONFIG, kubeconfig, mode=0o600),
        file(SETTINGS, json.dumps({"taints": list(taints)}) + "\n"),
    ]


def units() -> list[dict[str, Any]]:
    return [unit(UNIT, _UNIT)]


def joining_control_plane(cluster: str, domain: str, vip: str) -> list[dict[str, Any]]:
    """What makes a node of an install that has joined one of its control planes."""
    words = f"--cluster {cluster} --domain {domain} --vip {vip}"
    return [unit("rackless-control-plane.service", _CONTROL_PLANE.format(words=words))]


_CONTROL_PLANE = f"""\
[Unit]
Description=Becoming a control plane: keys, etcd, API
Wants=network-online.target
After=network-online.target {UNIT}
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/rackless bootstrap join {{words}}
TimeoutStartSec=infinity
Restart=on-failure
RestartSec=5
StandardOutput=journal+console

[Install]
WantedBy=multi-user.target
"""


_UNIT = f"""\
[Unit]
Description=Node agent: certificates, Lease and status of this node
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/rackless-node
# a user of its own, who owns its keys and nothing else; what only root may read it is handed
DynamicUser=yes
StateDirectory=rackless-node
StateDirectoryMode=0700
LoadCredential=bootstrap-kubeconfig:{KUBECONFIG}
LoadCredential=system-uuid:/sys/class/dmi/id/product_uuid
CapabilityBoundingSet=
Restart=always
RestartSec=2
TimerSlackNSec=100ms

[Install]
WantedBy=multi-user.target
"""
