"""From the deploy agent's inventory to a BareMetalHost's `status.hardware`. Pure.

The inventory comes over the network from a server that is not trusted: a value of the wrong type is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_MIB = 1024 * 1024
_MOST = 2**63 - 1
_MOST_PARTS = 64
"""NICs and disks. All of it is kept in an annotation, too, and those have 256 KiB together."""
_MOST_FLAGS = 512
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.ASCII)


def hardware(inventory: Mapping[str, Any], boot_mac: str = "") -> dict[str, Any]:
    cpu, memory = _part(inventory, "cpu"), _part(inventory, "memory")
    vendor = _part(inventory, "system_vendor")
    firmware = _part(vendor, "firmware")
    boot_mac = boot_mac or _text(_part(inventory, "boot"), "pxe_interface").lower()
    return {
        "hostname": _text(inventory, "hostname"),
        "cpu": {
            "arch": _text(cpu, "architecture"),
            "count": _number(cpu, "count"),
            "model": _text(cpu, "model_name"),
            "clockMegahertz": _number(cpu, "frequency"),
            "flags": _flags(cpu),
        },
        "ramMebibytes": _number(memory, "physical_mb") or _number(memory, "total") // _MIB,
        "nics": [_nic(nic, boot_mac) for nic in _parts(inventory, "interfaces")],
        "storage": [_disk(disk) for disk in _parts(inventory, "disks")],
        "systemVendor": {
            "manufacturer": _text(vendor, "manufacturer"),
            "productName": _text(vendor, "product_name"),
            "serialNumber": _text(vendor, "serial_number"),
        },
        "firmware": {
            "bios": {
                "vendor": _text(firmware, "vendor"),
                "version": _text(firmware, "version"),
                "date": _text(firmware, "build_date"),
            }
        },
    }


def _nic(nic: Mapping[str, Any], boot_mac: str) -> dict[str, Any]:
    mac = _text(nic, "mac_address").lower()
    return {
        "name": _text(nic, "name"),
        **({"mac": mac} if _MAC.fullmatch(mac) else {}),
        "ip": _text(nic, "ipv4_address") or _text(nic, "ipv6_address"),
        "model": " ".join(part for part in (_text(nic, "vendor"), _text(nic, "product")) if part),
        "speedGbps": _number(nic, "speed_mbps") // 1000,
        "pxe": bool(mac) and mac == boot_mac,
    }


def _disk(disk: Mapping[str, Any]) -> dict[str, Any]:
    rotational = bool(disk.get("rotational"))
    name = _text(disk, "name")
    return {
        "name": _text(disk, "by_path") or name,
        "alternateNames": [name] if name else [],
        "sizeBytes": _number(disk, "size"),
        "rotational": rotational,
        "type": "NVME" if name.startswith("/dev/nvme") else "HDD" if rotational else "SSD",
        "vendor": _text(disk, "vendor"),
        "model": _text(disk, "model"),
        "serialNumber": _text(disk, "serial"),
        "hctl": _text(disk, "hctl"),
        "wwn": _text(disk, "wwn"),
    }


def _part(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = value.get(name)
    return part if isinstance(part, Mapping) else {}


def _parts(value: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    found = value.get(name)
    return (part for part in found[:_MOST_PARTS] if isinstance(part, Mapping)) if isinstance(found, list) else iter(())


def _flags(cpu: Mapping[str, Any]) -> list[str]:
    found = cpu.get("flags")
    return (
        sorted(_clean(flag, 32) for flag in found[:_MOST_FLAGS] if isinstance(flag, str))
        if isinstance(found, list)
        else []
    )


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    return _clean(str(found), 256) if isinstance(found, str | int | float) else ""


def _clean(text: str, most: int) -> str:
    """JSON may hold halves of characters, which no API takes."""
    return text.strip()[:most].encode(errors="replace").decode()


def _number(value: Mapping[str, Any], name: str) -> int:
    try:
        return min(max(0, int(float(value.get(name) or 0))), _MOST)
    except (TypeError, ValueError, OverflowError):
        return 0
