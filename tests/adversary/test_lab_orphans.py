"""Labs whose files somebody deleted: they are found by what runs, ended by proof, and nobody else is touched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.process import identity
from tests.adversary.lab_site import Site, around
from tests.real.conftest import PretendHost, host, kill

__all__ = ["host"]

pytestmark = pytest.mark.real

# a lab as its namespaces show it: made, pinned and marked as the holder does, with two processes in it
_LAB = """\
import os, subprocess, sys
from pathlib import Path
from rackless.lab.mark import render_mark
from rackless.drivers import namespaces as ns, open_drivers
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots
paths = LabPaths(Roots(*map(Path, sys.argv[2:5])), sys.argv[1])
spaces = open_drivers().namespaces
home = spaces.home()
paths.state.mkdir(parents=True); paths.run.mkdir(parents=True)
(paths.state / "disk").write_text("wanted")
ledger = Ledger(paths.ledger)
for folder in (paths.state, paths.run):
    ledger.own("folder", folder)
ledger.own("network-namespace", paths.netns)
paths.netns.touch()
ns.unshare(ns.CLONE_NEWNET); ns.bind(Path("/proc/self/ns/net"), paths.netns)
ns.unshare(ns.CLONE_NEWNS); ns.mount("none", "/", flags=ns.MS_REC | ns.MS_SLAVE)
ns.mount("sysfs", "/sys", filesystem="sysfs")
spaces.write_mark(render_mark(paths, home, spaces.home().mnt))
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
child = subprocess.Popen(["sleep", "600"])
print(child.pid, flush=True)
sys.stdin.read()
"""
# what a container's root can do: write a lab's mark into its own namespace
_FORGED = """\
import json, os, sys, subprocess
from rackless.drivers import namespaces as ns
name, state, run, mnt = sys.argv[1:]
net, mine = (os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("net", "mnt"))
ns.unshare(ns.CLONE_NEWNET); ns.unshare(ns.CLONE_NEWNS)
ns.mount("none", "/", flags=ns.MS_REC | ns.MS_SLAVE); ns.mount("sysfs", "/sys", filesystem="sysfs")
open("/sys/class/net/lo/ifalias", "w").write(json.dumps(["rackless", name, state, run, net, mine, int(mnt)]))
print(os.getpid(), flush=True)
sys.stdin.read()
"""


@dataclass
class Ground:
    host: PretendHost
    stack: ExitStack

    def start(self, *argv: str) -> tuple[int, int]:
        """A program of a line above, until the ground is left: its process, and the one it tells of."""
        words = self.host.enter(sys.executable, "-P", "-c", *argv)
        process = self.stack.enter_context(
            subprocess.Popen(words, env=self.host.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )
        self.stack.callback(process.kill)
        assert process.stdout is not None
        told = int(process.stdout.readline())
        self.stack.callback(_kill_if_still, told, identity(told))
        return process.pid, told

    def lab(self, name: str = "lab", where: str = "") -> tuple[int, ...]:
        folders = [str(self.host.folder / f"{where}{kind}") for kind in ("state", "run", "cache")]
        pids = self.start(_LAB, name, *folders)
        pin = self.host.folder / f"{where}run" / name / "net"
        self.stack.callback(self.host.run, "umount", str(pin), check=False)
        return pids

    def path(self, name: str) -> Path:
        return self.host.folder / name

    def orphans(self) -> list[dict[str, Any]]:
        done = self.host.rackless("destroy", "--orphans", "--dry-run", "--json")
        found: list[dict[str, Any]] = json.loads(done.stdout)["orphans"]
        return found

    def end(self) -> str:
        return self.host.rackless("destroy", "--orphans", "--yes").stdout


def _kill_if_still(pid: int, known: str) -> None:
    if identity(pid) == known:
        kill(pid)


@pytest.fixture
def ground(host: PretendHost) -> Iterator[Ground]:
    with ExitStack() as stack:
        yield Ground(host, stack)


def alive(*pids: int) -> list[bool]:
    return [bool(identity(pid)) for pid in pids]


def test_a_lab_that_is_well_is_no_orphan(ground: Ground) -> None:
    pids = ground.lab()
    assert ground.orphans() == []
    ground.end()
    assert alive(*pids) == [True, True]


def test_a_lab_without_its_ledger_is_listed_examined_and_ended_and_its_disks_are_left(ground: Ground) -> None:
    pids = ground.lab()
    ground.path("state/lab.ledger").unlink()
    (found,) = ground.orphans()
    assert (found["lab"], {one["pid"] for one in found["processes"]}) == ("lab", set(pids))
    assert "lab.ledger is gone" in found["why"]
    (listed,) = json.loads(ground.host.rackless("list", "--json").stdout)
    assert (listed["lab"], listed["daemon"]) == ("lab", "orphan")
    checks = json.loads(ground.host.rackless("doctor", "--json", check=False).stdout)["checks"]
    assert [check["fix"] for check in checks if check["about"] == "orphan"] == ["rackless destroy --orphans"]
    assert "--orphans" in ground.host.rackless("destroy", "--yes").stdout
    done = ground.host.rackless("destroy", "--orphans", check=False)
    assert done.returncode == 2 and alive(*pids) == [True, True], "it asks first"
    ground.end()
    assert alive(*pids) == [False, False]
    assert ground.path("state/lab/disk").exists() and not ground.path("run/lab").exists()
    assert ground.orphans() == []


def test_a_ledger_that_was_truncated_does_not_hide_what_runs(ground: Ground) -> None:
    pids = ground.lab()
    ground.path("state/lab.ledger").write_text("")
    assert "does not list it" in ground.orphans()[0]["why"]
    ground.host.rackless("destroy", "--yes")
    assert alive(*pids) == [False, False] and ground.orphans() == []


def test_a_lab_whose_pin_is_gone_is_not_made_a_second_time_and_is_ended_by_its_name(ground: Ground) -> None:
    pids = ground.lab()
    ground.host.run("umount", "--lazy", str(ground.path("run/lab/net")))
    shutil.rmtree(ground.path("run/lab"))
    refuse = """\
import asyncio
from rackless.drivers import open_drivers
from rackless.operations.orphans import refuse_orphan
from rackless.run.paths import LabPaths, Roots
asyncio.run(refuse_orphan(LabPaths(Roots.from_environment(), "lab"), open_drivers()))
"""
    done = ground.host.run(sys.executable, "-P", "-c", refuse, check=False)
    assert done.returncode and "still runs" in done.stderr
    ground.host.rackless("destroy", "--yes")
    assert alive(*pids) == [False, False]
    assert not ground.path("state").exists(), "its ledger says what is its own"


def test_of_two_labs_with_one_name_under_other_roots_only_the_lost_one_is_ended(ground: Ground) -> None:
    well, lost = ground.lab(), ground.lab(where="elsewhere-")
    ground.path("elsewhere-state/lab.ledger").unlink()
    (found,) = ground.orphans()
    assert found["folder"] == str(ground.path("elsewhere-state/lab"))
    ground.host.rackless("destroy", "--yes", "--name", "other")
    ground.end()
    assert (alive(*well), alive(*lost)) == ([True, True], [False, False])


def test_a_forged_mark_hurts_nobody_but_who_wrote_it(ground: Ground) -> None:
    pids = ground.lab()
    bystander = ground.stack.enter_context(
        subprocess.Popen(["unshare", "--mount", "sleep", "600"], stdin=subprocess.DEVNULL)
    )
    ground.stack.callback(bystander.kill)
    while os.readlink(f"/proc/{bystander.pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
        time.sleep(0.01)
    state, run = str(ground.path("state")), str(ground.path("run"))
    mount = str(os.stat(f"/proc/{bystander.pid}/ns/mnt").st_ino)
    forger, _ = ground.start(_FORGED, "lab", state, run, mount)
    assert [one["processes"][0]["pid"] for one in ground.orphans()] == [forger]
    ground.end()
    assert alive(*pids, bystander.pid, forger) == [True, True, True, False]
    assert ground.path("run/lab/net").exists() and ground.path("state/lab/disk").exists()


def test_labs_of_another_host_are_not_looked_at(ground: Ground) -> None:
    """In a container, or in a test like this one: its files are not to be seen from here, and its lab is well."""
    pids = ground.lab()
    ground.path("state/lab.ledger").unlink()
    inner = ground.host.run(
        "unshare", "--net", "--", sys.executable, "-P", "-m", "rackless", "destroy", "--orphans", "--dry-run", "--json"
    )
    assert json.loads(inner.stdout) == {"orphans": []} and alive(*pids) == [True, True]


def test_the_uplink_of_a_lost_lab_goes_with_it_and_so_do_rules_that_lead_nowhere(host: PretendHost) -> None:
    with around(host) as site:
        ground = Ground(host, site.stack)
        before = site.forwarding(), host.run("nft", "list", "ruleset").stdout
        for name in ("lab", "other"):
            ground.lab(name)
            site.uplink(lab=name)
        link = site.link("other")
        for name in ("lab", "other"):
            ground.path(f"state/{name}.ledger").unlink()
        host.run("ip", "link", "delete", link)
        ground.end()
        assert (site.forwarding(), host.run("nft", "list", "ruleset").stdout) == before
        _leave_rules(site)
        checks = json.loads(host.rackless("doctor", "--json", check=False).stdout)["checks"]
        assert any(check["about"] == "uplinks" for check in checks)
        ground.end()
        assert (site.forwarding(), host.run("nft", "list", "ruleset").stdout) == before


def _leave_rules(site: Site) -> None:
    """A lab with an uplink that was ended by hand: processes, namespace and link are gone, its rules are not."""
    site.make_lab("third")
    site.uplink(lab="third")
    site.host.run("ip", "link", "delete", site.link("third"))
    (site.host.folder / "state/third.ledger").unlink()


def test_a_real_lab_whose_folder_is_deleted_says_so_and_is_ended_with_its_servers(host: PretendHost) -> None:
    before = host.snapshot()
    (host.folder / "lab.yaml").write_text("networks: {uplink: nat}\nservers: {node: {count: 1}}\n")
    host.rackless("up", "--until", "lab")
    host.rackless("power", "node-0", "on")
    labd = host.one("rackless.labd.main")
    assert any("qemu-system" in command for _, command in host.inhabitants())
    (host.folder / "run/lab/labd.sock").unlink()
    deadline = time.monotonic() + 60
    while host.status()["daemon"] != "running":  # a cleaner took the socket: it is made again
        assert time.monotonic() < deadline
        time.sleep(0.5)
    shutil.rmtree(host.folder / "state", ignore_errors=True)
    while f"(process {labd}): somebody deleted" not in subprocess.run(["dmesg"], capture_output=True, text=True).stdout:
        assert time.monotonic() < deadline, "labd did not notice"
        time.sleep(0.5)
    host.rackless("destroy", "--orphans", "--yes")
    assert host.inhabitants() == [] and not identity(labd)
    (host.folder / "lab.yaml").unlink()
    shutil.rmtree(host.folder / "state", ignore_errors=True)
    assert host.snapshot() == before
