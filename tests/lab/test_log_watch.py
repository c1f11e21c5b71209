"""Logs that others fill, and that must not fill the disk."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from rackless.drivers.fake.clock import VirtualClock
from rackless.lab.log_watch import LOOK, LogWatch

MIB = 1 << 20


async def test_a_console_that_says_too_much_is_begun_anew_and_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "console" / "node-0.log"
    log.parent.mkdir()
    clock = VirtualClock()
    with log.open("ab", buffering=0) as console:

        async def life() -> None:
            watching = asyncio.create_task(LogWatch(tmp_path, clock, most=MIB, kept=100).watch())
            console.write(b"x" * (MIB - 5) + b"until")
            await clock.sleep(2 * LOOK)
            assert log.stat().st_size == MIB, "so much is allowed"
            console.write(b" here")
            await clock.sleep(2 * LOOK)
            console.write(b"and on")
            watching.cancel()

        await clock.run(life())
    text = log.read_bytes()
    assert text.endswith(b"]\r\nand on") and b"had 1 MiB" in text and b"node-0.old" in text and len(text) < 200
    old = log.with_suffix(".old")
    assert old.read_bytes() == b"x" * 90 + b"until here" and old.stat().st_mode & 0o077 == 0


def test_the_console_of_somebody_elses_machine_takes_no_more_room_than_the_labs_own(tmp_path: Path) -> None:
    """libvirt keeps it below its own folder, and QEMU writes it from where it was, unless it was told to append."""
    log = tmp_path / "libvirt/qemu/bootstrap-serial0.log"
    log.parent.mkdir(parents=True)
    watch = LogWatch(tmp_path, VirtualClock(), most=MIB, kept=100)
    with log.open("wb", buffering=0) as console:
        console.write(b"x" * 2 * MIB)
        watch.look()
        console.write(b"and on")
        assert log.stat().st_size == 2 * MIB + 6 and log.stat().st_blocks * 512 < MIB // 8
        watch.look()
        assert log.read_bytes().endswith(b"\0and on"), "a hole is no reason to begin anew"
        console.write(b"x" * 2 * MIB)
        watch.look()
    assert log.stat().st_blocks * 512 < MIB // 8


def test_other_files_and_small_logs_are_left_alone_and_one_that_fails_holds_up_no_other(tmp_path: Path) -> None:
    for name, size in (("a.log", 20), ("events.jsonl", 50), ("b.log", 50), ("c.log", 50), ("bmc-audit.jsonl", 50)):
        (tmp_path / name).write_bytes(b"x" * size)
    (tmp_path / "b.log").unlink()
    (tmp_path / "b.log").symlink_to(tmp_path / "events.jsonl")
    LogWatch(tmp_path, VirtualClock(), most=30, kept=10).look()
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.pop("c.log") < 150 and sizes.pop("c.old") == 10
    assert sizes == {"a.log": 20, "events.jsonl": 50, "b.log": 50, "bmc-audit.jsonl": 50}


def test_room_is_made_also_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"x" * 50)

    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    LogWatch(tmp_path, VirtualClock(), most=30, kept=10).look()
    assert log.stat().st_size == 0
