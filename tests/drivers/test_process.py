import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from rackless.drivers.process import LocalProcesses, find, identity
from rackless.errors import CommandFailed, GaveUp, HypervisorError


async def test_a_failing_program_is_reported_with_its_last_words_and_a_line_to_replay_it() -> None:
    with pytest.raises(CommandFailed) as caught:
        await LocalProcesses().run(["sh", "-c", "echo bad luck >&2; exit 3"])
    assert caught.value.what == "sh exited with 3"
    assert caught.value.why == "bad luck"
    assert caught.value.hint == "to replay: sh -c 'echo bad luck >&2; exit 3'"


async def test_a_program_that_is_not_installed_is_a_matter_of_the_machine() -> None:
    with pytest.raises(HypervisorError, match="no-such-program"):
        await LocalProcesses().run(["no-such-program"])


async def test_a_program_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    with pytest.raises(GaveUp):
        await LocalProcesses().run(["sh", "-c", f"sleep 60 & echo $! > {pidfile}; wait"], within=0.5)
    pid = int(pidfile.read_text())
    for _ in range(50):
        if not Path(f"/proc/{pid}/stat").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text():
            return
        await asyncio.sleep(0.05)
    pytest.fail("the child outlived the time limit")


def test_a_process_is_found_by_its_identity_and_by_nothing_less(tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    assert find(pidfile) is None
    for text, found in (("", None), ("nobody", None), (f"{os.getpid()} 1", None), (identity(os.getpid()), os.getpid())):
        pidfile.write_text(text)
        assert find(pidfile) == found


async def test_programs_do_not_inherit_our_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hunter2")
    done = await LocalProcesses().run(["env"])
    assert "hunter2" not in done.stdout


async def test_a_started_program_writes_to_its_log_and_stops_when_asked(tmp_path: Path) -> None:
    child = await LocalProcesses().start(["sh", "-c", "echo hello; exec sleep 60"], log=tmp_path / "log")
    for _ in range(500):
        if (tmp_path / "log").read_text() == "hello\n":
            break
        await asyncio.sleep(0.01)
    else:
        pytest.fail("its words never reached the log")
    assert child.code is None
    assert await child.stop() == -15
    assert not os.path.exists(f"/proc/{child.pid}")


LAUNCH = """
import asyncio, pathlib, sys
from rackless.drivers.process import LocalProcesses
async def main():
    child = await LocalProcesses().launch(["sleep", "60"], log=pathlib.Path(sys.argv[1]))
    print(child.pid)
if sys.version_info < (3, 12):  # what newer ones do by themselves
    asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
asyncio.run(main())
"""


async def test_what_is_launched_goes_on_when_we_are_gone(tmp_path: Path) -> None:
    pid = int((await LocalProcesses().run([sys.executable, "-c", LAUNCH, tmp_path / "log"])).stdout)
    try:
        assert identity(pid)
    finally:
        if identity(pid):
            os.kill(pid, signal.SIGKILL)


ADOPTER = """
import os, subprocess, sys, time
from rackless.drivers.process import adopt_orphans, bury

adopt_orphans()
awaited = subprocess.Popen(["sleep", "0.2"])
orphan = int(subprocess.run(["sh", "-c", "sleep 0.1 >&2 & echo $!"], stdout=subprocess.PIPE, check=True).stdout)
deadline = time.monotonic() + 30
while os.path.exists(f"/proc/{orphan}") and time.monotonic() < deadline:
    bury(awaited.pid)
    time.sleep(0.01)
assert not os.path.exists(f"/proc/{orphan}")
time.sleep(0.3)
bury(awaited.pid)
sys.exit(awaited.wait())
"""


async def test_an_orphan_is_buried_and_the_child_that_somebody_waits_for_is_not() -> None:
    await LocalProcesses().run([sys.executable, "-c", ADOPTER], within=60)
