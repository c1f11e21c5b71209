"""A node of Ironic's: what we write on it, and what it says of itself. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rackless.drivers.ironic.client import Json
from rackless.ports.provisioner import Again, HostAccess

SOON = 0.5
"""Seconds until the next look at something quick …"""
LATER = 0.75
"""… and at something that takes a server's boot."""


def fingerprint(host: HostAccess, ramdisk: Mapping[str, str]) -> str:
    bmc = host.bmc
    parts = (host.uid, bmc.address, bmc.username, bmc.password, str(bmc.ca), str(bmc.verify), *ramdisk.values())
    if host.network is not None:  # hosts without keep the fingerprint they have
        parts = (*parts, json.dumps(host.network, sort_keys=True))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def network_data(host: HostAccess) -> dict[str, Any]:
    """The agent's own addresses. Ironic's schema wants a `network_id`, which nobody reads: it is filled in."""
    if host.network is None:
        return {}
    networks = [{"network_id": each.get("id"), **each} for each in host.network.get("networks") or ()]
    return {**host.network, "networks": networks}


def kept(info: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in info.items() if not name.startswith(("redfish_", "ipmi_"))}


def capabilities(host: HostAccess) -> str:
    mode = "bios" if host.boot_mode == "legacy" else "uefi"
    return f"boot_mode:{mode}" + (",secure_boot:true" if host.boot_mode == "UEFISecureBoot" else "")


def reason(node: Json, past: str) -> str:
    """Why it failed; `past` is the last failure in its history, for an error that was forgotten since."""
    return str(node["last_error"] or past or f"Ironic says only: {node['provision_state']}").strip()


def under_way(node: Json) -> Again:
    waits = "wait" in node["provision_state"]
    return Again(LATER if waits else SOON, doing(node), agent=waits)


def doing(node: Json) -> str:
    """What the engine is at, for people: the step by name, or what is waited for."""
    for kind in ("deploy_step", "clean_step"):
        step = (node.get(kind) or {}).get("step")
        if step:
            return str(step).replace("_", " ")
    words = {
        "inspect wait": "the server boots the agent",
        "clean wait": "the server boots the agent",
        "wait call-back": "the server boots the agent",
        "deleting": "taking the system off",
    }
    state = str(node["provision_state"])
    return words.get(state, state)
