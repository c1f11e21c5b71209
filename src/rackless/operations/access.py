"""Ways into a lab for people: command lines that go through its namespaces. Nothing is run here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rackless.cluster.reference.keys import Keys
from rackless.errors import InputError, LabError
from rackless.lab.api_forward import host_url
from rackless.operations.lab_registry import current_plan, require_lab, require_root
from rackless.plan.model import PlannedServer
from rackless.ports.api import NAMESPACE
from rackless.ports.drivers import Drivers
from rackless.ports.process import ProcessTable
from rackless.run.paths import LabPaths, Roots
from rackless.trust.kubeconfig import render_kubeconfig

USER = "core"


def inside_command(lab: str, command: Sequence[str], roots: Roots, drivers: Drivers) -> list[str]:
    """A command in the lab's namespaces: its networks, its resolver, its libvirt; in the folder we are in."""
    paths = require_lab(lab, roots)
    require_root("enter a lab", drivers.computer)
    holder = _holder(paths, drivers.processes)
    here = Path.cwd()
    hidden = any(here.is_relative_to(folder) for folder in ("/run", "/var/lib", "/var/log", "/var/cache"))
    wd = "/" if hidden else str(here)
    return ["nsenter", f"--target={holder}", "--mount", "--net", f"--wdns={wd}", "--", *command]


def inside_environment(lab: str, roots: Roots) -> dict[str, str]:
    """What a command inside should know: where the lab's Kubernetes API is."""
    kubeconfig = LabPaths(roots, lab).inner_kubeconfig
    return {"RACKLESS_LAB": lab, **({"KUBECONFIG": str(kubeconfig)} if kubeconfig.exists() else {})}


def host_kubeconfig(lab: str, roots: Roots) -> str:
    """A kubeconfig for the host's side, through the lab's port on its loopback."""
    paths = require_lab(lab, roots)
    require_root("read the lab's keys")
    url = host_url(paths.api_port)
    if url is None or not (paths.api_pki / "admin.key").exists():
        raise LabError(f"the lab {lab} has no Kubernetes API yet", hint="`rackless up` starts it")
    return render_kubeconfig(f"rackless-{lab}", url, paths.api_pki, NAMESPACE)


def cluster_kubeconfig(lab: str, roots: Roots) -> str:
    """The same for the cluster's own API, which is at its VIP inside the lab."""
    paths = require_lab(lab, roots)
    require_root("read the cluster's keys")
    url, keys = host_url(paths.cluster_port), Keys(paths.cluster_keys)
    if url is None or not keys.made:
        raise LabError(
            f"the lab {lab} has no cluster yet",
            why="no control plane of it has been given a system",
            hint="`rackless up` provisions them, where the lab has servers with the role control-plane",
        )
    return render_kubeconfig(f"rackless-{lab}-cluster", url, keys.api, "default")


def find_server(lab: str, server: str, paths: LabPaths) -> PlannedServer:
    plan = current_plan(paths)
    found = plan.server(server)
    if found is None:
        known = ", ".join(s.name for s in plan.servers)
        raise InputError(f"the lab {lab} has no server {server}", why=f"it has {known}", hint="name one of those")
    return found


def ssh_command(lab: str, server: str, command: Sequence[str], roots: Roots) -> list[str]:
    """ssh to a node, from inside the lab's network namespace, with the lab's key and the host key we gave the node."""
    paths = require_lab(lab, roots)
    require_root("enter a lab")
    target = find_server(lab, server, paths)
    keys = Keys(paths.cluster_keys)
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


def _holder(paths: LabPaths, processes: ProcessTable) -> int:
    if (pid := processes.find(paths.holder_pid)) is not None:
        return pid
    raise LabError(f"the lab {paths.name} is not running", hint="`rackless up` starts it")
