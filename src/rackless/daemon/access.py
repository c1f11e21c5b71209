"""Ways into a lab for people: command lines that go through its namespaces. Nothing is run here."""

from __future__ import annotations

from collections.abc import Sequence

from rackless.cluster.reference.recipe import Keys
from rackless.daemon.operations import require_lab, require_root
from rackless.errors import InputError, LabError
from rackless.plan.addressing import plan_lab
from rackless.run.paths import Roots
from rackless.spec.lab import LabSpec

USER = "core"


def ssh_command(lab: str, server: str, command: Sequence[str], roots: Roots) -> list[str]:
    """ssh to a node, from inside the lab's network namespace, with the lab's key and the host key we gave the node."""
    paths = require_lab(lab, roots)
    require_root("enter a lab")
    plan = plan_lab(LabSpec.model_validate_json(paths.spec.read_text()))
    target = plan.server(server)
    if target is None:
        known = ", ".join(s.name for s in plan.servers)
        raise InputError(f"the lab {lab} has no server {server}", why=f"it has {known}", hint="name one of those")
    keys = Keys(paths.secrets / "cluster")
    if not keys.admin.exists() or not keys.known_hosts.exists():
        raise LabError(f"{server} has no system yet", hint="`rackless up` provisions it")
    options = {
        "IdentityFile": keys.admin,
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": keys.known_hosts,
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "HostKeyAlias": server,
        "LogLevel": "ERROR",
        "ConnectTimeout": "20",
    }
    return [
        "nsenter",
        f"--net={paths.netns}",
        "--",
        "ssh",
        "-F",
        "none",
        *(f"-o{name}={value}" for name, value in options.items()),
        f"{USER}@{target.address}",
        *(["--", *command] if command else []),
    ]
