"""Ways into a lab for people: command lines (nsenter, ssh, scp) that enter its namespaces, or the holder's entrance socket for an
owner who is not root; and kubeconfigs. Nothing is run here."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory

from rackless.cluster.reference import kubeconfigs
from rackless.cluster.reference.keys import Keys
from rackless.errors import InputError, LabError
from rackless.events import Bus
from rackless.operations.lab_registry import READING, current_plan, require_lab, require_root
from rackless.plan.model import PlannedServer
from rackless.ports.drivers import Drivers
from rackless.ports.process import ProcessTable
from rackless.protocol import messages as say
from rackless.protocol.client import ControlClient
from rackless.protocol.exchange import Nothing
from rackless.run.files import write
from rackless.run.paths import LabPaths, Roots

USER, BOOTSTRAP = "core", "bootstrap"
INSIDE_TOO = "/tmp"
"""A folder that is the same inside a lab's mount namespace; those under /run and /var are not."""


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
    """The environment of a command inside the lab: the lab's name, and KUBECONFIG for its Kubernetes API."""
    kubeconfig = LabPaths(roots, lab).inner_kubeconfig
    return {"RACKLESS_LAB": lab, **({"KUBECONFIG": str(kubeconfig)} if kubeconfig.exists() else {})}


def host_kubeconfig(lab: str, roots: Roots) -> str:
    """A kubeconfig for outside the lab, through the lab's port on the hypervisor's loopback."""
    paths = require_lab(lab, roots)
    require_root("read the lab's keys", why=READING)
    return kubeconfigs.lab_kubeconfig(paths)


def cluster_kubeconfig(lab: str, roots: Roots) -> str:
    """A kubeconfig for the cluster's own API, which is at the API VIP inside the lab."""
    paths = require_lab(lab, roots)
    require_root("read the cluster's keys", why=READING)
    return kubeconfigs.cluster_kubeconfig(paths)


async def kubeconfig(lab: str, roots: Roots, drivers: Drivers, *, cluster: bool | None = None) -> say.Kubeconfig:
    """A kubeconfig for the lab's own API or its cluster's; `cluster=None` is the cluster's once there is one. Root reads the
    keys, also of a lab that is stopped; an owner who is not root gets them from labd."""
    paths = require_lab(lab, roots)
    if drivers.computer.root():
        chosen = kubeconfigs.has_cluster(paths) if cluster is None else cluster
        return say.Kubeconfig(cluster_kubeconfig(lab, roots) if chosen else host_kubeconfig(lab, roots), chosen)
    asked = say.WantKubeconfig(bool(cluster), whichever=cluster is None)
    return await ControlClient(paths.socket).work(say.KUBECONFIG, asked, Bus())


def find_server(lab: str, server: str, paths: LabPaths) -> PlannedServer:
    plan = current_plan(paths)
    found = plan.server(server)
    if found is None:
        raise unknown_server(lab, [server], [one.name for one in plan.servers])
    return found


def unknown_server(lab: str, asked: Sequence[str], known: Sequence[str]) -> InputError:
    """The error for names that no server of the lab has; it offers similar ones."""
    near = [match for name in asked for match in get_close_matches(name, known, n=1) if not _same_group(name, match)]
    return InputError(
        f"the lab {lab} has no server {', '.join(asked)}",
        why=f"it has {', '.join(known) or 'none'}",
        hint=f"did you mean {', '.join(near)}?" if near else "name one of those",
    )


def _same_group(name: str, other: str) -> bool:
    """Whether two names differ in their number only: box-7 is no misspelt box-1."""
    return name.rstrip("0123456789") == other.rstrip("0123456789")


def find_address(lab: str, server: str, paths: LabPaths) -> str:
    """The address of a server, or of an install's bootstrap machine, which runs while the install goes on."""
    if server == BOOTSTRAP and paths.install_kubeconfig.exists():
        return str(current_plan(paths).bootstrap_address)
    return str(find_server(lab, server, paths).address)


@dataclass(frozen=True, slots=True)
class WayIn:
    """How ssh and its like reach one node."""

    prefix: tuple[str, ...]
    """The words before `ssh` in the command line: nsenter for root, none for the owner."""
    options: tuple[str, ...]
    target: str
    """USER@ADDRESS."""

    def ssh(self, command: Sequence[str]) -> list[str]:
        return [*self.prefix, "ssh", *self.options, self.target, *(["--", *command] if command else [])]

    def scp(self, flags: Sequence[str], sources: Sequence[str], target: str) -> list[str]:
        return [*self.prefix, "scp", *flags, *self.options, "--", *sources, target]


def ssh_command(lab: str, server: str, command: Sequence[str], roots: Roots) -> list[str]:
    """ssh to a node, for root."""
    paths = require_lab(lab, roots)
    require_root("enter a lab")
    return _roots_way(server, find_address(lab, server, paths), paths).ssh(command)


@contextmanager
def way_in(lab: str, server: str, roots: Roots, drivers: Drivers) -> Iterator[WayIn]:
    """How to ssh to a node, with the lab's key and the host key that rackless gave the node; valid while the context lasts.

    Root enters the lab's network namespace and reads the keys. For an owner who is not root, labd hands out the keys, which lie
    in a folder that is removed afterwards, and the holder passes the connection on at its entrance socket.
    """
    paths = require_lab(lab, roots)
    address = find_address(lab, server, paths)
    if drivers.computer.root():
        yield _roots_way(server, address, paths)
        return
    with _short_lived_folder() as folder:
        given = asyncio.run(ControlClient(paths.socket).work(say.SSH_KEYS, Nothing(), Bus()))
        key, known = Path(folder, "key"), Path(folder, "known_hosts")
        write(key, given.key, mode=0o600)
        write(known, given.known_hosts, mode=0o600)
        passing = [sys.executable, "-P", "-m", "rackless.protocol.pass_connection", str(paths.entrance), address, "22"]
        options = (
            *_ssh_options(server, key, known, strict=bool(given.known_hosts)),
            f"-oProxyCommand={shlex.join(passing).replace('%', '%%')}",
            "-oProxyUseFdpass=yes",
        )
        yield WayIn((), options, f"{USER}@{address}")


def _roots_way(server: str, address: str, paths: LabPaths) -> WayIn:
    keys = Keys(paths.cluster_keys)
    installed = paths.install_kubeconfig.exists()  # then nodes made their host keys themselves
    known = paths.install / "known_hosts" if installed else keys.known_hosts
    if not keys.admin.exists() or not (installed or known.exists()):
        raise LabError(f"{server} has no system yet", hint="`rackless up` provisions it")
    options = _ssh_options(server, keys.admin, known, strict=not installed)
    return WayIn(("nsenter", f"--net={paths.netns}", "--"), options, f"{USER}@{address}")


def _ssh_options(server: str, key: Path, known: Path, *, strict: bool) -> tuple[str, ...]:
    options = {
        "IdentityFile": key,
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": known,
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes" if strict else "accept-new",
        "HostKeyAlias": server,
        "LogLevel": "ERROR",
        "ConnectTimeout": "20",
    }
    return ("-F", "none", *(f"-o{name}={value}" for name, value in options.items()))


@contextmanager
def owners_environment(lab: str, roots: Roots) -> Iterator[dict[str, str]]:
    """The environment of a command inside, for an owner who is not root: the kubeconfig is in a temporary file of theirs."""
    client = ControlClient(require_lab(lab, roots).socket)
    with _short_lived_folder() as folder:
        known = {"RACKLESS_LAB": lab}
        with suppress(LabError):  # there is no API yet, or no labd at the moment
            asked = say.WantKubeconfig(inside=True)
            text = asyncio.run(client.work(say.KUBECONFIG, asked, Bus())).text
            write(Path(folder, "kubeconfig"), text, mode=0o600)
            known["KUBECONFIG"] = str(Path(folder, "kubeconfig"))
        yield known


@contextmanager
def _short_lived_folder() -> Iterator[str]:
    """A folder for keys, which is also removed on SIGTERM and on SIGHUP (a closed terminal)."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    main = threading.current_thread() is threading.main_thread()  # Python lets only the main thread set signal handlers
    deadly = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    with TemporaryDirectory(prefix="rackless-", dir=INSIDE_TOO) as folder:
        for number in deadly if main else ():
            signal.signal(number, end)
        try:
            yield folder
        finally:
            for number in deadly if main else ():
                signal.signal(number, signal.SIG_DFL)


def _holder(paths: LabPaths, processes: ProcessTable) -> int:
    if (pid := processes.find(paths.holder_pid)) is not None:
        return pid
    raise LabError(f"the lab {paths.name} is not running", hint="`rackless up` starts it")
