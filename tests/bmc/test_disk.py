"""What a BMC was told is on disk before it says so, and many BMCs share one sync."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rackless.bmc.core.disk import StateDisk
from rackless.bmc.core.state import JsonFile


async def test_file_and_folder_are_synced_before_it_is_said_to_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def note(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", note)
    disk = StateDisk()
    await disk.replace(tmp_path / "a.json", b"1")
    assert synced[0].startswith(str(tmp_path / ".a.json."))
    assert synced[1] == str(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    await disk.close()


async def test_a_hundred_files_share_a_few_syncs(tmp_path: Path) -> None:
    disk = StateDisk()
    files = [JsonFile(tmp_path / f"{number}.json", disk) for number in range(100)]
    await asyncio.gather(*(file.save({"n": number}) for number, file in enumerate(files)))
    assert [file.load() for file in files] == [{"n": number} for number in range(100)]
    assert disk.syncs < 50
    await disk.close()


async def test_a_disk_that_hangs_keeps_nobody_waiting_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hung = threading.Event()
    fsync = os.fsync

    def hang(handle: int) -> None:
        hung.wait(5)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", hang)
    disk = StateDisk(patience=0.05)
    file = JsonFile(tmp_path / "a.json", disk)
    for number in range(3):
        await asyncio.wait_for(file.save({"n": number}), 2)
        assert file.load() == {"n": number}
    hung.set()
    await disk.close()
    assert file.load() == {"n": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


async def test_a_full_disk_is_told_and_leaves_the_old_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = JsonFile(tmp_path / "a.json", StateDisk())
    await file.save({"n": 1})

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        await file.save({"n": 2})
    assert file.load() == {"n": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


_WRITER = """
import asyncio, sys
from pathlib import Path
from rackless.bmc.core.state import JsonFile
async def main():
    file = JsonFile(Path(sys.argv[1]))
    for number in range(100000):
        await file.save({"n": number, "padding": "x" * 3000})
        print(number, flush=True)
asyncio.run(main())
"""


def test_a_killed_process_leaves_what_it_said_or_something_newer(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < 20:
            pass
        process.kill()
        said = [20, *map(int, process.stdout.read().split())]
    kept = JsonFile(path).load()
    assert kept is not None and kept["n"] in (said[-1], said[-1] + 1)


async def test_saves_of_one_file_are_kept_in_order(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "a.json", StateDisk())
    await asyncio.gather(*(file.save({"n": number}) for number in range(20)))
    assert file.load() == {"n": 19}
