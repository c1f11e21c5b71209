"""What was on when the computer went down is known when it comes back."""

import asyncio
import errno
from pathlib import Path

import pytest

from rackless.drivers.fake.clock import VirtualClock
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.lab import power_memory
from rackless.lab.power_memory import SETTLED, PowerMemory
from rackless.run.files import write
from tests.lab.test_pause import lab


def remember(folder: Path, hypervisor: FakeHypervisor) -> tuple[PowerMemory, VirtualClock]:
    clock = VirtualClock()
    return PowerMemory(folder / "powered", folder / "awake", hypervisor, clock), clock


async def test_a_server_counts_as_off_only_after_it_was_off_for_a_while(tmp_path: Path) -> None:
    hypervisor = await lab(tmp_path, "node-0")
    memory, clock = remember(tmp_path, hypervisor)

    async def life() -> None:
        watching = asyncio.create_task(memory.watch())
        await clock.sleep(SETTLED + 1)
        assert memory.recall().split() == ["node-0"]
        await hypervisor.power_on("node-2")
        await clock.sleep(0.1)
        assert memory.recall().split() == ["node-0", "node-2"]
        hypervisor.guest_stops("node-0")
        await clock.sleep(SETTLED - 1)
        assert memory.recall().split() == ["node-0", "node-2"], "the computer may be going down"
        await clock.sleep(2)
        assert memory.recall().split() == ["node-2"]
        hypervisor.go_away()
        await clock.sleep(60)
        hypervisor.come_back()
        await hypervisor.power_on("node-1")
        await clock.sleep(60)
        assert memory.recall().split() == ["node-1", "node-2"], "libvirtd was away meanwhile"
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    await clock.run(life())


async def test_a_restart_of_the_machine_is_known_by_the_mark_that_is_gone(tmp_path: Path) -> None:
    memory, _ = remember(tmp_path, FakeHypervisor())
    assert memory.restarted() and memory.recall() == ""
    memory.wake()
    assert not memory.restarted()
    memory.mark.write_text("another start of the computer")
    assert memory.restarted()


async def test_a_disk_that_was_full_costs_nothing_that_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hypervisor = await lab(tmp_path, "node-0")
    memory, clock = remember(tmp_path, hypervisor)
    full = True

    def write_if_there_is_room(path: Path, content: str) -> bool:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(power_memory, "write", write_if_there_is_room)

    async def life() -> None:
        nonlocal full
        watching = asyncio.create_task(memory.watch())
        await clock.sleep(SETTLED + 1)
        await hypervisor.power_on("node-1")
        await clock.sleep(60)
        assert memory.recall() == "" and not watching.done()
        full = False
        await clock.sleep(SETTLED + 5)
        assert memory.recall().split() == ["node-0", "node-1"], "nothing has happened meanwhile but that there is room"
        await hypervisor.power_on("node-2")
        await clock.sleep(0.1)
        assert memory.recall().split() == ["node-0", "node-1", "node-2"]
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    await clock.run(life())
