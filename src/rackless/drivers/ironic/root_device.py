"""From Metal3's root device hints to Ironic's. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_EXACT = {
    "hctl": "hctl",
    "serialNumber": "serial",
    "wwn": "wwn",
    "wwnWithExtension": "wwn_with_extension",
    "wwnVendorExtension": "wwn_vendor_extension",
}
_PARTLY = {"model": "model", "vendor": "vendor"}


def root_device(hints: Mapping[str, Any]) -> dict[str, Any]:
    """What Ironic's agent compares each disk with; all of it must fit."""
    found: dict[str, Any] = {}
    for hint, value in hints.items():
        if hint == "deviceName":
            found["by_path" if str(value).startswith("/dev/disk/by-path/") else "name"] = f"s== {value}"
        elif hint in _EXACT:
            found[_EXACT[hint]] = f"s== {value}"
        elif hint in _PARTLY:
            found[_PARTLY[hint]] = f"<in> {value}"
        elif hint == "minSizeGigabytes":
            found["size"] = f">= {int(value)}"
        elif hint == "rotational":
            found["rotational"] = bool(value)
        else:
            raise ValueError(f"{hint} is no root device hint")
    return found
