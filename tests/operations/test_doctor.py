"""What the doctor sees of a computer that lacks something, and what it would have a person do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rackless.drivers.fake.world import FakeWorld
from rackless.operations.doctor import Check, examine
from rackless.operations.prepare import PACKAGES
from rackless.run.paths import Roots

KVM = Path("/dev/kvm")


def seen(folder: Path, world: FakeWorld) -> dict[str, Check]:
    roots = Roots(folder / "state", folder / "run", folder / "cache")
    checks = world.run(world.processes.as_process("doctor", examine(roots, world.drivers())))
    return {check.about: check for check in checks}


def test_a_computer_that_has_everything_is_told_so(tmp_path: Path) -> None:
    world = FakeWorld({})
    found = seen(tmp_path, world)
    assert {about for about, check in found.items() if check.verdict != "ok"} == {"acceleration"}
    assert found["packages"].saw == f"all {len(PACKAGES)} are installed"
    assert world.script.changes() == [], "it only looks"


def lacks(**changes: object) -> Callable[[FakeWorld], None]:
    def take(world: FakeWorld) -> None:
        for name, value in changes.items():
            setattr(world.computer, name, value)

    return take


def without_packages(world: FakeWorld) -> None:
    world.packages.missing = {"ovmf", "nftables"}


def with_other_packages(world: FakeWorld) -> None:
    world.packages.kind = ""


@pytest.mark.parametrize(
    ("lack", "about", "verdict", "fix"),
    [
        (lacks(is_root=False), "root", "warning", "sudo rackless doctor"),
        (lacks(is_root=False, lacking={"sudo"}), "root", "missing", "become root"),
        (lacks(architecture="aarch64"), "system", "missing", "use an x86_64 computer"),
        (lacks(lacking={"apt-get"}), "system", "missing", "use a Debian or Ubuntu computer"),
        (lacks(lacking={"libvirt"}), "python", "warning", "apt-get install python3-libvirt"),
        (without_packages, "packages", "warning", "apt-get install --no-install-recommends ovmf nftables"),
        (with_other_packages, "packages", "warning", ""),
        (lacks(has_firmware=False), "secure boot firmware", "warning", "apt-get install ovmf"),
        (lacks(), "acceleration", "warning", "modprobe kvm_intel || modprobe kvm_amd"),
        (
            lacks(can_virtualise=False),
            "acceleration",
            "warning",
            "allow nested virtualisation, or use another computer",
        ),
        (lacks(absent=set()), "acceleration", "warning", "rackless prepare  (boots a tiny guest to know)"),
        (lacks(bytes_of_memory=1 << 30), "memory", "warning", "use fewer or smaller servers"),
        (lacks(bytes_free=1 << 30), "disk space", "warning", "free some, or move it"),
        (lacks(tags=False), "VLANs", "warning", "modprobe 8021q"),
        (lacks(queues=frozenset({"tbf"})), "slow links", "warning", "modprobe -a sch_netem"),
        (lacks(absent={Path("/proc/self/ns/net")}), "network namespaces", "missing", ""),
    ],
)
def test_what_is_missing_is_told_with_what_mends_it(
    tmp_path: Path, lack: Callable[[FakeWorld], None], about: str, verdict: str, fix: str
) -> None:
    world = FakeWorld({})
    lack(world)
    check = seen(tmp_path, world)[about]
    assert (check.verdict, check.fix[: len(fix)]) == (verdict, fix)


def test_what_a_probe_found_counts_until_the_computer_is_started_again(tmp_path: Path) -> None:
    world = FakeWorld({})
    known = {"kvm": True, "says": "KVM", "boot": world.computer.boot_id()}
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/acceleration.json").write_text(json.dumps(known))
    assert seen(tmp_path, world)["acceleration"].saw == "KVM (a guest was booted to know)"
    world.computer.starts += 1
    world.computer.absent.discard(KVM)
    assert "not known yet" in seen(tmp_path, world)["acceleration"].saw


def test_a_folder_that_is_no_labs_is_named(tmp_path: Path) -> None:
    (tmp_path / "state/stray").mkdir(parents=True)
    assert "stray" in seen(tmp_path, FakeWorld({}))["leftovers"].saw
