"""Power commands act on handles that are kept; what a name means may change meanwhile. By libvirt's pretend driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.libvirt.connection import Connection
from rackless.drivers.libvirt.hypervisor import LibvirtHypervisor
from rackless.errors import HypervisorError
from rackless.ports.hypervisor import NoSuchServer, Power

XML = """<domain type='test'><name>{name}</name><uuid>6695eb01-f6a4-8304-79aa-97f2502e000{number}</uuid>
<memory>65536</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os></domain>"""


async def power(hypervisor: LibvirtHypervisor, name: str) -> Power:
    state = await hypervisor.observe(name)
    assert state is not None
    return state.power


async def test_a_name_that_means_another_domain_now_is_followed(tmp_path: Path) -> None:
    (tmp_path / "node.xml").write_text("<node/>")
    connection = Connection(f"test://{tmp_path}/node.xml")
    try:
        await connection.call(lambda _: None)
    except HypervisorError:
        pytest.skip("libvirt's Python binding is not installed")
    hypervisor = LibvirtHypervisor(connection)

    async def do(work: Any) -> None:
        await connection.call(work)

    try:
        await do(lambda conn: conn.defineXML(XML.format(name="box", number=1)))
        for wanted, act in ((Power.ON, hypervisor.power_on), (Power.OFF, hypervisor.power_off)):
            for _ in range(2):  # what is so already is no error
                await act("box")
                assert await power(hypervisor, "box") is wanted
        await do(lambda conn: conn.lookupByName("box").undefine())
        await do(lambda conn: conn.defineXML(XML.format(name="box", number=2)))
        await hypervisor.power_on("box")
        assert await power(hypervisor, "box") is Power.ON
        await hypervisor.power_off("box")
        await do(lambda conn: conn.lookupByName("box").undefine())
        for act in (hypervisor.power_on, hypervisor.power_off):
            with pytest.raises(NoSuchServer):
                await act("box")
    finally:
        await connection.close()
