"""`ports.fabric.Networks` on libvirt."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

from rackless.drivers.libvirt import network_xml
from rackless.drivers.libvirt.binding import libvirt
from rackless.drivers.libvirt.connection import Connection
from rackless.ports.fabric import Network

PIDS = Path("/run/libvirt/network")
BURIALS = 40
"""How often to check whether a dead dnsmasq has been reaped."""
_NOBODY = "<host ip='127.0.0.9'><hostname>nobody.invalid</hostname></host>"


class LibvirtNetworks:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reviving = asyncio.Lock()

    async def ensure_network(self, network: Network) -> bool:
        xml = network_xml.render(network)

        def work(conn: Any) -> bool:
            found = _lookup(conn, network.name)
            if found is not None and network_xml.key_of(found.XMLDesc(0)) != network_xml.key_of(xml):
                _retire(found)  # takes the bridge along: whoever asked plugs the servers in again
                found = None
            return _ensure_active(conn, found, xml)

        return await self._connection.call(work)

    async def differs(self, network: Network) -> bool:
        key = network_xml.key_of(network_xml.render(network))

        def work(conn: Any) -> bool:
            found = _lookup(conn, network.name)
            return found is not None and bool(found.isActive()) and network_xml.key_of(found.XMLDesc(0)) != key

        return await self._connection.call(work)

    async def ensure_bridge_network(self, name: str, bridge: str) -> bool:
        def work(conn: Any) -> bool:
            found = _lookup(conn, name)
            if found is not None and network_xml.bridge_of(found.XMLDesc(0)) != bridge:
                _retire(found)  # leaves the bridge alone: it is not libvirt's
                found = None
            return _ensure_active(conn, found, network_xml.render_bridge(name, bridge))

        return await self._connection.call(work)

    async def revive(self, name: str) -> bool:
        async with self._reviving:  # who makes networks and who watches them may see the same one dead
            return await self._revive(name)

    async def _revive(self, name: str) -> bool:
        if self.server_pid(name) is not None:
            return False
        for _ in range(BURIALS):
            if not _unburied(name):
                break
            await asyncio.sleep(0.05)

        def work(conn: Any) -> bool:
            found = _lookup(conn, name)
            if found is None or not found.isActive():
                return False
            api = libvirt()

            def update(command: int) -> None:
                found.update(command, api.VIR_NETWORK_SECTION_DNS_HOST, -1, _NOBODY, api.VIR_NETWORK_UPDATE_AFFECT_LIVE)

            with suppress(api.libvirtError):  # left by a labd that was killed here
                update(api.VIR_NETWORK_UPDATE_COMMAND_DELETE)
            # libvirt looks whether its dnsmasq runs only when it has something to tell it
            update(api.VIR_NETWORK_UPDATE_COMMAND_ADD_LAST)
            update(api.VIR_NETWORK_UPDATE_COMMAND_DELETE)
            return True

        return await self._connection.call(work)

    def server_pid(self, name: str) -> int | None:
        try:
            pid = int((PIDS / f"{name}.pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if f"/{name}.conf".encode() in command else None

    async def active(self) -> set[str]:
        return await self._connection.call(
            lambda conn: {network.name() for network in conn.listAllNetworks() if network.isActive()}
        )


def _unburied(name: str) -> bool:
    """Whether a process is a zombie, dead and not reaped yet: libvirt would take it for alive."""
    try:
        status = Path(f"/proc/{int((PIDS / f'{name}.pid').read_text())}/stat").read_text()
    except (OSError, ValueError):
        return False
    return status.rpartition(")")[2].split()[0] in "ZX"


def _retire(found: Any) -> None:
    if found.isActive():
        found.destroy()
    found.undefine()


def _ensure_active(conn: Any, found: Any, xml: str) -> bool:
    if found is None:
        found = conn.networkDefineXML(xml)
    if found.isActive():
        return False
    found.create()
    return True


def _lookup(conn: Any, name: str) -> Any:
    api = libvirt()
    try:
        return conn.networkLookupByName(name)
    except api.libvirtError as error:
        if error.get_error_code() == api.VIR_ERR_NO_NETWORK:
            return None
        raise
