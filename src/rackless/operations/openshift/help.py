"""A look at the API of a real install from inside the lab, with the installer's kubeconfig: hosts in error, requests of nodes. With
`--approve` the requests of the lab's own servers are approved.

A process of its own in the lab's namespaces, started by `operations/openshift/real.py`; it says what it saw as one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rackless.cluster.openshift.helping import of_a_server, slow_hosts
from rackless.cluster.openshift.payload import MACHINE_API
from rackless.controllers.nodes.approving import KIND, approve, pending
from rackless.drivers import open_drivers
from rackless.errors import RacklessError
from rackless.ports.resources import Resources
from rackless.trust.kubeconfig_reading import read_kubeconfig

HOST = "BareMetalHost"


async def look(api: Resources, servers: Mapping[str, Sequence[str]], *, approves: bool) -> dict[str, Any]:
    """`servers` has, by name, a server's names and addresses."""
    slow = [asdict(one) for one in slow_hosts(await api.list(HOST), list(servers))]
    found: list[dict[str, str]] = []
    for request in await api.list(KIND):
        if not pending(request) or not (server := of_a_server(request, servers)):
            continue
        if approves:
            await approve(api, request, "ServerOfTheLab", f"{server} is a server of the lab", datetime.now(UTC))
        found.append({"request": str(request["metadata"]["name"]), "server": server})
    return {"slow": slow, "requests": found}


async def _look_once(kubeconfig: Path, servers: Mapping[str, Sequence[str]], *, approves: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="rackless-help-") as keep:
        access, _ = read_kubeconfig(kubeconfig, Path(keep))
        client = open_drivers().open_api(access, patience=5.0, namespace=MACHINE_API)
        try:
            return await look(client, servers, approves=approves)
        finally:
            await client.close()


def main() -> None:
    kubeconfig, servers = Path(sys.argv[1]), json.loads(sys.argv[2])
    try:
        found = asyncio.run(_look_once(kubeconfig, servers, approves="--approve" in sys.argv))
    except (RacklessError, OSError) as error:  # the API is not there yet, or has moved
        found = {"failed": str(error)}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
