"""Attaching a bridge or a NIC of the hypervisor to a lab's cluster network.

The state of the device is written into the ledger before anything is changed, so that `down` and `destroy` restore it, also after
a kill in between. A bridge gets one more port and is left alone otherwise. A NIC moves into the lab's network namespace: nobody
else's program sees it there, and no firewall or resolver of the hypervisor has to be edited for it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from rackless.errors import HypervisorError, LabError
from rackless.events import Bus
from rackless.plan.model import ATTACHED, local_mac
from rackless.ports.computer_devices import Device, SiteCable
from rackless.ports.drivers import Drivers
from rackless.run.ledger import Ledger, LedgerEntry
from rackless.run.paths import LabPaths
from rackless.spec.attach import AttachSpec
from rackless.spec.lab import LabSpec

KIND = "attachment"
PREFIX = "rs-"


async def refuse_device(spec: LabSpec, paths: LabPaths, drivers: Drivers) -> None:
    """Refuse a device that is not there or that this computer uses, before anything of the lab is made."""
    wanted = spec.networks.cluster.attach
    if wanted is None or ((entry := _entry(paths)) is not None and entry.id == wanted.device):
        return
    _usable(await drivers.devices.look(wanted.device), wanted)


async def ensure_attachment(spec: LabSpec, paths: LabPaths, bus: Bus, drivers: Drivers) -> None:
    ledger, devices, wanted = Ledger(paths.ledger), drivers.devices, spec.networks.cluster.attach
    present = _entry(paths)
    if present is not None and (wanted is None or wanted.device != present.id):
        with bus.step("attachment given back"):
            await retire_attachment(present, drivers)
            ledger.strike(present)
            present = None
    if wanted is None:
        return
    with bus.step("attachment") as step:
        async with drivers.network.alone():
            if present is not None and await _there(present, drivers):
                step.unchanged(_told(present))
                return
            now, boot = await devices.look(wanted.device), drivers.computer.boot_id().strip()
            if (
                present is None or present.detail["boot"] != boot
            ):  # else the state that was found first is the one to restore
                device = _usable(now, wanted)
                state = json.dumps(asdict(device))
                way = "bridge" if device.bridge else "nic"
                ledger.own(KIND, wanted.device, way=way, state=state, namespace=str(paths.netns), boot=boot)
                present = _entry(paths)
                assert present is not None
            elif now is None:
                raise _missing(wanted)
            if present.detail["way"] == "bridge":
                await devices.plug_in(_cable(present), _state(present))
                if devices.bridges_filter():
                    bus.tell("bridge-filtered", device=wanted.device)
            else:
                await devices.lend(wanted.device, paths.netns)
        step.detail = _told(present)


async def observe_attachment(paths: LabPaths, drivers: Drivers, wanted: LabSpec | None) -> tuple[bool, str]:
    """Whether a device is attached, and why that is not as it should be."""
    entry = _entry(paths)
    if entry is None or not await _there(entry, drivers):
        return False, ""
    attach = wanted.networks.cluster.attach if wanted is not None else None
    if attach is not None and attach.device != entry.id:
        return True, f"{entry.id} is given back, and {attach.device} attached"
    return True, ""


async def retire_attachment(entry: LedgerEntry, drivers: Drivers) -> None:
    async with drivers.network.alone():
        if entry.detail["way"] == "bridge":
            await drivers.devices.unplug(_cable(entry), _state(entry))
        else:
            await drivers.devices.give_back(_state(entry), Path(entry.detail["namespace"]))


def _entry(paths: LabPaths) -> LedgerEntry | None:
    return next((entry for entry in Ledger(paths.ledger).entries() if entry.kind == KIND), None)


async def _there(entry: LedgerEntry, drivers: Drivers) -> bool:
    if entry.detail["way"] == "bridge":
        return await drivers.devices.plugged(_cable(entry))
    return await drivers.devices.holds(Path(entry.detail["namespace"]), entry.id)


def _state(entry: LedgerEntry) -> Device:
    found = json.loads(entry.detail["state"])
    return Device(**{**found, "addresses": tuple(found["addresses"]), "routes": tuple(found["routes"])})


def _cable(entry: LedgerEntry) -> SiteCable:
    namespace = entry.detail["namespace"]
    return SiteCable(link_name(namespace), entry.id, ATTACHED, Path(namespace), "fe" + local_mac(namespace)[2:])


def link_name(namespace: str) -> str:
    """The end of a lab's cable that is in the hypervisor's bridge."""
    return PREFIX + hashlib.sha256(namespace.encode()).hexdigest()[:8]


def _usable(device: Device | None, wanted: AttachSpec) -> Device:
    if device is None:
        raise _missing(wanted)
    if device.bridge or wanted.in_use:
        return device
    reasons = [f"it has the address {address.split()[0]}" for address in device.addresses]
    reasons += [f"it carries the route {route}" for route in device.routes]
    reasons += [f"it belongs to {device.master}"] if device.master else []
    if reasons:
        raise LabError(
            f"this computer uses {device.name}",
            why="; ".join(reasons) + ": it would lose that while the lab has the NIC",
            hint=f"name a spare NIC or a bridge, or say `attach: {{device: {device.name}, in_use: true}}`",
        )
    return device


def _missing(wanted: AttachSpec) -> HypervisorError:
    return HypervisorError(
        f"this computer has no network device {wanted.device}",
        why="networks.cluster.attach names it",
        hint="`ip link` lists those that there are",
    )


def _told(entry: LedgerEntry) -> str:
    return f"a port of {entry.id}" if entry.detail["way"] == "bridge" else f"{entry.id} is in the lab"
