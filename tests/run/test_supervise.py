import asyncio
import errno
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.process import LocalProcesses, RunningChild, identity
from rackless.errors import LabError
from rackless.events import Bus, Note
from rackless.run import files, supervise
from rackless.run.supervise import Keeper


async def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.02)
    pytest.fail("it never came true")


def keeper(tmp_path: Path, *argv: str) -> Keeper:
    return Keeper(
        "sleeper", argv, pidfile=tmp_path / "pid", log=tmp_path / "log", bus=Bus(), processes=LocalProcesses()
    )


async def test_a_program_that_was_killed_is_started_again(tmp_path: Path) -> None:
    kept = keeper(tmp_path, "sleep", "60")
    await kept.start()
    first = kept.pid
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: kept.running and kept.pid != first)
    assert await kept.stop() == -signal.SIGTERM
    assert not (tmp_path / "pid").exists()


async def test_a_program_that_does_not_stay_up_is_reported_with_its_last_words(tmp_path: Path) -> None:
    kept = keeper(tmp_path, "sh", "-c", "echo no such device; exit 3")
    await kept.start()
    await eventually(lambda: kept.code is not None)
    with pytest.raises(LabError) as caught:
        kept.check()
    assert "no such device" in caught.value.why
    await kept.stop()


async def test_what_a_killed_predecessor_left_running_is_ended_first(tmp_path: Path) -> None:
    left = await asyncio.create_subprocess_exec("sleep", "60")
    (tmp_path / "pid").write_text(identity(left.pid))
    kept = keeper(tmp_path, "sleep", "60")
    await kept.start()
    assert await left.wait() == -signal.SIGTERM
    await kept.stop()


async def test_what_a_program_that_died_has_left_running_is_ended_before_it_is_started_again(tmp_path: Path) -> None:
    child = tmp_path / "child"
    kept = keeper(tmp_path, "sh", "-c", f"sleep 60 & trap 'kill $!' TERM; echo $! >> {child}; wait")
    await kept.start()
    await eventually(lambda: child.exists() and child.read_text().endswith("\n"))
    left = int(child.read_text())
    os.kill(kept.pid, signal.SIGKILL)
    await eventually(lambda: kept.restarts == 1 and kept.running)
    await eventually(lambda: identity(left) == "")
    await kept.stop()


async def test_what_a_predecessor_that_is_gone_has_left_behind_is_ended_too(tmp_path: Path) -> None:
    gone = await asyncio.create_subprocess_exec(
        "sh", "-c", "sleep 60 >/dev/null & echo $!", stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert gone.stdout is not None
    left = int(await gone.stdout.readline())
    (tmp_path / "pid").write_text(f"{gone.pid} 12345")
    kept = keeper(tmp_path, "sleep", "60")
    await gone.wait()
    await kept.start()
    await eventually(lambda: identity(left) == "")
    await kept.stop()


async def test_a_stranger_that_has_the_number_of_a_predecessor_is_left_alone(tmp_path: Path) -> None:
    stranger = await asyncio.create_subprocess_exec("sleep", "60")
    (tmp_path / "pid").write_text(f"{stranger.pid} 12345")
    kept = keeper(tmp_path, "sleep", "60")
    await kept.start()
    assert stranger.returncode is None and identity(stranger.pid)
    await kept.stop()
    stranger.kill()
    await stranger.wait()


async def test_who_asks_for_a_program_does_not_wait_for_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "FIRST_PAUSE", 3600.0)
    monkeypatch.setattr(supervise, "LONGEST_PAUSE", 3600.0)
    kept = keeper(tmp_path, "sleep", "60")
    await kept.start()
    assert (kept.describe().up_seconds or 0.0) >= 0.0
    os.kill(kept.pid, signal.SIGKILL)
    await eventually(lambda: kept.restarts == 1)
    assert not kept.running and kept.describe().up_seconds is None
    kept.hurry()
    await eventually(lambda: kept.running)
    await kept.stop()


class Cramped(LocalProcesses):
    """A computer that has no room for a process, a few times."""

    refusals = 3

    async def start(self, argv: Sequence[str | Path], **more: Any) -> RunningChild:
        if self.refusals and "first" in self.__dict__:
            self.refusals -= 1
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        self.first = True
        return await super().start(argv, **more)


async def test_a_program_that_cannot_be_started_now_is_told_and_tried_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "FIRST_PAUSE", 0.01)
    bus, told = Bus(), []
    bus.subscribe(lambda event: told.append(event.code) if isinstance(event, Note) else None)
    processes = Cramped()
    kept = Keeper(
        "sleeper", ["sleep", "60"], pidfile=tmp_path / "pid", log=tmp_path / "log", bus=bus, processes=processes
    )
    await kept.start()
    first = kept.pid
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: kept.running and kept.pid != first)
    assert told == ["part-ended", *["part-not-started"] * 3]
    assert (tmp_path / "pid").read_text() == identity(kept.pid)
    await kept.stop()


async def test_a_program_whose_pid_cannot_be_written_down_does_not_run_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "FIRST_PAUSE", 0.01)
    kept = keeper(tmp_path, "sleep", "60")
    await kept.start()
    first, started = kept.pid, []

    def full(path: Path, content: str) -> None:
        started.append(int(content.split()[0]))
        if len(started) < 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        files.write(path, content)

    monkeypatch.setattr(supervise, "write", full)
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: kept.running and len(started) == 3)
    assert [bool(identity(pid)) for pid in started] == [False, False, True]
    await kept.stop()
