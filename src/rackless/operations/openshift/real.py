"""`payload: real`: what a real install by openshift-install is prepared with, and who helps it on its way.

Whether it helps by itself is the lab's `remediation`: `auto` does what is safe, `ask` says what would help, `off` neither. What was
done is in the lab's events and in the report.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rackless.cluster.openshift import installer as calls
from rackless.cluster.openshift.helping import waits_again
from rackless.cluster.openshift.report import Report
from rackless.errors import InputError, RacklessError
from rackless.events import Bus
from rackless.operations.access import inside_command
from rackless.operations.install.lab import NO_PULL_SECRET
from rackless.operations.rehearsal.run import is_hidden
from rackless.plan.model import LabPlan
from rackless.ports.drivers import Drivers
from rackless.protocol.client import ControlClient
from rackless.protocol.messages import POWER, PressPower
from rackless.run.paths import LabPaths
from rackless.spec.cluster import OpenshiftSpec
from rackless.spec.lab import LabSpec
from rackless.spec.remediation import Remediation
from rackless.spec.servers import GIB, MIB, Role
from rackless.spec.uplink import Uplink

_LOOK = "rackless.operations.openshift.help"
LOOK_SECONDS = 30.0
_LEAST_MEMORY = {Role.CONTROL_PLANE: 16 * GIB, Role.WORKER: 8 * GIB}
_LEAST_DISK = 100 * GIB
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def read_pull_secret(wanted: OpenshiftSpec, text: str, release: str) -> str:
    """The pull secret that takes the place of the one in the install-config; empty where that one will do. Raises InputError."""
    if wanted.pull_secret is not None:
        try:
            secret = wanted.pull_secret.read_text(encoding="utf-8").strip()
            good = isinstance(json.loads(secret).get("auths"), dict)
        except (OSError, ValueError, AttributeError) as error:
            raise InputError("the pull secret cannot be read", why=f"{wanted.pull_secret}: {error}") from error
        if not good:
            raise InputError("that is no pull secret", why=f"{wanted.pull_secret} has no auths")
        return secret
    given = (yaml.safe_load(text) or {}).get("pullSecret")
    if "okd" in release or (given and given != NO_PULL_SECRET):
        return ""
    raise InputError(
        "a real install needs a pull secret",
        why="this lab's install-config has none; only OKD needs none",
        hint="cluster.openshift.pull_secret: ./pull-secret.json",
    )


def environment(wanted: OpenshiftSpec, folder: Path, *, kvm: bool) -> dict[str, str]:
    """Raises InputError for an `oc` that cannot be run inside a lab."""
    found = calls.environment(folder, kvm=kvm, release=wanted.release_image)
    oc = wanted.oc
    if oc is None:
        return found
    if not oc.is_file() or not os.access(oc, os.X_OK) or is_hidden(oc):
        raise InputError(f"{oc} cannot be run inside a lab", hint="name a program outside of /run and /var")
    return {**found, "PATH": f"{oc.resolve().parent}:{_PATH}"}


def doubts(spec: LabSpec, plan: LabPlan, *, kvm: bool) -> Iterator[str]:
    """Why this install may not come to its end here."""
    if not kvm:
        yield "no KVM here: everything is emulated, and the installer's hours will not do"
    if spec.networks.uplink.mode is Uplink.NONE:
        yield "networks.uplink is none: images come only from what is inside the lab"
    wanted = spec.cluster.openshift
    if wanted.oc is None and shutil.which("oc", path=_PATH) is None:
        yield "there is no oc: the installer downloads the live ISO instead of taking it out of the release"
    for server in plan.servers:
        least = _LEAST_MEMORY.get(server.role, 0)
        if server.memory_mib * MIB < least:
            yield f"{server.name} has {server.memory_mib >> 10} GiB of memory; OpenShift wants {least // GIB}"
        if server.role in _LEAST_MEMORY and server.disks[0] < _LEAST_DISK:
            yield f"{server.name} has a disk of {server.disks[0] // GIB} GiB; OpenShift wants {_LEAST_DISK // GIB}"


@dataclass(slots=True)
class RealHelp:
    """Looks at the install every half minute, and helps where the lab may."""

    spec: LabSpec
    plan: LabPlan
    paths: LabPaths
    report: Report
    bus: Bus
    drivers: Drivers
    waited: int = 0
    _done: set[tuple[str, int]] = field(default_factory=set)

    @property
    def may(self) -> bool:
        return self.spec.remediation is Remediation.AUTO

    @asynccontextmanager
    async def helping(self) -> AsyncIterator[None]:
        """Meanwhile."""
        if self.spec.remediation is Remediation.OFF:
            yield
            return
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await self.drivers.clock.sleep(LOOK_SECONDS)
            with suppress(RacklessError):  # it is tried again in a moment
                await self.look()

    async def look(self) -> None:
        """One look, and what it leads to."""
        kubeconfig = self.paths.install_kubeconfig
        if not kubeconfig.exists():
            return
        servers = {one.name: [one.name, one.fqdn, str(one.address)] for one in self.plan.servers}
        argv = [sys.executable, "-P", "-m", _LOOK, str(kubeconfig), json.dumps(servers)]
        argv += ["--approve"] if self.may else []
        inside = inside_command(self.paths.name, argv, self.paths.roots, self.drivers)
        done = await self.drivers.processes.run(inside, check=False, within=60)
        found: dict[str, Any] = {}
        with suppress(ValueError, IndexError):
            found = json.loads(done.stdout.strip().splitlines()[-1])
        for one in found.get("requests", ()):
            self._tell(
                f"certificate/{one['request']}", f"approve the certificate of {one['server']}",
                f"{one['server']} is a server of the lab", "installer/node-request", done=self.may,
            )  # fmt: skip
        for one in found.get("slow", ()):
            await self._restart(str(one["server"]), str(one["why"]), int(one["tries"]))

    async def _restart(self, server: str, why: str, tries: int) -> None:
        """Once for each error."""
        if (server, tries) in self._done:
            return
        self._done.add((server, tries))
        if self.may:
            await ControlClient(self.paths.socket).work(POWER, PressPower(server, "cycle"), self.bus)
        self._tell(f"server/{server}", f"switch {server} off and on", why, "installer/host-timeout", done=self.may)

    def wait_again(self, code: int, said: str) -> bool:
        """Whether the installer is to wait again: only its patience has ended."""
        if self.spec.remediation is Remediation.OFF or not waits_again(code, said, self.waited):
            return False
        self.waited += 1
        self._tell("installer/run", "let the installer wait again", said, "installer/patience", done=self.may)
        return self.may

    def _tell(self, subject: str, what: str, why: str, rule: str, *, done: bool) -> None:
        if done:
            self.bus.tell("remedy-applied", level="info", subject=subject, did=what, why=why, by="lab", rule=rule)
            self.report.deviations.append(f"helped: {what}, because {why}")
        else:
            self.bus.tell("remedy-possible", subject=subject, what=what, why=why)
