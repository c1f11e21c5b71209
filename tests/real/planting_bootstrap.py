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
from pathlib import Path
from typing import Any

from rackless.cluster.bootstrap import membership
from rackless.cluster.bootstrap.membership import EtcdMembership, await_voter, ensure_learner
from rackless.cluster.bootstrap.pulling import pull
from rackless.drivers.clock import SystemClock
from rackless.errors import RacklessError
from rackless.operations.bootstrap_running import run, teller
from tests.real.planting_node import etcd_members, unpack, web_server

ROOT = Path(__file__).parents[2]


def _record(target: Path, work: Coroutine[Any, Any, None], *before: dict[str, Any]) -> None:
    with target.open("w") as file, redirect_stdout(file):
        tell = teller()
        for told in before:
            tell(told)
        with suppress(RacklessError):
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


def record(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        programs = unpack(Path(name))
        for what in ("--alone", "--inside"):
            inside = [
                "unshare",
                "--net",
                sys.executable,
                "-m",
                "tests.real.planting_bootstrap",
                what,
                str(folder),
                str(programs),
            ]
            subprocess.run(inside, check=True, cwd=ROOT)


if __name__ == "__main__":
    if sys.argv[1] == "--alone":
        plant_payload(Path(sys.argv[2]), connected=False)
    elif sys.argv[1] == "--inside":
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        plant_payload(Path(sys.argv[2]), connected=True)
        plant_member(Path(sys.argv[2]))
    else:
        record(Path(sys.argv[1]))
