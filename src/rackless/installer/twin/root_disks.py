"""Which disk a system is written to, as an install-config says it, and what of it a lab's disks can be. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rackless.installer.install_config.building import struct, structs, text
from rackless.installer.install_config.config import Config

Hints = dict[str, Any]
_SERIAL = re.compile(r"[A-Za-z0-9._-]{1,20}")
_VIRTIO = re.compile(r"/dev/vd[a-z]")
_SCSI = re.compile(r"/dev/sd[a-z]")


def read_hints(config: Config) -> dict[str, Hints]:
    """By host."""
    metal = struct(struct(config.values, "platform"), "baremetal")
    found = {text(host, "name"): dict(struct(host, "rootDeviceHints")) for host in structs(metal, "hosts")}
    return {name: hints for name, hints in found.items() if hints}


def serial(hints: Hints) -> str:
    """The one that the lab's disk gets; empty where the site names none, or one that a lab's disk cannot have."""
    value = str(hints.get("serialNumber") or "")
    return value if _SERIAL.fullmatch(value) else ""


def is_virtio(hints: Hints) -> bool:
    """Whether the disks are called /dev/vda and so on."""
    return _VIRTIO.fullmatch(str(hints.get("deviceName") or "")) is not None


def missing(hints: Hints) -> Iterator[str]:
    """Hints that no disk of the twin fits."""
    for name, value in hints.items():
        known = {
            "deviceName": is_virtio(hints) or _SCSI.fullmatch(str(value)) is not None,
            "serialNumber": bool(serial(hints)),
        }
        if not known.get(name, False):
            yield f"{name} {value}"
