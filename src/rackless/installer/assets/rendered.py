"""The rendered config of each role: what the machine-config server gives a machine that a pointer config sent there.

The base of every node, then the MachineConfigs of the role in the order of their names, those that people added too. Whoever
reaches the server may read it, so no authority's key is in it: the one secret is the token that lets a node ask for a
certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackless.installer.assets.asset import Asset, Given, Parts, as_is
from rackless.installer.assets.certificates import API_CA, NODE_TOKEN, kubeconfig
from rackless.installer.assets.documents import render_json
from rackless.installer.assets.ignition import node_agent
from rackless.installer.assets.ignition.merging import merge
from rackless.installer.assets.ignition.parts import SPEC, file, user
from rackless.installer.assets.manifests.machine_configs import (
    EXTRA_MANIFESTS,
    MACHINE_CONFIG_MANIFESTS,
    configs_of,
)
from rackless.installer.assets.names import API_PORT, NAMES, ClusterNames
from rackless.installer.assets.pointers import POINTERS

MASTER = "master"


def _make(given: Given) -> Parts:
    manifests = {**given.parts(MACHINE_CONFIG_MANIFESTS), **given.parts(EXTRA_MANIFESTS)}
    names, token = given.of(NAMES), given.of(NODE_TOKEN)
    joining = node_kubeconfig(names, given.of(API_CA).certificate, f"{token.id}.{token.secret}")
    return {role: render_json(rendered(role, names, joining, manifests)) for role in given.of(POINTERS)}


def rendered(role: str, names: ClusterNames, joining: str, manifests: Mapping[str, str]) -> dict[str, Any]:
    joining_words = (names.cluster, names.domain, names.api_vips[0])
    becoming = node_agent.joining_control_plane(*joining_words) if role == MASTER else []
    config: dict[str, Any] = {
        "ignition": {"version": SPEC},
        "passwd": {"users": [user("")]},
        "storage": {
            "files": [
                file("/etc/rackless-release", f"CLUSTER={names.domain}\nROLE={role}\n"),
                *node_agent.files(joining, [node_agent.CONTROL_PLANE_TAINT] if role == MASTER else []),
            ]
        },
        "systemd": {"units": [*node_agent.units(), *becoming]},
    }
    for each in configs_of(role, manifests):
        config = merge(config, each)
    config["ignition"]["version"] = SPEC
    return config


def node_kubeconfig(names: ClusterNames, ca: str, token: str) -> str:
    """By the VIP's address, not its name: a node that knows no name server is a node all the same."""
    vip = names.api_vips[0]
    server = f"https://{f'[{vip}]' if ':' in vip else vip}:{API_PORT}"
    return kubeconfig(names.cluster, ca, server, "bootstrap", {"token": token})


RENDERED = Asset(
    "rendered", "Rendered Machine Configs", _make, as_is,
    (NAMES, API_CA, NODE_TOKEN, POINTERS, MACHINE_CONFIG_MANIFESTS, EXTRA_MANIFESTS), options={"ignition": SPEC},
)  # fmt: skip
