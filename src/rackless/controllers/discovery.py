"""Discovery: servers that boot from the provisioning network and are in no lab.yaml become unmanaged BareMetalHosts with their
hardware; a person adds the BMC.

Ironic keeps each until it is dismissed, so a kill between the two writes loses nothing. Anything that can boot from that network
can claim to be a server: what it reports is validated, and the number of discovered hosts is limited.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rackless.controllers.host_annotations import HARDWARE
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.ports.clock import Clock
from rackless.ports.provisioner import Discovery, Stranger
from rackless.ports.resources import Conflict, Record, Resources
from rackless.provisioning.baremetalhost import API_VERSION, KIND, BadRecord, hardware_data, read
from rackless.provisioning.hardware import hardware

LOOK_EVERY = 15.0
MOST = 256
"""Discovered hosts without a BMC at once; no more are made."""
DISCOVERED = "rackless.test/discovered"
"""The label of a discovered host."""
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.ASCII)


@dataclass
class HostDiscovery:
    resources: Resources
    discovery: Discovery
    clock: Clock
    bus: Bus

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except (RacklessError, Conflict):
                pass  # the API is away, or somebody else wrote: it is looked at again
            await self.clock.sleep(LOOK_EVERY)

    async def look(self) -> list[str]:
        """Make hosts of newly discovered servers; returns their names."""
        came = await self.discovery.strangers()
        if not came:
            return []
        hosts = await self.resources.list(KIND)
        known = {mac for host in hosts for mac in _macs_of_host(host)}
        waiting = sum(1 for host in hosts if DISCOVERED in _labels(host) and not _managed(host))
        made: list[str] = []
        for stranger in came:
            macs = macs_of(stranger)
            if macs and not known & set(macs) and waiting + len(made) < MOST:
                try:
                    made.append(await self._take_in(stranger, macs))
                except (RacklessError, Conflict):
                    continue  # it is tried again at the next look; the others need not wait for it
                except Exception as error:  # what nobody expected of a server is that server's trouble
                    self.bus.tell("stranger-refused", mac=macs[0], why=f"{type(error).__name__}: {error}")
                known |= set(macs)
            await self.discovery.dismiss(stranger)
        return made

    async def _take_in(self, stranger: Stranger, macs: list[str]) -> str:
        found = hardware(stranger.inventory, macs[0])
        name = f"discovered-{macs[0].replace(':', '')}"
        record: Record = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name, "labels": {DISCOVERED: ""}, "annotations": {HARDWARE: json.dumps(found)}},
            "spec": {"online": False, "bootMACAddress": macs[0]},
        }
        try:
            host = read(await self.resources.create(record))
        except Conflict:
            return name  # an earlier try that we took for lost
        try:
            await self.resources.create(hardware_data(host, found))
        except Conflict:
            pass
        self.bus.tell("host-discovered", level="info", subject=f"host/{name}", host=name)
        return name


def macs_of(stranger: Stranger) -> list[str]:
    """Its MAC addresses, the one it booted from first; none when what it tells makes no sense."""
    boot = stranger.inventory.get("boot")
    interfaces = stranger.inventory.get("interfaces")
    told = [boot.get("pxe_interface")] if isinstance(boot, Mapping) else []
    if isinstance(interfaces, Iterable) and not isinstance(interfaces, str | Mapping):
        told += [each.get("mac_address") for each in interfaces if isinstance(each, Mapping)]
    return list(dict.fromkeys(mac for each in told if _MAC.fullmatch(mac := str(each or "").lower())))


def _macs_of_host(record: Record) -> Iterator[str]:
    try:
        host = read(record)
    except BadRecord:
        return
    if host.spec.boot_mac:
        yield host.spec.boot_mac
    for nic in (host.status.hardware or {}).get("nics") or ():
        yield str(nic.get("mac") or "").lower()


def _labels(record: Record) -> Mapping[str, Any]:
    return record["metadata"].get("labels") or {}


def _managed(record: Record) -> bool:
    return bool((record.get("spec") or {}).get("bmc"))
