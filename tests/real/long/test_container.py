"""rackless in a container that podman makes from a Debian root of our own: a lab in it, a server switched on, nothing left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rackless.drivers import namespaces
from tests.real.conftest import ROOT

pytestmark = [
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.skipif(not shutil.which("podman") or not shutil.which("runc"), reason="needs podman and runc"),
]

SCRIPT = ROOT / "scripts/container"
NAME = "rackless-test"
LAB = "name: boxed\nservers: {box: {count: 1, role: spare}}\n"
LIMITS = "--ulimit nofile=1024:1024 --ulimit nproc=1000:1000"
"""Engines ask for more than a computer may have that is itself a guest of others."""
TRUST = Path("/etc/ssl/certs/ca-certificates.crt")


class Boxed:
    """The script, with an engine whose images and containers are the test's own."""

    def __init__(self, folder: Path, run: Path) -> None:
        """`run` is for what podman keeps while it runs: it takes no path of more than 50 characters."""
        self.folder = folder
        self.labs = folder / "labs"
        self.labs.mkdir()
        store = f"--root {folder}/store --runroot {run} --cgroup-manager cgroupfs --runtime /usr/sbin/runc"
        self.engine = f"podman {store} --storage-driver {'overlay' if _has_overlay() else 'vfs'}"
        (folder / "pip.conf").write_text("[global]\ncert = /ca.crt\n")  # whom this computer trusts
        mounts = f"--volume {TRUST}:/ca.crt:ro --volume {folder}/pip.conf:/etc/pip.conf:ro"
        self.environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("RACKLESS")},
            "RACKLESS_ENGINE": self.engine,
            "RACKLESS_CONTAINER": NAME,
            "RACKLESS_BUILD_OPTIONS": f"--build-arg BASE=localhost/base --isolation chroot {LIMITS} {mounts}",
            "RACKLESS_RUN_OPTIONS": LIMITS,
        }

    def podman(self, *arguments: str) -> str:
        return self._run([*self.engine.split(), *arguments])

    def rackless(self, *arguments: str) -> str:
        return self._run([str(SCRIPT), *arguments])

    def _run(self, argv: list[str]) -> str:
        done = subprocess.run(
            argv, cwd=self.labs, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800
        )  # fmt: skip
        assert done.returncode == 0, f"{' '.join(argv)}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def boxed(tmp_path: Path) -> Iterator[Boxed]:
    for program in ("podman", "mmdebstrap"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed here")
    short = Path(tempfile.mkdtemp(prefix="box-"))
    made = Boxed(tmp_path, short)
    try:
        yield made
    finally:
        made.podman("rm", "--all", "--force")
        made.podman("rmi", "--all", "--force")
        shutil.rmtree(short)
        overlay = tmp_path / "store/overlay"  # which podman keeps mounted
        if overlay.is_mount():
            subprocess.run(["umount", str(overlay)], check=True)


def _has_overlay() -> bool:
    return "\toverlay\n" in Path("/proc/filesystems").read_text()


def living(space: int) -> list[int]:
    """The processes of this computer, inside and outside of containers, that are in a network namespace."""
    found = [
        (entry, namespaces.network_id(entry / "ns/net")) for entry in Path("/proc").iterdir() if entry.name.isdigit()
    ]
    return [int(entry.name) for entry, identity in found if identity is not None and identity[1] == space]


def left(boxed: Boxed) -> dict[str, object]:
    own = str(boxed.folder)
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return {
        "links": subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout,
        "routes": subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout,
        "firewall": subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=True).stdout,
        "mounts": sorted(line.split()[4] for line in mounts if own in line),
        "files": sorted(path.name for path in boxed.labs.iterdir()),
        "containers": boxed.podman("ps", "--all", "--quiet"),
    }


def test_a_lab_in_a_container_switches_a_server_on_and_leaves_nothing(boxed: Boxed) -> None:
    root = boxed.folder / "root.tar"
    subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "bookworm", str(root)], check=True, timeout=1800)
    boxed.podman("import", str(root), "localhost/base")
    root.unlink()
    boxed.rackless("--build")
    (boxed.labs / "lab.yaml").write_text(LAB)
    before = left(boxed)

    boxed.rackless("up", "--until", "bmc")
    inside = json.loads(boxed.rackless("exec", "--json", "--", "stat", "-L", "-c", "%i", "/proc/self/ns/net"))["stdout"]
    space = int(inside)
    assert len(living(space)) >= 2, "labd and libvirtd, seen from outside"
    bmc = json.loads(boxed.rackless("bmc", "show", "box-0", "--password", "--json"))
    tool = ["ipmitool", "-I", "lanplus", "-C", "17", "-H", bmc["address"], "-U", bmc["username"], "-P", bmc["password"]]
    boxed.rackless("exec", "--", *tool, "power", "on")
    assert "is on" in boxed.rackless("exec", "--", *tool, "power", "status")
    assert json.loads(boxed.rackless("status", "--json"))["servers"][0]["power"] == "on"
    assert [pid for pid in living(space) if b"qemu-system" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    boxed.rackless("destroy", "--yes")
    assert living(space) == [] and left(boxed) == before
    volume = Path(boxed.podman("volume", "inspect", NAME, "--format", "{{.Mountpoint}}").strip())
    assert list((volume / "labs").glob("*boxed*")) == []

    boxed.rackless("uninstall", "--yes")
    assert boxed.podman("volume", "ls", "--quiet") == "" and NAME not in boxed.podman("images")
    assert left(boxed) == before
