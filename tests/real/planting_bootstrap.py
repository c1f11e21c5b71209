"""Faults planted before the parts of a bootstrap machine, and what these tell on its console.

`python -m tests.real.planting_bootstrap FOLDER` records it; `tests/diagnosis/data` is what it wrote. The parts are rackless's own
and etcd as Debian has it, in network namespaces of their own; what makes them give up after minutes is made shorter.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Coroutine
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rackless.api.process import ApiServer, ApiSettings
from rackless.cluster.bootstrap import membership
from rackless.cluster.bootstrap.manifests import apply, load_manifests
from rackless.cluster.bootstrap.membership import EtcdMembership, await_voter, ensure_learner
from rackless.cluster.bootstrap.pulling import pull
from rackless.drivers.clock import SystemClock
from rackless.drivers.ironic.environment import ensure_environment
from rackless.drivers.kubernetes.client import Client
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.drivers.process import LocalProcesses
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.images.payload_places import IRONIC
from rackless.operations.bootstrap import handover as bootstrap_handover
from rackless.operations.bootstrap import metal3 as bootstrap_metal3
from rackless.operations.bootstrap.parts import PATIENCE_SECONDS, ApiObjects
from rackless.operations.bootstrap.running import run, teller
from rackless.run.paths import Roots
from rackless.trust.kubeconfig_reading import read_kubeconfig
from tests.real import planting_ironic
from tests.real.planting_node import etcd_members, unpack, web_server

ROOT = Path(__file__).parents[2]
_UP = ("payload mounted", "manifests applied", "metal3")


def _record(target: Path, work: Coroutine[Any, Any, None], *before: dict[str, Any]) -> None:
    with target.open("w") as file, redirect_stdout(file):
        tell = teller()
        for told in before:
            tell(told)
        with suppress(RacklessError, OSError):
            run(work, tell)


async def _pull(url: str, scratch: Path) -> None:
    await pull(url, "0" * 64, scratch / "payload.img", SystemClock(), teller(), within=3)


def plant_payload(folder: Path, *, connected: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        url = "http://192.0.2.1:8080/payload.img" if not connected else "http://127.0.0.1:18098/payload.img"
        began = {"phase": "payload", "url": url}
        if not connected:
            _record(folder / "bootstrap-no-address.log", _pull(url, Path(name)), began)
            return
        _record(folder / "bootstrap-payload-away.log", _pull(url, Path(name)), began)
        with web_server(18098):
            _record(folder / "bootstrap-payload-missing.log", _pull(url, Path(name)), began)


async def _apply(scratch: Path) -> None:
    """A manifest of a kind that nobody defines."""
    manifests = scratch / "manifests"
    manifests.mkdir()
    (manifests / "50-odd.yaml").write_text("{apiVersion: example.com/v1, kind: Odd, metadata: {name: odd}}\n")
    kubeconfig, clock = scratch / "kubeconfig", SystemClock()
    async with ApiServer(ApiSettings(f"sqlite:{scratch}/objects.db", scratch / "pki", kubeconfig=kubeconfig)):
        access, _ = read_kubeconfig(kubeconfig, scratch)
        client = Client(access, clock, PATIENCE_SECONDS)
        try:
            await apply(load_manifests(scratch), ApiObjects(client), clock, teller(), within=3)
        finally:
            await client.close()


def plant_manifest(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        _record(folder / "bootstrap-manifest.log", _apply(Path(name)), {"phase": "payload mounted"})


async def _vote() -> None:
    """A member that is let in and never starts."""
    peer = "http://127.0.0.9:2380"
    async with EtcdMembership("http://127.0.0.1:2379", ssl.create_default_context()) as etcd:
        await ensure_learner(etcd, peer)
        await await_voter(etcd, peer, SystemClock())


def plant_member(folder: Path) -> None:
    membership.PROMOTED_WITHIN = 5.0
    with tempfile.TemporaryDirectory() as name:
        root = Path(sys.argv[3])
        with etcd_members(root, Path(name) / "etcd", {}):
            asyncio.run(asyncio.sleep(5))  # etcd refuses a member for as long as its own have just met
            told = {"phase": "joins etcd", "node": "ctrl-1", "address": "127.0.0.9"}
            _record(folder / "bootstrap-etcd-member.log", _vote(), told)


async def _await_control_plane(scratch: Path) -> None:
    """One of two control planes never joins etcd."""
    kubeconfig = scratch / "kubeconfig"
    async with (
        ApiServer(ApiSettings(f"sqlite:{scratch}/objects.db", scratch / "pki", kubeconfig=kubeconfig)),
        EtcdMembership("http://127.0.0.1:2379", ssl.create_default_context()) as etcd,
    ):
        access, _ = read_kubeconfig(kubeconfig, scratch)
        await bootstrap_handover._await_voters(etcd, ["m1", "ctrl-2"], access, SystemClock(), teller())


def plant_hand_over(folder: Path) -> None:
    bootstrap_handover.WITHIN_SECONDS = 5.0
    before = ({"phase": name} for name in (*_UP, "ironic", "keys offered"))
    with tempfile.TemporaryDirectory() as name:
        with etcd_members(Path(sys.argv[3]), Path(name) / "etcd", {}):
            _record(folder / "bootstrap-hand-over.log", _await_control_plane(Path(name)), *before)


async def _serve(scratch: Path, full: Path) -> None:
    """Ironic where its folder has no room, beside controllers and an API that are well."""
    bootstrap_metal3.STATE = scratch
    payload = scratch / "payload"
    payload.mkdir()
    (payload / IRONIC).symlink_to(sys.argv[4])
    kubeconfig = scratch / "kubeconfig"
    config = replace(planting_ironic.make_config(scratch), state=full / "ironic", ipmi=False)
    async with ApiServer(ApiSettings(f"sqlite:{scratch}/objects.db", scratch / "pki", kubeconfig=kubeconfig)):
        access, _ = read_kubeconfig(kubeconfig, scratch)
        resources = KubernetesResources(access)
        try:
            await bootstrap_metal3._serve(resources, config, payload, teller(), whole=False)
        finally:
            await resources.close()


def plant_ironic(folder: Path) -> None:
    subprocess.run(["ip", "address", "add", f"{planting_ironic.IRONIC}/24", "dev", "lo"], check=True)
    with tempfile.TemporaryDirectory() as name:
        full = Path(name) / "full"
        full.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "full", str(full)], check=True)
        try:
            before = ({"phase": name} for name in _UP)
            _record(folder / "bootstrap-ironic.log", _serve(Path(name), full), *before)
        finally:
            subprocess.run(["umount", str(full)], check=True)
        told = (folder / "bootstrap-ironic.log").read_text()
        told = told.replace(str(full), "/var/lib/rackless/metal3").replace(name, "/var/lib/rackless")
        (folder / "bootstrap-ironic.log").write_text(told)


def record(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    venv = asyncio.run(ensure_environment(Roots.from_environment().cache, LocalProcesses(), Bus()))
    with tempfile.TemporaryDirectory() as name:
        programs = unpack(Path(name))
        for what in ("--alone", "--inside"):
            inside = [
                "unshare",
                "--net",
                "--mount",
                sys.executable,
                "-m",
                "tests.real.planting_bootstrap",
                what,
                str(folder),
                str(programs),
                str(venv),
            ]
            subprocess.run(inside, check=True, cwd=ROOT)


if __name__ == "__main__":
    if sys.argv[1] == "--alone":
        plant_payload(Path(sys.argv[2]), connected=False)
    elif sys.argv[1] == "--inside":
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        plant_payload(Path(sys.argv[2]), connected=True)
        plant_manifest(Path(sys.argv[2]))
        plant_member(Path(sys.argv[2]))
        plant_hand_over(Path(sys.argv[2]))
        plant_ironic(Path(sys.argv[2]))
    else:
        record(Path(sys.argv[1]))
