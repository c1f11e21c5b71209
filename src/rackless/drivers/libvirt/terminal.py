"""The terminal libvirt gave a running server's first serial port."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from rackless.drivers.libvirt.binding import libvirt
from rackless.drivers.libvirt.connection import Connection


async def find_terminal(connection: Connection, server: str) -> Path | None:
    """None while the server is off, or when it is not there."""

    def work(conn: Any) -> Path | None:
        try:
            domain = conn.lookupByName(server)
            described = domain.XMLDesc(0) if domain.isActive() else None
        except libvirt().libvirtError:
            return None
        return read_terminal(described) if described else None

    return await connection.call(work)


def read_terminal(described: str) -> Path | None:
    source = ET.fromstring(described).find("./devices/serial[@type='pty']/source")
    path = source.get("path") if source is not None else None
    return Path(path) if path else None
