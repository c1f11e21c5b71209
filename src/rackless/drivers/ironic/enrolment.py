"""How Ironic is told of a host: under which name, by which driver its BMC is reached, and what changes when the record does.

`provisioner` knows what is done with a node that is there; how it comes to be one, and whether Ironic is a guest's, is known here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rackless.drivers.ironic.bmc_address import Driver, find_driver, require_bootable
from rackless.drivers.ironic.client import IronicClient, Json
from rackless.drivers.ironic.node import capabilities, fingerprint, kept, network_data
from rackless.ports.ironic import Guest
from rackless.ports.provisioner import Again, ErrorKind, Failed, HostAccess, Result

_STABLE = ("enroll", "manageable", "available", "active", "inspect failed", "clean failed", "deploy failed", "error")
"""Provision states in which a node may be told something else."""


@dataclass(frozen=True, slots=True)
class Enrolment:
    ironic: IronicClient
    guest: Guest | None
    """Where Ironic is somebody else's: by what our nodes are known there, and what their ramdisk is told."""
    network_boot: bool

    def name(self, host: HostAccess) -> str:
        return f"{self.guest.prefix}{host.name}" if self.guest else host.name

    async def enroll(self, host: HostAccess) -> Result:
        """Make the node; its BMC is tried at the next call."""
        driver = self._driver(host)
        if others := await self.ironic.nodes_with_port(host.boot_mac):
            other = await self.ironic.node(others[0])
            name = (other or {}).get("name") or others[0]
            return Failed(ErrorKind.REGISTRATION, f"MAC address {host.boot_mac} conflicts with existing host {name}")
        node = await self.ironic.create_node({
            "name": self.name(host),
            "driver": driver.name,
            "driver_info": driver.info,
            "properties": {"capabilities": capabilities(host), "cpu_arch": "x86_64"},
            "extra": {"uid": host.uid, "access": self._fingerprint(host)},
            "automated_clean": host.clean,
            **({"network_data": network_data(host)} if host.network is not None else {}),
            **driver.interfaces,
        })  # fmt: skip
        await self.ironic.create_port(node["uuid"], host.boot_mac)
        return Again(0.0, "registering", busy=True)

    async def update(self, host: HostAccess, node: Json) -> bool:
        """Bring how Ironic reaches the host up to date; Ironic hides passwords, so they are compared by a digest."""
        if node["extra"].get("access") == self._fingerprint(host) and node["extra"].get("uid") == host.uid:
            return False
        if node["provision_state"] not in _STABLE:
            return False
        driver = self._driver(host)
        # another way to boot cannot be told of a node that is in use; its new password can
        other = driver.name != node["driver"] or driver.boot != node["boot_interface"]
        await self.ironic.patch_node(node["uuid"], {
            **({"driver": driver.name, **driver.interfaces} if other else {}),
            "driver_info": {**kept(node["driver_info"]), **driver.info},
            "extra": {**node["extra"], "uid": host.uid, "access": self._fingerprint(host)},
            **({"network_data": network_data(host)} if host.network or node.get("network_data") else {}),
        })  # fmt: skip
        return True

    def _fingerprint(self, host: HostAccess) -> str:
        return fingerprint(host, self.guest.ramdisk if self.guest else {})

    def _driver(self, host: HostAccess) -> Driver:
        """Raises BadAddress."""
        # An Ironic that is not ours has no file with our CA, and would look for one: the BMCs are not asked who they are.
        driver = find_driver(host.bmc if self.guest is None else replace(host.bmc, ca=None, verify=False))
        if self.guest is not None:
            driver = replace(driver, info={**driver.info, **self.guest.ramdisk})
        require_bootable(driver, host, network_boot=self.network_boot)
        return driver
