"""A node's bootstrap kubeconfig and token, with which it joins the cluster's API by itself. Pure.

Every server has a token of its own, and the API puts whoever uses it into a group with the server's name: which node asks
for its first certificate is known from the token, not from what the request says.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rackless.controllers.nodes.judging import BOOTSTRAPPERS_OF_ONE
from rackless.installer.assets.ignition import node_agent
from rackless.installer.assets.ignition.front import API_PORT
from rackless.plan.model import LabPlan, PlannedServer
from rackless.ports.nodes import Admission
from rackless.spec.lab import Role

KUBECONFIG, SETTINGS = node_agent.KUBECONFIG, node_agent.SETTINGS


@dataclass(frozen=True, slots=True)
class Invitation:
    """What one node is given to join with."""

    ca: str
    token: str = field(repr=False)


def files(server: PlannedServer, plan: LabPlan, invitation: Invitation) -> list[dict[str, Any]]:
    taints = [node_agent.CONTROL_PLANE_TAINT] if server.role is Role.CONTROL_PLANE else []
    return node_agent.files(kubeconfig(plan, invitation), taints)


def kubeconfig(plan: LabPlan, invitation: Invitation) -> str:
    """A bootstrap kubeconfig with the API VIP's address, not its name: so a node joins without DNS."""
    host = f"[{plan.api_vip}]" if plan.api_vip.version == 6 else str(plan.api_vip)
    cluster = {
        "server": f"https://{host}:{API_PORT}",
        "certificate-authority-data": base64.b64encode(invitation.ca.encode()).decode(),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": plan.name, "cluster": cluster}],
        "users": [{"name": "bootstrap", "user": {"token": invitation.token}}],
        "contexts": [{"name": "bootstrap", "context": {"cluster": plan.name, "user": "bootstrap"}}],
        "current-context": "bootstrap",
    }
    return json.dumps(config, indent=2) + "\n"


def units() -> list[dict[str, Any]]:
    return node_agent.units()


def admission(server: PlannedServer, token: str) -> Admission:
    return Admission(
        name=server.name,
        token=token,
        group=f"{BOOTSTRAPPERS_OF_ONE}{server.name}",
        labels={f"node-role.kubernetes.io/{server.role.value}": ""},
    )


def lacking(objects: Sequence[dict[str, Any]], names: Iterable[str]) -> str:
    """Which of these nodes are not ready, in the cluster's own words; empty when all are."""
    found = {each["metadata"]["name"]: each for each in objects}
    words = [f"{name} {why}" for name in names if (why := _unready(found.get(name)))]
    return ", ".join(words)


def _unready(node: dict[str, Any] | None) -> str:
    if node is None:
        return "has not joined"
    status = node.get("status") or {}
    ready: dict[str, Any] = next((each for each in status.get("conditions") or () if each.get("type") == "Ready"), {})
    if ready.get("status") != "True":
        return f"is not ready ({ready.get('message') or 'it has not said so'})"
    endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    return "" if endpoint.get("Port") else "has no certificate to serve with"
