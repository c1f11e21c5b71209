"""What all namespaces do, be they a kernel's or a fake's. A story's process goes into them, and does not come back."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers import namespaces as ns
from rackless.drivers.fake.world import FakeWorld
from rackless.drivers.lab_namespaces import LinuxNamespaces
from rackless.drivers.process import LocalProcesses
from rackless.ports.mounts import Mounts
from rackless.ports.namespaces import Namespaces

Story = Callable[[Namespaces, int, Path], Coroutine[Any, Any, None]]
"""With the number of its process, and a folder."""


def make_mounts(mounts: Mounts) -> None:
    mounts.keep_inside()
    mounts.mount_sysfs(Path("/sys"))


async def a_namespace_is_made_pinned_and_let_go(namespaces: Namespaces, own: int, folder: Path) -> None:
    pin, home = folder / "net", namespaces.home()
    assert namespaces.leads_to(pin) is None and namespaces.inhabitants(pin) == []
    namespaces.unpin(pin)
    namespaces.enter(pin, make_mounts)
    network = namespaces.leads_to(pin)
    assert network is not None and namespaces.home() != home
    assert (namespaces.home().net, namespaces.mount_namespace(own)) == (network[1], namespaces.home().mnt)
    assert namespaces.inhabitants(pin) == [own] and namespaces.pins(network) == [pin]
    assert namespaces.residents(network) == [], "but for ourselves"
    assert network not in {space.network for space in namespaces.others()}
    namespaces.unpin(pin)
    assert namespaces.pins(network) == [] and namespaces.leads_to(pin) is None and not pin.exists()
    assert namespaces.mount_namespace(999_999_999) is None


async def who_comes_later_enters_the_same(namespaces: Namespaces, own: int, folder: Path) -> None:
    one, other = folder / "one", folder / "other"
    namespaces.enter(one, make_mounts)
    first = namespaces.home()
    namespaces.enter(other, make_mounts)
    assert namespaces.home() != first
    namespaces.enter(one, make_mounts)
    assert namespaces.home().net == first.net
    inside = namespaces.home()
    namespaces.visit(other)
    assert namespaces.home().net != first.net and namespaces.home().mnt == inside.mnt, "the files stay as they are"
    (space,) = [space for space in namespaces.others() if space.door == one]
    assert space.network[1] == first.net and own not in space.pids
    for pin in (one, other):
        namespaces.unpin(pin)


async def a_mark_is_read_through_the_door(namespaces: Namespaces, own: int, folder: Path) -> None:
    pin = folder / "net"
    namespaces.enter(pin, make_mounts)
    assert await namespaces.read_mark(pin) == ""
    namespaces.write_mark('["whose","it is"]')
    assert await namespaces.read_mark(pin) == '["whose","it is"]'
    namespaces.unpin(pin)
    assert await namespaces.read_mark(folder / "nothing") == ""


async def a_room_is_beside_and_its_sockets_are_its_own(namespaces: Namespaces, own: int, folder: Path) -> None:
    room = namespaces.open_room("beside")
    try:
        assert room.call(lambda: 1) == await room.acall(lambda: 1) == 1
        made = room.call(lambda: namespaces.socket(socket.AF_INET, socket.SOCK_STREAM, 0))
        made.bind(("0.0.0.0", 8080))
        made.close()
    finally:
        room.close()


async def a_room_that_stays_is_where_we_were(namespaces: Namespaces, own: int, folder: Path) -> None:
    pin, room = folder / "net", namespaces.stay("outside")
    try:
        namespaces.enter(pin, make_mounts)
        listeners = []
        for make in (lambda work: work(), room.call):
            made = make(lambda: namespaces.socket(socket.AF_INET, socket.SOCK_STREAM, 0))
            made.bind(("0.0.0.0", 8080))  # taken neither in the one network nor in the other
            listeners.append(made)
        with pytest.raises(OSError):
            again = room.call(lambda: namespaces.socket(socket.AF_INET, socket.SOCK_STREAM, 0))
            listeners.append(again)
            again.bind(("0.0.0.0", 8080))
        assert namespaces.inhabitants(pin) == [own], "we are elsewhere all the same"
        for listener in listeners:
            listener.close()
    finally:
        room.close()
        namespaces.unpin(pin)


STORIES = [
    a_room_that_stays_is_where_we_were,
    a_namespace_is_made_pinned_and_let_go,
    who_comes_later_enters_the_same,
    a_mark_is_read_through_the_door,
    a_room_is_beside_and_its_sockets_are_its_own,
]


def _live(story: Story, folder: Path) -> None:
    """In a process of its own, whose namespaces are thrown away with it."""
    ns.unshare(ns.CLONE_NEWNET | ns.CLONE_NEWNS)
    ns.mount("none", "/", flags=ns.MS_REC | ns.MS_PRIVATE)
    asyncio.run(story(LinuxNamespaces(), LocalProcesses().own, folder))


@pytest.mark.real
@pytest.mark.parametrize("story", STORIES)
def test_the_kernels_namespaces(story: Story, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    process = multiprocessing.get_context("spawn").Process(target=_live, args=(story, tmp_path))
    process.start()
    process.join(120)
    assert process.exitcode == 0


@pytest.mark.parametrize("story", STORIES)
def test_the_fakes_namespaces(story: Story, tmp_path: Path) -> None:
    world = FakeWorld({})

    async def whole() -> None:
        await story(world.drivers().namespaces, world.processes.own, tmp_path)

    world.run(world.processes.as_process("test", whole()))
