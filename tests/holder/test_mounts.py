"""What the processes of a lab see of the file system, as the holder fits it out."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackless.drivers.fake.mounts import FakeMounts
from rackless.holder.mounts import ensure_mounts
from rackless.lab.accounts import KVM
from rackless.run.paths import LabPaths, Roots


@pytest.fixture
def paths(tmp_path: Path) -> LabPaths:
    paths = LabPaths(Roots(tmp_path / "state", tmp_path / "run", tmp_path / "cache"), "lab")
    for made in (paths.state, paths.run, paths.roots.cache):
        made.mkdir(parents=True)
    return paths


def mounted(paths: LabPaths, mounts: FakeMounts) -> dict[Path, Path]:
    """What is shown, by where."""
    ensure_mounts(mounts, paths, "192.168.111.1", "lab.rackless.test", {paths.disks: Path("/var/lib/disks")})
    return {target: source for source, target in mounts.bound}


def test_a_lab_has_its_own_resolver_accounts_and_folders(paths: LabPaths) -> None:
    mounts = FakeMounts()
    shown = mounted(paths, mounts)
    assert mounts.inside, "nothing of it is mounted on the computer"
    assert mounts.read(Path("/etc/resolv.conf")) == "search lab.rackless.test\nnameserver 192.168.111.1\n"
    assert "resolve" not in mounts.read(Path("/etc/nsswitch.conf"))
    assert mounts.read(Path("/etc/passwd")).startswith(mounts.files[Path("/etc/passwd")])
    assert "libvirt-qemu:x:64055:" in mounts.read(Path("/etc/group"))
    assert shown[Path("/run")] == paths.inner_run and Path("/run") in mounts.trees
    assert shown[Path("/etc/libvirt")] == paths.libvirt / "etc"
    order = list(shown)
    assert order.index(Path("/var/lib")) < order.index(Path("/var/lib/libvirt")), "the lab's own is on top"
    assert mounts.sysfs == {Path("/sys")} and mounts.folder == paths.state
    assert paths.disks.stat().st_mode & 0o777 == 0o711, "servers' users pass through"


def test_a_resolver_that_is_a_link_into_run_leads_to_the_labs_own(paths: LabPaths) -> None:
    stub = Path("/run/systemd/resolve/stub-resolv.conf")
    mounts = FakeMounts(links={Path("/etc/resolv.conf"): stub})
    shown = mounted(paths, mounts)
    assert stub not in shown and mounts.read(stub).endswith("nameserver 192.168.111.1\n")


def test_a_computer_without_an_nsswitch_gets_none(paths: LabPaths) -> None:
    mounts = FakeMounts()
    del mounts.files[Path("/etc/nsswitch.conf")]
    assert Path("/etc/nsswitch.conf") not in mounted(paths, mounts)


def test_an_account_that_is_there_is_not_made_twice(paths: LabPaths) -> None:
    mounts = FakeMounts()
    mounts.files[Path("/etc/group")] += "libvirt-qemu:x:123:\n"
    mounted(paths, mounts)
    assert mounts.read(Path("/etc/group")).count("libvirt-qemu") == 1


def test_kvm_is_opened_for_servers_and_stays_closed_with_a_word_where_that_is_forbidden(
    paths: LabPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    mounts = FakeMounts(closed={KVM})
    mounted(paths, mounts)
    assert mounts.opened == {KVM} and capsys.readouterr().err == ""
    mounted(paths, FakeMounts(closed={KVM}, forbidden=True))
    assert "stays closed to servers' users" in capsys.readouterr().err
