"""What every set of networks with DHCP and DNS does, be it libvirt's or a fake's."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.fake.fabric import FakeLinks, FakeNetworks
from rackless.drivers.fake.script import Script
from rackless.plan.addressing import plan_lab
from rackless.ports.fabric import Bridge, Network, Networks
from rackless.ports.hypervisor import Unreachable
from rackless.spec.lab import LabSpec

CLUSTER = plan_lab(LabSpec.model_validate({"servers": {"ctrl": {"count": 2}}})).cluster
WITHIN = 60.0
"""Seconds for what a process does in its own time."""


@dataclass
class Site:
    networks: Networks
    kill_server: Callable[[str], None]
    """Whatever answers DHCP and DNS on a network is killed."""
    go_away: Callable[[], None]
    """Whoever has the networks ends."""
    add_bridge: Callable[[str], None]


Story = Callable[[Site], Coroutine[Any, Any, None]]
Told = Callable[[Story], None]


@pytest.fixture(params=[pytest.param("libvirt", marks=pytest.mark.real), "fake"])
def told(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    def tell(story: Story) -> None:
        if request.param == "fake":
            asyncio.run(story(fake_site()))
            return
        if shutil.which("libvirtd") is None:
            pytest.skip("libvirtd is not installed")
        from rackless.drivers.libvirt import networks
        from rackless.drivers.libvirt.connection import Connection
        from tests.real.private_libvirtd import private_libvirtd

        with private_libvirtd(tmp_path / "libvirtd") as libvirtd:
            # its /run is another than ours
            monkeypatch.setattr(networks, "PIDS", libvirtd.folder / "root/run/libvirt/network")

            def add_bridge(name: str) -> None:
                inside = ["nsenter", "-t", libvirtd.holder, "-n", "ip", "link"]
                subprocess.run([*inside, "add", name, "type", "bridge"], check=True)

            async def live() -> None:
                connection = Connection(libvirtd.uri("qemu:///system"))
                found = networks.LibvirtNetworks(connection)

                def kill_server(name: str) -> None:
                    pid = found.server_pid(name)
                    assert pid is not None
                    os.kill(pid, signal.SIGKILL)

                try:
                    await story(Site(found, kill_server, libvirtd.stop, add_bridge))
                finally:
                    await connection.close()

            asyncio.run(live())

    return tell


def fake_site() -> Site:
    links = FakeLinks(Script())
    found = FakeNetworks(Script(), links)

    def go_away() -> None:
        found.reachable = False

    def add_bridge(name: str) -> None:
        links.links[name] = Bridge(name)

    return Site(found, found.serving.remove, go_away, add_bridge)


async def await_server(networks: Networks, name: str, *, there: bool) -> None:
    deadline = time.monotonic() + WITHIN
    while (networks.server_pid(name) is not None) is not there:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


def test_a_network_is_made_once_and_anew_when_it_is_described_otherwise(told: Told) -> None:
    async def story(site: Site) -> None:
        networks = site.networks
        assert await networks.active() == set() and not await networks.differs(CLUSTER)
        assert await networks.ensure_network(CLUSTER) and not await networks.ensure_network(CLUSTER)
        assert await networks.active() == {CLUSTER.name} and not await networks.differs(CLUSTER)
        await await_server(networks, CLUSTER.name, there=True)
        smaller: Network = replace(CLUSTER, reservations=CLUSTER.reservations[:1])
        assert await networks.differs(smaller)
        assert await networks.ensure_network(smaller) and not await networks.ensure_network(smaller)
        assert await networks.differs(CLUSTER) and not await networks.differs(smaller)
        assert await networks.active() == {CLUSTER.name}

    told(story)


def test_a_bridge_is_shown_by_a_name_and_nobody_answers_dhcp_there(told: Told) -> None:
    async def story(site: Site) -> None:
        networks = site.networks
        for name in ("one", "other"):
            site.add_bridge(name)
        assert await networks.ensure_bridge_network("baremetal", "one")
        assert not await networks.ensure_bridge_network("baremetal", "one")
        assert await networks.ensure_bridge_network("baremetal", "other"), "it shows another bridge now"
        assert not await networks.ensure_bridge_network("baremetal", "other")
        assert await networks.active() == {"baremetal"} and networks.server_pid("baremetal") is None

    told(story)


def test_what_answers_dhcp_and_dns_is_started_again_when_it_died_and_only_then(told: Told) -> None:
    async def story(site: Site) -> None:
        networks = site.networks
        assert not await networks.revive("nowhere") and networks.server_pid("nowhere") is None
        await networks.ensure_network(CLUSTER)
        await await_server(networks, CLUSTER.name, there=True)
        assert not await networks.revive(CLUSTER.name)
        site.kill_server(CLUSTER.name)
        await await_server(networks, CLUSTER.name, there=False)
        assert not await networks.differs(CLUSTER) and await networks.active() == {CLUSTER.name}
        assert await networks.revive(CLUSTER.name)
        await await_server(networks, CLUSTER.name, there=True)
        assert not await networks.revive(CLUSTER.name)

    told(story)


def test_while_nobody_has_the_networks_that_is_said(told: Told) -> None:
    async def story(site: Site) -> None:
        networks = site.networks
        await networks.ensure_network(CLUSTER)
        site.go_away()
        for ask in (
            lambda: networks.ensure_network(CLUSTER),
            lambda: networks.differs(CLUSTER),
            lambda: networks.ensure_bridge_network("baremetal", "one"),
            lambda: networks.active(),
        ):
            with pytest.raises(Unreachable):
                await ask()

    told(story)
