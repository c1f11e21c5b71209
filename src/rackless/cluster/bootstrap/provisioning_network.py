"""The network that an install's hosts boot from: what the cluster's Provisioning says of it, and our own address on it.

Where it is managed, DHCP and TFTP are ours to answer; where it is unmanaged, somebody else's DHCP server leads hosts to us.

On the bootstrap machine the NIC and its address are set at its first boot. A control plane finds the NIC by its own host's boot
MAC, and has the cluster's provisioning address on it only while it looks after the hosts: the address moves along.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address, ip_interface
from typing import Any

from rackless.errors import LabError
from rackless.ports.clock import Clock
from rackless.ports.fabric import Network, Pool
from rackless.ports.process import Processes
from rackless.ports.resources import Record, Resources
from rackless.run.waiting import until
from rackless.spec.address import IpInterface

KIND, NAME = "Provisioning", "provisioning-configuration"
MANAGED, UNMANAGED = "Managed", "Unmanaged"
KNOWN_WITHIN = 1800.0
"""Seconds for the cluster's manifests to be in its API."""
LOOK_EVERY = 3.0


@dataclass(frozen=True, slots=True)
class BootNetwork:
    address: IpInterface
    """The cluster's own."""
    pool: Pool | None
    """What DHCP gives away; None where somebody else answers DHCP there."""

    def served_by(self, interface: str, address: IpInterface) -> Network | None:
        """As dnsmasq is told it: on our NIC, at our address. None where that is not ours to answer."""
        if self.pool is None:
            return None
        return Network(
            name="provisioning", bridge=interface, mac="", gateway=address, domain="", reservations=(), records=(),
            pools=(self.pool,), router=False,
        )  # fmt: skip


def read_network(record: Record) -> BootNetwork | None:
    """None where there is none."""
    spec: Mapping[str, Any] = record.get("spec") or {}
    if spec.get("provisioningNetwork") not in (MANAGED, UNMANAGED):
        return None
    prefix = str(spec["provisioningNetworkCIDR"]).partition("/")[2]
    address = ip_interface(f"{spec['provisioningIP']}/{prefix}")
    return BootNetwork(address, _pool(spec) if spec["provisioningNetwork"] == MANAGED else None)


def _pool(spec: Mapping[str, Any]) -> Pool:
    first, _, last = str(spec["provisioningDHCPRange"]).partition(",")
    return Pool(ip_address(first.strip()), ip_address(last.strip()))


async def await_network(resources: Resources, clock: Clock) -> BootNetwork | None:
    """As the API has it; a bootstrap machine brings it there while we wait."""
    found: list[Record] = []

    async def known() -> tuple[bool, str]:
        record = await resources.get(KIND, NAME)
        found[:] = [record] if record is not None else []
        return bool(found), f"{KIND} {NAME} is not in the API yet"

    await until(known, what="the provisioning settings", within=KNOWN_WITHIN, every=LOOK_EVERY, clock=clock)
    return read_network(found[0])


async def own_macs(processes: Processes) -> frozenset[str]:
    shown = await processes.run(["ip", "-json", "link", "show"])
    return frozenset(str(link.get("address", "")).lower() for link in json.loads(shown.stdout))


async def find_link(macs: Collection[str], processes: Processes) -> str:
    """Our NIC that a host of the cluster boots from. Raises LabError when this machine has none."""
    shown = await processes.run(["ip", "-json", "link", "show"])
    wanted = {mac.lower() for mac in macs}
    for link in json.loads(shown.stdout):
        if str(link.get("address", "")).lower() in wanted:
            return str(link["ifname"])
    raise LabError(
        "this machine has no NIC on the provisioning network",
        why=f"none of its NICs has the boot MAC of a host ({', '.join(sorted(wanted)) or 'there are no hosts'})",
        hint="spec.bootMACAddress of its BareMetalHost is that of the NIC which it boots from",
    )


@asynccontextmanager
async def address_on(interface: str, address: IpInterface, processes: Processes) -> AsyncIterator[None]:
    """Ours while this lasts; what another left there when it was cut off is taken over."""
    await processes.run(["ip", "link", "set", "dev", interface, "up"])
    await processes.run(["ip", "address", "replace", str(address), "dev", interface])
    try:
        yield
    finally:
        await processes.run(["ip", "address", "del", str(address), "dev", interface], check=False)
