"""A lab's folders are deleted while it runs."""

import asyncio
import os
import shutil
from pathlib import Path

from rackless.cli import words
from rackless.drivers.fake.clock import VirtualClock
from rackless.drivers.process import identity
from rackless.events import Bus, Event, Note
from rackless.lab.folder_watch import LOOK, FolderWatch
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots


def make(folder: Path) -> tuple[LabPaths, Bus, list[str]]:
    paths = LabPaths(Roots(folder / "state", folder / "run", folder / "cache"), "lab")
    for file in (paths.spec, paths.socket):
        file.parent.mkdir(parents=True)
        file.touch()
    Ledger(paths.ledger).own("network-namespace", paths.netns)
    (folder / "kmsg").touch()
    bus, said = Bus(), list[str]()

    def hear(event: Event) -> None:
        if isinstance(event, Note):
            said.append(words.message(event))

    bus.subscribe(hear)
    return paths, bus, said


async def test_a_lab_whose_ledger_is_gone_says_so_once_and_where_it_is_still_read(tmp_path: Path) -> None:
    paths, bus, said = make(tmp_path)
    clock = VirtualClock()

    async def listen() -> None:
        raise AssertionError("the socket is there")

    watch = FolderWatch(paths, listen, clock, bus, last_resort=tmp_path / "kmsg")

    async def life() -> None:
        watching = asyncio.create_task(watch.watch())
        await clock.sleep(3 * LOOK + 1)
        assert not said and not watch.warnings
        paths.ledger.unlink()
        await clock.sleep(3 * LOOK)
        assert len(said) == 1 and str(paths.ledger) in said[0] and "destroy --orphans" in said[0]
        assert watch.warnings == said
        assert said[0] in (tmp_path / "kmsg").read_text() and str(os.getpid()) in (tmp_path / "kmsg").read_text()
        Ledger(paths.ledger).own("network-namespace", paths.netns)
        await clock.sleep(2 * LOOK)
        assert watch.warnings == []
        watching.cancel()

    await clock.run(life())


async def test_a_socket_that_a_cleaner_took_is_made_again_with_what_tells_who_the_daemons_are(tmp_path: Path) -> None:
    paths, bus, said = make(tmp_path)
    clock, opened = VirtualClock(), list[int]()

    async def listen() -> None:
        paths.socket.touch()
        opened.append(1)

    watch = FolderWatch(paths, listen, clock, bus, last_resort=tmp_path / "kmsg")

    who = {paths.labd_pid: identity(os.getpid()), paths.holder_pid: identity(os.getppid())}
    for path, text in who.items():
        path.write_text(text)

    async def life() -> None:
        watching = asyncio.create_task(watch.watch())
        await clock.sleep(LOOK + 1)
        shutil.rmtree(paths.run)
        await clock.sleep(5 * LOOK)
        assert opened == [1] and len(said) == 1, "once, and then it is there"
        assert {path: path.read_text() for path in who} == who
        assert paths.run.stat().st_mode & 0o777 == 0o711
        watching.cancel()

    await clock.run(life())
