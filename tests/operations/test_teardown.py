import asyncio
import signal
from pathlib import Path

import pytest

from rackless.drivers import open_drivers
from rackless.drivers.process import identity
from rackless.operations import teardown
from rackless.run.files import write
from rackless.run.paths import LabPaths, Roots


@pytest.mark.parametrize("pidfile", ["launched_pid", "holder_pid", "labd_pid"])
async def test_a_daemon_is_ended_that_is_on_its_way_or_has_lost_its_keeper(tmp_path: Path, pidfile: str) -> None:
    paths = LabPaths(Roots(tmp_path / "state", tmp_path / "run", tmp_path / "cache"), "lab")
    left = await asyncio.create_subprocess_exec("sleep", "60")
    write(getattr(paths, pidfile), identity(left.pid))
    await teardown.end_daemon(paths, open_drivers())
    assert await left.wait() == -signal.SIGTERM
