"""The nodes as objects of the cluster's own API, with what is known of them from outside.

There is no kubelet on a node of the reference cluster: an object says which node there is, what it is for and where it
answered, and nothing about its being ready, which `kubectl get nodes` shows as Unknown.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp

from rackless.cluster.reference.front import API_PORT
from rackless.plan.model import PlannedServer
from rackless.spec.address import Ip

PATIENCE = 20.0
MERGE = "application/merge-patch+json"


def node(server: PlannedServer) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": server.name, f"node-role.kubernetes.io/{server.role.value}": ""}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": server.name, "labels": labels}}


def node_status(server: PlannedServer) -> dict[str, Any]:
    return {
        "addresses": [
            {"type": "InternalIP", "address": str(server.address)},
            {"type": "Hostname", "address": server.name},
        ]
    }


async def ensure_nodes(vip: Ip, tls: ssl.SSLContext, answering: Sequence[PlannedServer]) -> list[str]:
    """Have an object for each of these nodes, which answered; returns the names of those that were made now."""
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    base = f"https://{vip}:{API_PORT}/api/v1/nodes"
    made = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls), timeout=timeout) as session:
        for server in answering:
            async with session.post(base, json=node(server)) as answer:
                if answer.status != 409:  # it is there already
                    answer.raise_for_status()
                    made.append(server.name)
            await _patch(session, f"{base}/{server.name}", node(server))
            await _patch(session, f"{base}/{server.name}/status", {"status": node_status(server)})
    return made


async def _patch(session: aiohttp.ClientSession, url: str, body: Mapping[str, Any]) -> None:
    async with session.patch(url, json=body, headers={"Content-Type": MERGE}) as answer:
        answer.raise_for_status()
