"""What helps a real install on its way, and what is only said: decided from what its API has. Pure.

A server whose PXE boot or agent was not heard of in time is restarted; a certificate request of a node that is one of the lab's
servers is approved; an installer whose patience ended, and nothing else, waits again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography import x509

from rackless.ports.resources import Record
from rackless.trust.requests import read_request

CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
BOOTSTRAPPER = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"
_NODE = "system:node:"
_TIMEOUT = re.compile(r"time(?:d )?out", re.IGNORECASE)
_PATIENCE = re.compile(r"timed out waiting|context deadline exceeded|failed to initialize the cluster", re.IGNORECASE)
WAITS_AGAIN = 2
"""How often an installer waits again before a person is asked: twice its own hours is long enough."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """A host in error because something was not heard of in time."""

    server: str
    state: str
    why: str
    tries: int
    """Its errors so far: after the next one it may be restarted again."""


def slow_hosts(hosts: Sequence[Record], servers: Collection[str]) -> Iterator[Overdue]:
    for host in hosts:
        name, status = str(host["metadata"]["name"]), host.get("status") or {}
        why = str(status.get("errorMessage") or "")
        if name in servers and status.get("operationalStatus") == "error" and _TIMEOUT.search(why):
            state = str((status.get("provisioning") or {}).get("state") or "unknown")
            yield Overdue(name, state, why, int(status.get("errorCount") or 0))


def of_a_server(request: Record, servers: Mapping[str, Collection[str]]) -> str:
    """The server whose node makes this request; empty where it is none's, or where it asks for more than that. `servers` has, by
    name, its names and addresses."""
    spec: Mapping[str, Any] = request.get("spec") or {}
    try:
        asked = read_request(spec.get("request") or "")
    except ValueError:
        return ""
    if not asked.name.startswith(_NODE) or asked.organizations != ("system:nodes",):
        return ""
    node = asked.name.removeprefix(_NODE)
    server = next((name for name, known in servers.items() if node in known), "")
    if not server:
        return ""
    if spec.get("signerName") == CLIENT:
        return server if spec.get("username") in (BOOTSTRAPPER, asked.name) and not asked.alternatives else ""
    if spec.get("signerName") != SERVING or spec.get("username") != asked.name:
        return ""
    alternatives = list(asked.alternatives or ())
    wanted = {str(each.value) for each in alternatives if isinstance(each, x509.DNSName | x509.IPAddress)}
    return server if wanted and len(wanted) == len(alternatives) and wanted <= set(servers[server]) else ""


def waits_again(code: int, said: str, waited: int) -> bool:
    """Whether nothing but the installer's patience ended."""
    return code in (5, 6, 7) and waited < WAITS_AGAIN and bool(_PATIENCE.search(said))
