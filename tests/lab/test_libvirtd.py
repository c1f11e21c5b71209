import os
from pathlib import Path

import pytest

from rackless.lab import libvirtd
from rackless.lab.accounts import ServerAccounts
from rackless.run.paths import LabPaths, Roots


def test_qemu_is_left_with_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    libvirtd.write_configuration(tmp_path, ServerAccounts(64055, 77))
    lines = (tmp_path / "qemu.conf").read_text().splitlines()
    assert {'user = "+64055"', 'group = "+64055"', 'swtpm_user = "+77"', "clear_emulator_capabilities = 1"} <= set(
        lines
    )
    assert {"seccomp_sandbox = 1", 'namespaces = [ "mount" ]', "max_core = 0", "dynamic_ownership = 1"} <= set(lines)
    sockets = (tmp_path / "libvirtd.conf").read_text()
    assert sockets.count('_perms = "0700"') == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="files of other users need root")
def test_the_folders_that_others_take_for_granted_are_there_before_the_first_server(tmp_path: Path) -> None:
    paths = LabPaths(Roots(tmp_path / "state", tmp_path / "run", tmp_path / "cache"), "lab")
    made_as_root = paths.libvirt / "lib/swtpm/6f2d/tpm2"
    made_as_root.mkdir(parents=True)
    (made_as_root / "tpm2-00.permall").touch()
    for _ in range(2):
        libvirtd.ensure_folders(paths, ServerAccounts(64055, 77))
    assert (paths.logs / "libvirt/qemu").stat().st_mode & 0o777 == 0o700
    assert (paths.libvirt / "lib/images").stat().st_mode & 0o777 == 0o711
    authority = paths.state / "var/lib/swtpm-localca"
    assert [path.stat().st_uid for path in (authority, made_as_root, made_as_root / "tpm2-00.permall")] == [77, 77, 77]
    assert made_as_root.parent.stat().st_uid == 0
    sockets = (paths.inner_run / "libvirt/qemu/swtpm").stat()
    assert (sockets.st_uid, sockets.st_gid, sockets.st_mode & 0o777) == (64055, 77, 0o770)
