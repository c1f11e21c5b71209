"""The Ignition config of a node of the reference cluster. Pure.

Every node gets its name, the user `core` with the lab's ssh key, and a host key we know in advance, so that the first
ssh is already sure whom it talks to. What control planes get besides is in `control_plane`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from rackless.cluster.reference import joining
from rackless.cluster.reference.joining import Invitation
from rackless.installer.assets.ignition import control_plane
from rackless.installer.assets.ignition.control_plane import ControlPlaneSecrets
from rackless.installer.assets.ignition.parts import SPEC, file, user
from rackless.plan.model import LabPlan, PlannedServer


@dataclass(frozen=True, slots=True)
class NodeSecrets:
    """The secrets of one node."""

    ssh_host_key: str = field(repr=False)
    control_plane: ControlPlaneSecrets | None = None
    """For control planes."""
    invitation: Invitation | None = None
    """For nodes of a cluster that has an API."""


def render(server: PlannedServer, plan: LabPlan, authorized_key: str, secrets: NodeSecrets) -> str:
    storage: dict[str, Any] = {
        "files": [
            file("/etc/hostname", f"{server.name}\n"),
            file("/etc/hosts", _hosts(plan)),
            file("/etc/ssh/ssh_host_ed25519_key", secrets.ssh_host_key, mode=0o600),
            file("/etc/rackless-release", f"LAB={plan.name}\nSERVER={server.name}\nROLE={server.role}\n"),
        ]
    }
    units: list[dict[str, Any]] = []
    if secrets.control_plane is not None:
        storage["files"] += control_plane.files(server, plan, secrets.control_plane)
        storage["directories"] = control_plane.folders()
        units = control_plane.units(server, plan)
    if secrets.invitation is not None:
        storage["files"] += joining.files(server, plan, secrets.invitation)
        units += joining.units()
    config = {
        "ignition": {"version": SPEC},
        "passwd": {"users": [user(authorized_key)]},
        "storage": storage,
        "systemd": {"units": units},
    }
    return json.dumps(config, sort_keys=True)


def _hosts(plan: LabPlan) -> str:
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    lines += [f"{server.address} {server.fqdn} {server.name}" for server in plan.places]
    return "\n".join(lines) + "\n"
