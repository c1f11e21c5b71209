"""One archive for a bug report: description, plan, events, logs, what libvirt and the kernel say. No secret goes in.

Secrets are left out as files, and wherever one of their values appears in a text it is blotted out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rackless import __version__
from rackless.codec import encode
from rackless.diagnosis.timeline_svg import timeline_svg
from rackless.errors import RacklessError
from rackless.operations import hosts as host_operations
from rackless.operations import lab as operations
from rackless.operations.access import inside_command
from rackless.operations.archives import as_json, blot, end_of, pack
from rackless.operations.computer_signs import look_at_computer
from rackless.operations.doctor import examine
from rackless.operations.lab_registry import READING, require_lab, require_root
from rackless.operations.lab_signs import look_for_signs
from rackless.operations.runs import lab_runs
from rackless.ports.drivers import Drivers
from rackless.protocol import messages as say
from rackless.protocol.client import ControlClient
from rackless.run.paths import LabPaths, Roots

QUESTIONS: dict[str, Sequence[str]] = {
    "links.txt": ("ip", "-details", "address"),
    "routes.txt": ("ip", "route", "show", "table", "all"),
    "bridges.txt": ("bridge", "link"),
    "neighbours.txt": ("ip", "neighbour"),
    "sockets.txt": ("ss", "-lntup"),
    "rules.txt": ("nft", "list", "ruleset"),
    "servers.txt": ("virsh", "list", "--all"),
    "networks.txt": ("virsh", "net-list", "--all"),
    "cluster-network.xml": ("virsh", "net-dumpxml", "cluster"),
    "leases.txt": ("virsh", "net-dhcp-leases", "cluster"),
    "processes.txt": ("ps", "-eo", "pid,ppid,etime,rss,args", "--forest"),
}


_SHORTEST = 8
"""Letters that a secret must have to be blotted out: shorter ones appear in any text."""
_OPAQUE = ("-data", "token", "password")
"""Ends of the names in a kubeconfig whose values are secret."""


async def gather(name: str, output: Path, roots: Roots, drivers: Drivers) -> dict[str, Any]:
    paths = require_lab(name, roots)
    require_root("read a lab's logs", drivers.computer, why=READING)
    secrets = list(_secrets(paths))
    files: dict[str, bytes] = {}
    for path in _files(paths):
        files[str(path.relative_to(paths.state))] = blot(end_of(path), secrets)
    files["version.txt"] = f"{__version__}\n".encode()
    files["doctor.json"] = as_json([asdict(check) for check in await examine(roots, drivers)])
    with suppress(RacklessError):
        files["computer.json"] = blot(as_json(encode(look_at_computer(paths, drivers))), secrets)
    with suppress(RacklessError):
        files["status.json"] = blot(as_json(encode(await operations.status(name, roots))), secrets)
        files["hosts.json"] = blot(as_json(await host_operations.hosts(name, roots)), secrets)
        files["observed.json"] = as_json(asdict(await operations.observe(paths, drivers)))
        objects = await ControlClient(paths.socket).look(say.OBJECTS)
        files["objects.json"] = blot(as_json(encode(objects)), secrets)
    with suppress(RacklessError):
        known = await operations.status(name, roots)
        if not isinstance(known, operations.AbsentLab):
            files["signs.json"] = blot(as_json(encode(await look_for_signs(paths, known, drivers))), secrets)
    with suppress(RacklessError):
        if runs := await lab_runs(name, roots):
            files["timeline.svg"] = blot(timeline_svg(name, runs[-1], time.time()).encode(), secrets)
    with suppress(RacklessError):
        for file, question in QUESTIONS.items():
            done = await drivers.processes.run(inside_command(name, question, roots, drivers), check=False, within=20)
            files[f"inside/{file}"] = blot((done.stdout + done.stderr).encode(), secrets)
    pack(output, f"rackless-{name}", files)
    return {"file": str(output), "files": len(files), "bytes": output.stat().st_size}


def _files(paths: LabPaths) -> Iterator[Path]:
    yield from (path for path in (paths.spec, paths.goal, paths.journal, paths.supplies) if path.exists())
    yield from sorted(path for path in paths.logs.rglob("*") if path.is_file())


def _secrets(paths: LabPaths) -> Iterator[bytes]:
    """The text of every secret; of PEM keys each line but the BEGIN and END ones, of JSON the values: in a kubeconfig those that
    are keys, tokens and certificates, since its names are everybody's."""
    places = [path for path in paths.secrets.rglob("*") if path.is_file()]
    for path in places:
        if path.suffix in {".crt", ".pub"} or path.name == "known_hosts":
            continue
        text = path.read_bytes()
        with suppress(ValueError):
            yield from _values(json.loads(text), named=path.name == "kubeconfig")
            continue
        for line in text.splitlines():
            if len(line) >= _SHORTEST and not line.startswith(b"-----"):
                yield line.strip()


def _values(value: Any, *, named: bool, name: str = "") -> Iterator[bytes]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _values(each, named=named, name=str(key))
    elif isinstance(value, list):
        for each in value:
            yield from _values(each, named=named, name=name)
    elif isinstance(value, str) and len(value) >= _SHORTEST and (not named or name.endswith(_OPAQUE)):
        yield value.encode()
