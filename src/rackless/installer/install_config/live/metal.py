"""A site's own servers, asked through their BMCs before an install: what they are, and whether they are what the config says.

Asking changes nothing. What does change something (a disc in the drive, the power) is a function of its own, leaves the server
as it was found, and refuses one that somebody uses: a drive with a disc in it, a server that is on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from rackless.installer.install_config.config import HostEntry
from rackless.installer.install_config.live.probe import Probe, failed, ok, unknown, warning
from rackless.installer.install_config.live.redfish import RedfishReader, link_of, virtual_cd

SWITCHED_WITHIN = 120.0
"""Seconds a server may take to be on or off once its BMC was told."""
LOOK_EVERY = 2.0
_MODES = {"legacy": "Legacy", "UEFI": "UEFI", "UEFISecureBoot": "UEFI"}


def examine_host(client: RedfishReader, host: HostEntry) -> list[Probe]:
    """What the config says of a server beside what its BMC says: only read. Raises RedfishError when it does not answer."""
    system = client.get(client.address.path or "/redfish/v1/Systems/1")
    found = [_identity(system, host), _boot_nic(client, system, host), *_boot_mode(system, host)]
    if client.address.virtual_media:
        found += _drive(client, system, host)
    return found


def _identity(system: dict[str, Any], host: HostEntry) -> Probe:
    words = [str(system.get(field) or "") for field in ("Manufacturer", "Model", "SerialNumber")]
    named = " ".join(word for word in words if word) or "a server that does not tell its model"
    memory = system.get("MemorySummary")
    size = memory.get("TotalSystemMemoryGiB") if isinstance(memory, dict) else None
    more = f", {size} GiB of memory" if isinstance(size, int | float) else ""
    saw = f"{named}{more}, power {system.get('PowerState', '?')}"
    return ok(f"server {host.name}", "read what its BMC says of it", saw, host.path)


def _boot_nic(client: RedfishReader, system: dict[str, Any], host: HostEntry) -> Probe:
    subject, path = f"boot NIC of {host.name}", f"{host.path}.bootMACAddress"
    did = f"looked for {host.boot_mac} among the NICs that its BMC lists"
    listed = link_of(system.get("EthernetInterfaces"))
    if not listed:
        return unknown(subject, did, "its BMC lists no NICs", "compare the MAC with the server's label", path)
    known = sorted(_macs(client, listed))
    if not known:
        return unknown(subject, did, "its BMC knows no MAC of them", "compare the MAC with the server's label", path)
    if host.boot_mac.lower() in known:
        return ok(subject, did, f"is one of {len(known)}", path)
    return failed(
        subject, did, f"its NICs are {', '.join(known)}", "correct bootMACAddress, or bmc.address: it may be another server", path
    )  # fmt: skip


def _macs(client: RedfishReader, listed: str) -> Iterator[str]:
    members = client.get(listed).get("Members")
    for member in members[:32] if isinstance(members, list) else ():
        if path := link_of(member):
            nic = client.get(path)
            yield from {str(nic[key]).lower() for key in ("MACAddress", "PermanentMACAddress") if nic.get(key)}


def _boot_mode(system: dict[str, Any], host: HostEntry) -> Iterator[Probe]:
    boot = system.get("Boot")
    mode = boot.get("BootSourceOverrideMode") if isinstance(boot, dict) else None
    wanted = _MODES.get(host.boot_mode or "UEFI", "UEFI")
    if isinstance(mode, str) and mode != wanted:
        yield warning(
            f"firmware of {host.name}", "read in which mode it boots", f"{mode}, and the config wants {wanted}",
            "set the firmware's boot mode, or bootMode of the host", f"{host.path}.bootMode",
        )  # fmt: skip


def _drive(client: RedfishReader, system: dict[str, Any], host: HostEntry) -> Iterator[Probe]:
    device = virtual_cd(client, system)
    if device is not None and device[1].get("Inserted"):
        yield warning(
            f"virtual CD of {host.name}", "looked into the drive", f"{device[1].get('Image') or 'a disc'} is in it",
            "eject it: an install would", host.path,
        )  # fmt: skip


# what changes something


def try_media(client: RedfishReader, host: HostEntry, image: str) -> Probe:
    """Put a disc into the virtual drive, see that it is in there, and take it out again."""
    subject, did = f"virtual CD of {host.name}", f"put {image} into the drive and took it out again"
    device = virtual_cd(client, client.get(client.address.path))
    if device is None:
        return failed(subject, did, "it has no virtual CD with InsertMedia", "check its licence", host.path)
    path, found = device
    if found.get("Inserted"):
        return unknown(subject, "nothing", "somebody's disc is in the drive, and stays", "eject it first", host.path)
    actions = found["Actions"]
    _post(client, actions["#VirtualMedia.InsertMedia"], path, "VirtualMedia.InsertMedia", {"Image": image, "Inserted": True,
                                                                              "WriteProtected": True})  # fmt: skip
    try:
        inserted = _until(lambda: bool(client.get(path).get("Inserted")), 30.0)
    finally:
        _post(client, actions.get("#VirtualMedia.EjectMedia"), path, "VirtualMedia.EjectMedia", {})
    if not inserted:
        return failed(
            subject, did, "the BMC took it and shows an empty drive", "can the BMC reach that URL?", host.path
        )
    if not _until(lambda: not client.get(path).get("Inserted"), 30.0):
        return failed(subject, did, "the disc does not come out again", "eject it at the BMC", host.path)
    return ok(subject, did, "it was in the drive, and the drive is empty again", host.path)


def try_power(client: RedfishReader, host: HostEntry) -> Probe:
    """Switch a server on that is off, and off again."""
    subject, did = f"power of {host.name}", "switched it on, and off again"
    path = client.address.path or "/redfish/v1/Systems/1"
    system = client.get(path)
    if system.get("PowerState") != "Off":
        saw = f"it is {system.get('PowerState', '?')}: somebody may use it, and it was left alone"
        return unknown(subject, "nothing", saw, "shut it down first", host.path)
    actions = system.get("Actions")
    reset = actions.get("#ComputerSystem.Reset") if isinstance(actions, dict) else None
    _post(client, reset, path, "ComputerSystem.Reset", {"ResetType": "On"})
    try:
        on = _until(lambda: client.get(path).get("PowerState") == "On", SWITCHED_WITHIN)
    finally:
        _post(client, reset, path, "ComputerSystem.Reset", {"ResetType": "ForceOff"})
    off = _until(lambda: client.get(path).get("PowerState") == "Off", SWITCHED_WITHIN)
    if not on or not off:
        saw = "it was told to be on, and stayed off" if not on else "it is on, and does not go off"
        return failed(subject, did, saw, "look at the server itself", host.path)
    return ok(subject, did, "it did both, and is off again", host.path)


def _post(client: RedfishReader, action: object, path: str, name: str, body: dict[str, Any]) -> None:
    target = action.get("target") if isinstance(action, dict) else None
    place = target if isinstance(target, str) and target.startswith("/") else f"{path}/Actions/{name}"
    client.send("POST", place, json.dumps(body))


def _until(seen: Callable[[], bool], within: float) -> bool:
    end = time.monotonic() + within
    while True:
        if seen():
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(LOOK_EVERY)
