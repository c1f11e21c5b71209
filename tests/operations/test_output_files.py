"""Files that a command writes for a person: theirs, where they wanted them, and nothing else of the computer's is touched."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rackless.errors import HypervisorError, InputError
from rackless.operations.output_files import open_output, write_output

CALLER, STRANGER = 4711, 4712


@pytest.fixture
def sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("sudo is for root")
    monkeypatch.setenv("SUDO_UID", str(CALLER))
    monkeypatch.setenv("SUDO_GID", str(CALLER))


def about(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_uid, stat.S_IMODE(found.st_mode)


@pytest.mark.usefixtures("sudo")
def test_what_is_written_through_sudo_is_the_callers(tmp_path: Path) -> None:
    write_output(tmp_path / "made/deep/kubeconfig", "secret")
    assert about(tmp_path / "made/deep/kubeconfig") == (CALLER, 0o600)
    assert {(tmp_path / folder).stat().st_uid for folder in ("made", "made/deep")} == {CALLER}
    assert tmp_path.stat().st_uid == 0, "what was there before stays whose it was"
    write_output(tmp_path / "picture", b"png", mode=0o644)
    assert about(tmp_path / "picture") == (CALLER, 0o644)
    with open_output(tmp_path / "packets") as file:
        file.write(b"pcap")
    assert about(tmp_path / "packets")[0] == CALLER and (tmp_path / "packets").read_bytes() == b"pcap"


def test_without_sudo_files_are_of_who_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    write_output(tmp_path / "kubeconfig", "secret")
    assert about(tmp_path / "kubeconfig") == (os.geteuid(), 0o600)


@pytest.mark.usefixtures("sudo")
@pytest.mark.parametrize("streamed", [False, True])
def test_root_follows_no_link_that_lies_where_it_writes(tmp_path: Path, streamed: bool) -> None:
    victim, link = tmp_path / "passwd", tmp_path / "ctrl-0.png"
    victim.write_text("root")
    link.symlink_to(victim)
    if streamed:
        with open_output(link) as file:
            file.write(b"x")
    else:
        write_output(link, b"x")
    assert victim.read_text() == "root" and victim.stat().st_uid == 0
    assert not link.is_symlink() and link.read_bytes() == b"x"


def test_a_device_is_written_to_and_stays_a_device(tmp_path: Path) -> None:
    """`-o /dev/null` as root would have made a file of it."""
    if os.geteuid() != 0:
        pytest.skip("making a device needs root")
    device = tmp_path / "null"
    os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    for _ in range(2):
        write_output(device, "secret")
        with open_output(device) as file:
            file.write(b"x")
    assert stat.S_ISCHR(device.lstat().st_mode)


def test_a_pipe_is_written_into_unless_it_is_somebody_elses(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving a pipe to somebody needs root")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_output(pipe, "for you")
    assert os.read(reader, 100) == b"for you" and stat.S_ISFIFO(pipe.lstat().st_mode)
    os.chown(pipe, STRANGER, STRANGER)
    write_output(pipe, "a secret")
    assert os.read(reader, 100) == b"", "who laid it there reads nothing"
    assert about(pipe) == (0, 0o600) and stat.S_ISREG(pipe.lstat().st_mode) and pipe.read_text() == "a secret"
    os.close(reader)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file/below"):
        with pytest.raises(InputError, match="cannot be written") as refused:
            write_output(place, "x")
        assert refused.value.hint
        with pytest.raises(InputError, match="cannot be written"), open_output(place):
            pass


def test_a_full_disk_is_the_computers_lack_and_no_mistake_of_the_person(tmp_path: Path) -> None:
    with pytest.raises((OSError, HypervisorError)) as full:
        write_output(Path("/dev/full"), "x")
    assert not isinstance(full.value, InputError)
