"""Ways into a lab for people: command lines that go through its namespaces. Nothing is run here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rackless.cluster.reference import kubeconfigs
from rackless.cluster.reference.keys import Keys
from rackless.errors import InputError, LabError
from rackless.events import Bus
from rackless.operations.lab_registry import current_plan, require_lab, require_root
from rackless.plan.model import PlannedServer
from rackless.ports.drivers import Drivers
from rackless.ports.process import ProcessTable
from rackless.protocol import messages as say
from rackless.protocol.client import ControlClient
from rackless.run.paths import LabPaths, Roots

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
    return kubeconfigs.lab_kubeconfig(paths)


def cluster_kubeconfig(lab: str, roots: Roots) -> str:
    """The same for the cluster's own API, which is at its VIP inside the lab."""
    paths = require_lab(lab, roots)
    require_root("read the cluster's keys")
    return kubeconfigs.cluster_kubeconfig(paths)


async def kubeconfig(lab: str, roots: Roots, drivers: Drivers, *, cluster: bool) -> str:
    """Root reads the keys, also of a lab that is stopped; its owner is given them by labd."""
    if drivers.computer.root():
        return cluster_kubeconfig(lab, roots) if cluster else host_kubeconfig(lab, roots)
    client = ControlClient(require_lab(lab, roots).socket)
    return (await client.work(say.KUBECONFIG, say.WantKubeconfig(cluster), Bus())).text


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
    installed = paths.install_kubeconfig.exists()  # then nodes have keys that we did not give them
    known = paths.install / "known_hosts" if installed else keys.known_hosts
    if not keys.admin.exists() or not (installed or known.exists()):
        raise LabError(f"{server} has no system yet", hint="`rackless up` provisions it")
    options = {
        "IdentityFile": keys.admin,
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": known,
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "accept-new" if installed else "yes",
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
