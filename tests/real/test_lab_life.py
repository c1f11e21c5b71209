"""The life of a lab: killed at any moment, stopped, changed, looked at, mistreated; and always a way on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.real.conftest import PretendHost, kill

pytestmark = pytest.mark.real

SMALL = "servers: {node: {count: 2}}\n"


def describe(host: PretendHost, text: str) -> None:
    (host.folder / "lab.yaml").write_text(text)


def start(host: PretendHost, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["nsenter", "-t", str(host.pid), "-m", "-n", f"--wd={host.folder}", "--",
         sys.executable, "-P", "-m", "rackless", *arguments],
        env=host.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def wait_for(what: Callable[[], bool], within: float = 120) -> None:
    deadline = time.monotonic() + within
    while not what():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.1)


def test_up_goes_on_wherever_it_or_a_part_of_the_lab_was_killed(host: PretendHost) -> None:
    """Seeded: the same moments and victims every time."""
    before = host.snapshot()
    describe(host, SMALL)
    chance = random.Random(7)
    for _ in range(5):
        up = start(host, "up", "--until", "bmc")
        time.sleep(chance.uniform(0.3, 2.0))
        victims = [pid for pid, _ in host.inhabitants()]
        for pid in chance.sample(victims, k=min(len(victims), chance.randint(0, 3))):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        up.kill()
        up.wait()
    host.rackless("up", "--until", "bmc")
    plan = json.loads(host.rackless("plan", "--until", "bmc", "--json").stdout)
    assert {action["verb"] for action in plan["actions"]} == {"keep"}
    assert [server["power"] for server in host.status()["servers"]] == ["off", "off"]
    host.rackless("destroy", "--yes")
    (host.folder / "lab.yaml").unlink()
    assert host.snapshot() == before


def test_two_at_once_do_not_meet(host: PretendHost) -> None:
    describe(host, SMALL)
    first = start(host, "up", "--until", "lab")
    lock = host.folder / "state" / "lab.lock"
    wait_for(lambda: lock.exists() and lock.read_text() != "")
    second = host.rackless("up", "--until", "lab", "--json", check=False)
    assert second.returncode == 4
    assert "another rackless is working" in json.loads(second.stdout.splitlines()[-1])["error"]["what"]
    assert first.wait() == 0


def test_a_stopped_lab_comes_back_with_the_servers_that_were_on(host: PretendHost) -> None:
    describe(host, SMALL)
    host.rackless("up", "--until", "bmc")
    host.rackless("power", "node-1", "on")
    picture = json.loads(host.rackless("screenshot", "node-1", "--json").stdout)
    assert (host.folder / picture["file"]).read_bytes().startswith(b"\x89PNG")
    host.rackless("down", "--force")
    assert host.inhabitants() == []
    assert json.loads(host.rackless("list", "--json").stdout)[0]["daemon"] == "stopped"
    host.rackless("up", "--until", "bmc")
    assert {server["name"]: server["power"] for server in host.status()["servers"]} == {"node-0": "off", "node-1": "on"}

    host.rackless("down", "--force")
    owner = host.folder / "state/lab/owner"
    owner.write_text("nobody's number")  # of which no daemon can make anything
    done = host.rackless("up", "--until", "bmc", check=False)
    assert done.returncode == 4
    assert "the lab's daemon ends whenever it starts" in done.stderr and "nobody's number" in done.stderr
    owner.unlink()
    host.rackless("up", "--until", "lab")


def test_a_running_server_goes_on_while_libvirtd_dies_and_the_network_changes(host: PretendHost) -> None:
    describe(host, SMALL)
    host.rackless("up", "--until", "bmc")
    host.rackless("power", "node-0", "on")
    qemu = [pid for pid, command in host.inhabitants() if "qemu-system" in command]
    kill(host.one("libvirtd"))
    describe(
        host,
        SMALL.replace("}}", ", memory: 1200MiB}, more: {count: 1}}")
        + "networks: {dns: {records: {x: 192.168.111.77}}}\n",
    )
    done = host.rackless("up", "--until", "bmc")
    assert "counts from its next start" in done.stdout
    assert [pid for pid, command in host.inhabitants() if "qemu-system" in command] == qemu
    assert "192.168.111.77" in host.rackless("exec", "--", "getent", "hosts", "x.lab.rackless.test").stdout
    plugged = host.rackless("exec", "--", "bridge", "link").stdout
    assert "vnet" in plugged and plugged.count("master virbr0") == 2, "the running server is on the new bridge"
    assert {server["name"] for server in host.status()["servers"]} == {"node-0", "node-1", "more-0"}


def test_dhcp_and_names_come_back_by_themselves(host: PretendHost) -> None:
    describe(host, SMALL)
    host.rackless("up", "--until", "lab")
    kill(*(pid for pid, command in host.inhabitants() if "dnsmasq" in command))
    ask = ["exec", "--", "getent", "hosts", "node-0.lab.rackless.test"]
    wait_for(lambda: host.rackless(*ask, check=False).returncode == 0)

    def told() -> bool:
        (part,) = [part for part in host.status()["parts"] if part["name"] == "dnsmasq of cluster"]
        return bool(part["running"] and part["restarts"] >= 1)

    wait_for(told)  # it answers before it is counted
    assert "dnsmasq of cluster was started again" in host.rackless("status").stdout


def test_servers_are_replaced_and_removed_only_when_asked(host: PretendHost) -> None:
    describe(host, SMALL)
    host.rackless("up", "--until", "bmc")
    describe(host, "servers: {node: {count: 1, extra_disks: [1GiB]}}\n")
    assert host.rackless("up", "--until", "bmc", check=False).returncode == 4
    host.rackless("up", "--until", "bmc", "--replace")
    disks = sorted(path.name for path in (host.folder / "state/lab/disks").glob("*.qcow2"))
    assert disks == ["node-0-disk1.qcow2", "node-0.qcow2"]
    describe(host, "networks: {cluster: {cidr: 10.7.0.0/24}}\nservers: {node: {count: 1}}\n")
    host.rackless("up", "--until", "bmc", "--replace")
    assert host.status()["servers"][0]["address"] == "10.7.0.20"


def test_disks_elsewhere_go_with_the_lab_and_so_do_the_folders_made_for_them(host: PretendHost) -> None:
    before = host.snapshot()
    describe(host, f"storage: {host.folder}/far/away\n{SMALL}")
    host.rackless("up", "--until", "lab")
    assert len(list((host.folder / "far/away/lab").glob("*.qcow2"))) == 2
    host.rackless("destroy", "--yes")
    (host.folder / "lab.yaml").unlink()
    assert host.snapshot() == before


def test_a_lab_is_made_whole_again_after_a_reboot_of_the_machine(host: PretendHost) -> None:
    describe(host, SMALL)
    host.rackless("up", "--until", "bmc")
    host.rackless("power", "node-0", "on")
    host.rackless("power", "node-1", "on")
    host.rackless("power", "node-1", "off")
    powered = host.folder / "state/lab/powered"
    wait_for(lambda: powered.exists() and powered.read_text() == "node-0")
    kill(*(pid for pid, _ in host.inhabitants()))
    host.run("umount", str(host.folder / "run/lab/net"))
    host.run("rm", "-r", str(host.folder / "run"))  # what a reboot does to /run
    host.rackless("up", "--until", "bmc")
    assert {server["name"]: server["power"] for server in host.status()["servers"]} == {"node-0": "on", "node-1": "off"}
    host.rackless("power", "node-0", "off")
    kill(host.one("rackless.labd.main"))  # that is no restart of the computer: what is off stays off
    host.rackless("up", "--until", "bmc")
    assert {server["power"] for server in host.status()["servers"]} == {"off"}


def test_what_is_gathered_tells_much_and_no_secret(host: PretendHost) -> None:
    describe(host, SMALL)
    host.rackless("up", "--until", "bmc")
    secret = (host.folder / "state/lab/secrets/bmc.password").read_text().strip()
    (host.folder / "state/lab/logs/odd.log").write_text(f"somebody logged {secret}\n")
    found = json.loads(host.rackless("gather", "--json").stdout)
    with tarfile.open(host.folder / found["file"]) as archive:
        texts = {m.name: (archive.extractfile(m) or open(os.devnull, "rb")).read() for m in archive.getmembers()}
    assert {"rackless-lab/spec.json", "rackless-lab/doctor.json", "rackless-lab/logs/events.jsonl"} <= set(texts)
    assert b"node-0" in texts["rackless-lab/inside/servers.txt"]
    assert b"(secret)" in texts["rackless-lab/logs/odd.log"]
    assert not any(secret.encode() in text for text in texts.values())


def test_a_disk_that_fills_up_is_noticed_and_one_without_room_refused(host: PretendHost) -> None:
    storage = host.folder / "small"
    storage.mkdir()
    host.run("mount", "-t", "tmpfs", "-o", "size=1g", "small", str(storage))
    before = host.snapshot()
    describe(host, f"storage: {storage}\nservers: {{node: {{count: 1}}}}\n")
    done = host.rackless("up", "--until", "lab", check=False)
    assert done.returncode == 3 and "1.0 GiB are free" in done.stderr and "storage:" in done.stderr
    (host.folder / "lab.yaml").unlink()
    assert host.snapshot() == before, "nothing half made"
    describe(host, f"storage: {storage}\nservers: {{node: {{count: 1}}}}\n")
    host.run("mount", "-o", "remount,size=4g", str(storage))
    host.rackless("up", "--until", "lab")
    assert host.status()["warnings"] == []
    host.run("mount", "-o", "remount,size=1g", str(storage))
    wait_for(lambda: host.status()["warnings"] != [])
    assert "MiB are free" in host.status()["warnings"][0]
    assert "servers pause when there is none left" in host.rackless("events").stdout


def test_too_little_memory_is_said_before_anything_is_made(host: PretendHost) -> None:
    before = host.snapshot()
    describe(host, "servers: {node: {count: 4, memory: 900GiB}}\n")
    done = host.rackless("up", "--until", "lab", check=False)
    assert done.returncode == 3 and "more than the" in done.stderr and "memory_overcommit" in done.stderr
    (host.folder / "lab.yaml").unlink()
    assert host.snapshot() == before
