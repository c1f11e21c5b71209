"""Access control lists as the kernel keeps them; who may really read is asked of the kernel, by processes with that user."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

from rackless.drivers.libvirt import grants

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="other users' eyes need root")

A, B = 2_000_300_001, 2_000_300_002


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Where everybody gets to: in a folder that is nobody's way through a closed one."""
    file = tmp_path / "x.iso"
    file.write_text("token")
    file.chmod(0o600)
    return file


def reads(user: int, file: Path) -> bool:
    """Through an open folder: the folders above the test's may be closed."""
    folder = os.open(file.parent, os.O_PATH)
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    file.parent.chmod(0o711)
    try:
        done = subprocess.run([*become, "cat", file.name], preexec_fn=lambda: os.fchdir(folder), capture_output=True)
    finally:
        os.close(folder)
    return done.stdout == b"token"


def test_who_is_let_in_reads_and_nobody_else(image: Path) -> None:
    assert not reads(A, image) and not reads(B, image)
    grants.let_read(image, A)
    assert reads(A, image) and not reads(B, image)
    grants.let_read(image, B)
    assert reads(A, image) and reads(B, image)
    grants.forbid(image, A)
    assert not reads(A, image) and reads(B, image)
    grants.forbid(image, A)
    grants.forbid(image, B)
    assert not reads(B, image)


def test_a_file_of_somebody_else_s_hypervisor_is_open_to_all(image: Path) -> None:
    grants.let_all_read(image)
    assert reads(A, image) and reads(B, image)


def test_who_may_pass_through_a_folder_reads_what_is_open_there_and_sees_no_names(tmp_path: Path, image: Path) -> None:
    image.chmod(0o644)
    tmp_path.chmod(0o700)

    def sees(*command: str) -> bytes:
        become = ["setpriv", f"--reuid={A}", f"--regid={A}", "--clear-groups"]
        place = os.open(tmp_path, os.O_PATH)
        try:
            return subprocess.run([*become, *command], preexec_fn=lambda: os.fchdir(place), capture_output=True).stdout
        finally:
            os.close(place)

    assert sees("cat", image.name) == b""
    assert not grants.may_pass(tmp_path, A)
    grants.let_pass(tmp_path, A)
    assert grants.may_pass(tmp_path, A) and not grants.may_pass(tmp_path, B)
    assert sees("cat", image.name) == b"token" and sees("ls", ".") == b""


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.ENOSPC])
def test_a_file_system_without_lists_or_room_for_one_lets_everybody_read(
    image: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "not to be had")

    monkeypatch.setattr(os, "setxattr", refuse)
    grants.let_read(image, A)
    assert image.stat().st_mode & 0o777 == 0o644


def test_what_the_kernel_is_told_is_in_its_order(image: Path) -> None:
    entries = grants.with_user({(1, 0xFFFFFFFF): 6, (4, 0xFFFFFFFF): 0, (32, 0xFFFFFFFF): 0}, A, 4)
    assert list(entries) == [(1, 0xFFFFFFFF), (2, A), (4, 0xFFFFFFFF), (16, 0xFFFFFFFF), (32, 0xFFFFFFFF)]
    assert entries[16, 0xFFFFFFFF] == 4
