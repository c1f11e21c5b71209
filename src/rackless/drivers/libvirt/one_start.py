"""Boot override for one start of a server: from another device, or into the firmware's set-up screen.

The definition is not changed for it: the set-up screen is asked for in the firmware's own variables, and the boot order of a server
that was started from elsewhere is put back while it runs.
"""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

from rackless.drivers.libvirt import domain_xml, firmware_xml, nvram
from rackless.drivers.libvirt.binding import libvirt, libvirt_qemu
from rackless.errors import LabError
from rackless.ports.hypervisor import BootDevice


def ask_for_setup(domain: Any) -> None:
    """Through the firmware's own variables, which are a file while the server is off."""
    defined = ET.fromstring(domain.XMLDesc(libvirt().VIR_DOMAIN_XML_INACTIVE))
    path, template = firmware_xml.nvram(defined), firmware_xml.template(defined)
    if path is None:
        raise LabError(f"{domain.name()} has no set-up screen", why="its firmware keeps no variables")
    try:
        if not path.exists() and template is not None:  # it was never started
            path.touch(mode=0o600)
            path.write_bytes(template.read_bytes())
        with path.open("r+b") as file:
            changed = nvram.ask_for_setup(file.read())
            file.seek(0)
            file.write(changed)
    except (OSError, nvram.NotUnderstood) as error:
        raise LabError(
            f"the firmware of {domain.name()} cannot be asked for its set-up screen", why=str(error)
        ) from error


def restore_order(started: Any, defined: str) -> None:
    """Let a reboot by the guest itself use the defined order.

    The firmware has already been handed the order of this start; QEMU builds the next one from the devices' indexes at
    the next reset. Two devices cannot have one index, so all are cleared before they are set.
    """
    live = ET.fromstring(started.XMLDesc(0))
    if live.get("type") not in ("qemu", "kvm"):
        return
    order = ET.fromstring(defined)
    wanted: dict[str, int] = {}
    for device in BootDevice:
        for running, place in zip(domain_xml.bootable(live, device), domain_xml.places(order, device), strict=True):
            if (alias := running.find("alias")) is not None:
                wanted[alias.get("name", "")] = -1 if place is None else place
    for name in wanted:
        _set_index(started, name, -1)
    for name, place in wanted.items():
        if place >= 0:
            _set_index(started, name, place)


def _set_index(domain: Any, alias: str, index: int) -> None:
    command = {
        "execute": "qom-set",
        "arguments": {"path": f"/machine/peripheral/{alias}", "property": "bootindex", "value": index},
    }
    libvirt_qemu().qemuMonitorCommand(domain, json.dumps(command), 0)
