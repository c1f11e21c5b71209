"""What a node is told at its first boot: which cluster, by which token, and how it is to register."""

from __future__ import annotations

import base64
import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class BadSettings(Exception):
    """A file that was given to the agent cannot be used; says which and why."""


class AgentSettings(NamedTuple):
    name: str
    host: str
    port: int
    ca: str
    """The cluster's CA, in PEM: who signs the API's certificate, and ours."""
    token: str
    """Good for asking for a first certificate, and for nothing else; empty when there is none."""
    taints: tuple[dict[str, str], ...] = ()
    """The taints that the node registers with. Afterwards only the cluster changes them."""

    def __repr__(self) -> str:
        """Without the token."""
        return f"AgentSettings({self.name!r}, {self.host!r}, {self.port})"


NAMELESS = ("localhost", "(none)")
"""The host names that systemd and the kernel give a system that has none."""


def load(kubeconfig: Path, settings: Path | None) -> AgentSettings:
    """`kubeconfig` is in JSON, which is YAML as well: a parser for the rest of YAML would be most of the agent."""
    try:
        described = json.loads(kubeconfig.read_text())
        cluster = described["clusters"][0]["cluster"]
        user = described["users"][0].get("user") or {}
        host, port = _server(cluster["server"])
        ca = base64.b64decode(cluster["certificate-authority-data"], validate=True).decode()
        token = str(user.get("token", ""))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadSettings(f"{kubeconfig} is not a kubeconfig in JSON with a cluster and a token: {error!r}") from None
    return AgentSettings(_own_name(), host, port, ca, token, _taints(settings))


def _server(url: str) -> tuple[str, int]:
    found = re.fullmatch(r"https://(?:\[([0-9a-fA-F:]+)\]|([^:/\[\]]+))(?::(\d+))?/?", url)
    if found is None:
        raise ValueError(f"{url} is no https:// address")
    return found[1] or found[2], int(found[3] or 443)


def _own_name() -> str:
    """The system's: whoever gave it (Ignition, DHCP) says which node this is."""
    name = os.uname().nodename.lower()
    if not _NAME.fullmatch(name) or name in NAMELESS:
        raise BadSettings(f"this system is called {name!r}, which no node can be called: give it a host name")
    return name


def _taints(path: Path | None) -> tuple[dict[str, str], ...]:
    if path is None or not path.exists():
        return ()
    try:
        found: Any = json.loads(path.read_text())
        return tuple({str(key): str(value) for key, value in taint.items()} for taint in found.get("taints", ()))
    except (OSError, ValueError, AttributeError) as error:
        raise BadSettings(f"{path} does not say how this node registers: {error}") from None
