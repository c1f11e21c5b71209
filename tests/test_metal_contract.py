"""What every metal does, be it a libvirtd or a fake: servers and networks behind one connection, which breaks and comes back.

What servers, networks and consoles do is in contract tests of their own.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rackless.ports.hypervisor import Power, Unreachable
from rackless.ports.metal import Metal
from rackless.simulation.world import make_world
from tests.test_hypervisor_contract import a_server

Switch = Callable[[bool], None]
"""Starts or ends the daemon behind the metal."""
Story = Callable[[Metal, Switch], Coroutine[Any, Any, None]]
Told = Callable[[Story], None]


@pytest.fixture(params=[pytest.param("libvirt", marks=pytest.mark.real), "fake"])
def told(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """A story is given metal that answers."""
    log = lambda name: tmp_path / f"{name}.log"  # noqa: E731

    def tell(story: Story) -> None:
        if request.param == "fake":
            world = make_world()

            async def here() -> None:
                lab = world.here()
                lab.libvirtd_runs(True)
                await story(world.drivers().open_metal(log, kvm=False, shown={}), lab.libvirtd_runs)

            world.run(world.processes.as_process("labd", here()))
            return
        if shutil.which("libvirtd") is None:
            pytest.skip("libvirtd is not installed")
        from rackless.drivers.libvirt import metal
        from rackless.drivers.libvirt.connection import Connection
        from tests.real.private_libvirtd import private_libvirtd

        with private_libvirtd(tmp_path / "libvirtd") as libvirtd:
            uri = libvirtd.uri("qemu:///system")
            monkeypatch.setattr(metal, "Connection", partial(Connection, uri))
            shutil.copyfile("/dev/null", tmp_path / "box.qcow2")

            async def whole() -> None:
                opened = metal.LibvirtMetal(log, kvm=False, shown={})
                try:
                    await story(opened, lambda on: libvirtd.restart() if on else libvirtd.stop())
                finally:
                    await opened.close()

            asyncio.run(whole())

    return tell


def test_metal_tells_whether_it_answers_and_comes_back_with_what_it_had(told: Told, tmp_path: Path) -> None:
    server = a_server(tmp_path)

    async def story(metal: Metal, switch: Switch) -> None:
        assert await metal.absent() == ""
        assert await metal.hypervisor.ensure(server)
        assert await metal.networks.active() == set()
        switch(False)
        assert await metal.absent() != ""
        with pytest.raises(Unreachable):
            await metal.hypervisor.servers()
        with pytest.raises(Unreachable):
            await metal.networks.active()
        switch(True)
        assert await metal.absent() == ""
        (state,) = await metal.hypervisor.servers()
        assert state.name == server.name and state.power is Power.OFF
        await metal.hypervisor.retire(server.name)

    told(story)
