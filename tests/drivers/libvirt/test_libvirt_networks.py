"""Networks on libvirt's own pretend hypervisor. It forgets options for dnsmasq, so changes are tried on the real one."""

from collections.abc import AsyncIterator

import pytest

from rackless.drivers.libvirt.binding import libvirt
from rackless.drivers.libvirt.connection import Connection
from rackless.drivers.libvirt.networks import LibvirtNetworks
from rackless.errors import HypervisorError
from rackless.plan.addressing import plan_lab
from rackless.spec.lab import LabSpec

CLUSTER = plan_lab(LabSpec()).cluster


@pytest.fixture
async def networks() -> AsyncIterator[LibvirtNetworks]:
    try:
        libvirt()
    except HypervisorError as error:
        pytest.skip(error.what)
    connection = Connection("test:///default")
    yield LibvirtNetworks(connection)
    await connection.close()


async def test_libvirt_takes_the_network_of_a_lab_and_starts_it(networks: LibvirtNetworks) -> None:
    assert not await networks.differs(CLUSTER)
    assert await networks.ensure_network(CLUSTER)
    assert "cluster" in await networks.active()


async def test_a_bridge_is_shown_to_installers_that_ask_libvirt(networks: LibvirtNetworks) -> None:
    assert await networks.ensure_bridge_network("baremetal", "baremetal")
    assert not await networks.ensure_bridge_network("baremetal", "baremetal")
    assert "baremetal" in await networks.active()
