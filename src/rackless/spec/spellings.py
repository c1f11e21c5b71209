"""Spellings of earlier versions that lab.yaml may still use, and today's spelling of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from rackless.errors import Problem
from rackless.spec.load import lines_of
from rackless.spec.servers import BmcProtocol, BmcScheme


def find_old_spellings(text: str) -> list[Problem]:
    """The old spellings in the text of a lab.yaml that is valid."""
    tree, lines = yaml.safe_load(text) or {}, lines_of(text)
    return [Problem(path, message, lines.get(tuple(path.split("."))), hint) for path, message, hint in _old(tree)]


def _old(tree: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    cluster = ((tree.get("networks") or {}).get("cluster") or {}) if isinstance(tree.get("networks"), dict) else {}
    if cluster.get("dhcp") == "reserved":
        yield "networks.cluster.dhcp", "`reserved` is called `installer` now", "write dhcp: installer"
    for name, group in (tree.get("servers") or {}).items():
        group = group or {}
        path = f"servers.{name}.bmc"
        match group.get("bmc"):
            case BmcScheme.REDFISH_VIRTUALMEDIA:
                yield (
                    path,
                    "how servers boot is a field of its own now",
                    "write boot: media, or nothing: it is the default",
                )
            case (BmcProtocol.REDFISH | BmcProtocol.IPMI) as bmc if "boot" not in group:
                yield path, "how servers boot is a field of its own now", f"write boot: network, bmc: {bmc}"
