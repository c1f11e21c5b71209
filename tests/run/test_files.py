import errno
import os
from pathlib import Path

import pytest

from rackless.run.files import write, write_secret


def test_a_secret_is_readable_by_its_owner_only_and_so_is_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "password"
    assert write_secret(path, "hunter2")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_writing_the_same_again_changes_nothing_and_leaves_no_scratch_file(tmp_path: Path) -> None:
    assert write(tmp_path / "a", "x")
    assert not write(tmp_path / "a", "x")
    assert write(tmp_path / "a", "y")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_content_is_on_the_disk_before_it_takes_its_name_and_the_name_before_we_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        what = Path(os.readlink(f"/proc/self/fd/{handle}"))
        done.append("folder" if what.is_dir() else f"content {what.read_text()} {what.stat().st_mode & 0o777:o}")
        fsync(handle)

    def named(old: Path, new: Path) -> None:
        done.append(f"name {new.name}")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named)
    write_secret(tmp_path / "key", "secret")
    assert done == ["content secret 600", "name key", "folder"]


def test_a_write_that_fails_leaves_the_old_file_and_no_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a", "old")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / "a", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_nobody_is_led_elsewhere_by_a_scratch_file_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("untouched")
    for number in range(3):
        (tmp_path / f".key.{number}").symlink_to(tmp_path / "elsewhere")
    write_secret(tmp_path / "key", "secret")
    assert (tmp_path / "elsewhere").read_text() == "untouched"
