"""What every table of processes does, be it this computer's or a fake's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.fake.processes import FakeProcess
from rackless.drivers.fake.world import FakeWorld
from rackless.drivers.process import LocalProcesses
from rackless.errors import CommandFailed, GaveUp, HypervisorError
from rackless.ports.process import Held, ProcessTable
from rackless.run.files import write

Story = Callable[[ProcessTable, Path], Coroutine[Any, Any, None]]
SPEAKS = ["sh", "-c", "echo one; echo two"]
FAILS = ["false"]
STAYS = ["sleep", "60"]
HEARS_INTERRUPTS = ["env", "--default-signal=INT", "sleep", "60"]
"""Whoever runs the tests in the background of a shell has SIGINT ignored, and hands that on."""


async def _sh(process: FakeProcess) -> int:
    process.say("one")
    await asyncio.sleep(0.5)
    process.say("two")
    return 0


async def _false(process: FakeProcess) -> int:
    return 1


async def _sleep(process: FakeProcess) -> int:
    await asyncio.sleep(60)
    return 0


@pytest.fixture(params=["local", "fake"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Story], None]:
    def tell(story: Story) -> None:
        if request.param == "local":
            asyncio.run(story(LocalProcesses(), tmp_path))
            return
        world = FakeWorld(
            {"sh": lambda _: _sh, "false": lambda _: _false, "sleep": lambda _: _sleep, "env": lambda _: _sleep}
        )

        async def whole() -> None:
            await world.processes.as_process("test", story(world.processes, tmp_path))

        world.run(whole())

    return tell


def test_a_command_is_run_to_its_end_and_a_failed_one_is_an_error(told: Callable[[Story], None]) -> None:
    async def story(processes: ProcessTable, folder: Path) -> None:
        assert (await processes.run(SPEAKS)).stdout == "one\ntwo\n"
        with pytest.raises(CommandFailed):
            await processes.run(FAILS)
        assert (await processes.run(FAILS, check=False)).code == 1
        with pytest.raises(GaveUp):
            await processes.run(STAYS, within=0.1)
        with pytest.raises(HypervisorError, match="is not here"):
            await processes.run(["no-such-program"])

    told(story)


def test_what_a_program_says_comes_line_by_line_until_it_ends(told: Callable[[Story], None]) -> None:
    async def story(processes: ProcessTable, folder: Path) -> None:
        (folder / "log").write_text("of another life\n")
        child = await processes.start(SPEAKS, log=folder / "log")
        assert [line async for line in child.lines()] == ["one", "two"]
        assert await child.wait() == 0
        assert (folder / "log").read_text() == "of another life\none\ntwo\n"

    told(story)


def test_a_process_is_known_by_more_than_its_number_and_ends_when_it_is_told_to(told: Callable[[Story], None]) -> None:
    async def story(processes: ProcessTable, folder: Path) -> None:
        child = await processes.start(STAYS, log=folder / "log")
        write(folder / "pid", processes.identity(child.pid))
        assert processes.find(folder / "pid") == child.pid and processes.command(child.pid) == "sleep 60"
        await asyncio.gather(processes.end(child.pid), child.wait())
        assert child.code == -15
        assert processes.find(folder / "pid") is None and processes.identity(child.pid) == ""
        assert processes.find(folder / "nothing") is None

    told(story)


def test_an_interrupted_process_ends_by_that_signal(told: Callable[[Story], None]) -> None:
    async def story(processes: ProcessTable, folder: Path) -> None:
        child = await processes.start(HEARS_INTERRUPTS, log=folder / "log")
        processes.interrupt(child.pid)
        assert await child.wait() == -2

    told(story)


def test_a_lock_is_held_by_one(told: Callable[[Story], None]) -> None:
    async def story(processes: ProcessTable, folder: Path) -> None:
        with processes.hold(folder / "lock"):
            with pytest.raises(Held), processes.hold(folder / "lock"):
                pass
        with processes.hold(folder / "lock"):
            pass

    told(story)
