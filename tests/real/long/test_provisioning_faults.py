"""Every part that a host's way hangs on, out of order: what is said names it, and afterwards the host becomes a node."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from rackless.run.supplies import load_supplies
from tests.real import bootable
from tests.real.breakage import await_phase
from tests.real.conftest import ROOT, PretendHost
from tests.real.test_lab_life import start, wait_for

pytestmark = [pytest.mark.real, pytest.mark.long]

LAB = "servers: {node: {role: worker, count: 1, memory: 1GiB}}\n"
UP = 1500
GATEWAY, PORT = "192.168.111.1", 8099
PROVISIONING = ("provisioning", "provisioning")
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


def begin(host: PretendHost, *until: str) -> None:
    (host.folder / "lab.yaml").write_text(LAB)
    host.rackless("up", *until, timeout=UP)


def require_node(host: PretendHost) -> None:
    (server,) = host.status()["servers"]
    assert (server["power"], server["host"], server["node"]) == ("on", "provisioned", "up")


def pids(host: PretendHost, command: str) -> list[int]:
    return [pid for pid, line in host.inhabitants() if command in line]


def await_adopted(database: Path, within: float = 120) -> None:
    deadline, seen = time.monotonic() + within, []
    while time.monotonic() < deadline:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as ironic:
            seen = ironic.execute("SELECT name, provision_state FROM nodes").fetchall()
        if seen == [("node-0", "active")]:
            return
        time.sleep(0.5)
    pytest.fail(f"the host was not adopted: Ironic has {seen}")


def test_hosts_that_ironic_has_forgotten_are_adopted_and_nothing_is_installed_again(host: PretendHost) -> None:
    begin(host)
    booted = host.rackless("ssh", "node-0", "--", BOOT_ID).stdout
    (qemu,) = pids(host, "qemu-system-x86_64")

    database = host.folder / "state/lab/ironic/ironic.sqlite"
    database.unlink()
    for pid in pids(host, "ironic: "):
        os.kill(pid, signal.SIGKILL)

    done = host.rackless("up", timeout=UP)
    assert "its database was gone" in done.stdout
    await_adopted(database)
    require_node(host)
    assert pids(host, "qemu-system-x86_64") == [qemu]
    assert host.rackless("ssh", "node-0", "--", BOOT_ID).stdout == booted


def told(done: subprocess.CompletedProcess[str], phase: str, kind: str, *names: str) -> None:
    """The failure has the host, its phase, the kind, what is wrong by name, and what was seen of the server."""
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 6, said
    missing = [words for words in (f"host node-0 failed while {phase}", f"{kind} error: ", "seen so far: ", *names)
               if words not in said]  # fmt: skip
    assert missing == [], said


def change_fault(host: PretendHost, *fault: str) -> None:
    """The new one is there before the old one goes: the host is tried again in between."""
    old = [str(fault["id"]) for fault in json.loads(host.rackless("bmc", "fault", "list", "--json").stdout)]
    host.rackless("bmc", "fault", "add", *fault, "--server", "node-0")
    if old:
        host.rackless("bmc", "fault", "clear", *old)


def await_told(host: PretendHost, phase: str, kind: str, *names: str, within: float = 300) -> None:
    """The host fails so, at one of its next tries; as `told`, of what stands in its record."""
    deadline, status = time.monotonic() + within, {}
    while time.monotonic() < deadline:
        status = record(host).get("status", {})
        message = status.get("errorMessage", "")
        if all(words in message for words in ("seen so far: ", *names)):
            assert (status["provisioning"]["state"], status["errorType"]) == (phase, f"{kind} error")
            return
        if message:  # of another failure, which need not be waited for
            host.rackless("host", "retry", "node-0", "--no-wait", check=False)
        time.sleep(1)
    pytest.fail(f"{names} were not told, but {status}")


def test_a_bmc_that_refuses_fails_to_fetch_or_does_not_switch_is_named_and_then_obeyed(host: PretendHost) -> None:
    begin(host, "--until", "engine")
    change_fault(host, "wrong-password")
    done = host.rackless("up", check=False, timeout=UP)
    told(done, "registering", "registration", "the BMC does not let us in", "https://192.168.112.20")
    for fault, phase, kind, *names in (
        (
            "refuse",
            "registering",
            "registration",
            "the BMC answers with an error of its own",
            "503",
            "https://192.168.112.20",
        ),
        ("drop", "registering", "registration", "the BMC does not answer", "https://192.168.112.20"),
        ("failing-media", "inspecting", "inspection", "the BMC could not take in the image", "; no virtual media"),
        ("stuck-power", "inspecting", "inspection", "the server did not switch", "seen so far: power off"),
    ):
        change_fault(host, fault)
        await_told(host, phase, kind, *names)
    host.rackless("bmc", "fault", "clear")
    host.rackless("up", timeout=UP)
    require_node(host)


@contextmanager
def obstacle(host: PretendHost, what: str) -> Iterator[None]:
    """Packets from the servers that match are thrown away."""
    host.rackless(
        "exec",
        "--",
        "nft",
        "add table inet obstacle; add chain inet obstacle arriving { type filter hook input priority -10; }",
    )
    host.rackless("exec", "--", "nft", f"add rule inet obstacle arriving iifname != lo {what} drop")
    yield
    host.rackless("exec", "--", "nft", "delete table inet obstacle")


def await_error(host: PretendHost, running: Future[subprocess.CompletedProcess[str]], within: float) -> dict[str, Any]:
    """The status of the host, at its next failure."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline and not running.done():
        status: dict[str, Any] = record(host).get("status", {})
        if status.get("errorType"):
            return status
        time.sleep(1)
    done = running.result() if running.done() else None
    pytest.fail(f"the host never failed\n{done}")


def record(host: PretendHost) -> dict[str, Any]:
    found: list[dict[str, Any]] = json.loads(host.rackless("host", "list", "--json").stdout)
    return found[0] if found else {}


def test_an_agent_that_cannot_call_is_told_with_how_far_its_server_came_and_up_goes_on(host: PretendHost) -> None:
    begin(host, "--until", "engine")
    with ThreadPoolExecutor(1) as background:
        with obstacle(host, "tcp dport 6385"):
            running = background.submit(host.rackless, "up", check=False, timeout=3000)
            status = await_error(host, running, within=1500)
        done = running.result()
    assert status["errorType"] == "inspection error" and status["provisioning"]["state"] == "inspecting"
    message = status["errorMessage"]
    assert message.startswith("the agent on the server was not heard of in time: ")
    for words in ("power on", "virtual media http://", "DHCP gave 192.168.111.20", "a kernel started",
                  "the agent never called", "last on the console:"):  # fmt: skip
        assert words in message, message
    assert done.returncode == 0, done.stdout + done.stderr
    require_node(host)


@contextmanager
def image_server(host: PretendHost, image: Path) -> Iterator[str]:
    """Where `odd_images` offers this file inside the lab."""
    (labd,) = pids(host, "rackless.labd.main")
    command = [sys.executable, "-m", "tests.real.odd_images", str(image), GATEWAY, str(PORT)]
    process = subprocess.Popen(
        ["nsenter", "-t", str(labd), "-m", "-n", f"--wd={ROOT}", "--", *command],
        env=host.environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield f"http://{GATEWAY}:{PORT}"
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def cut_off_node_image(host: PretendHost) -> Callable[[], None]:
    """The lab's file server offers half of the node image; the answer puts it right."""
    supplies = load_supplies(host.folder / "state/lab/supplies.json")
    offered = host.folder / f"state/lab/files/node-{supplies.node_sha256[:16]}.qcow2"
    with supplies.node.open("rb") as whole:
        offered.write_bytes(whole.read(supplies.node.stat().st_size // 2))
    return offered.unlink


def test_an_image_server_that_lies_fails_or_stalls_is_named_and_so_is_a_disk_too_small(host: PretendHost) -> None:
    begin(host, "--until", "engine")
    put_right = cut_off_node_image(host)
    with start(host, "up") as up:
        try:
            await_told(host, *PROVISIONING, "the image is not the one its checksum says", "fetched /node-", within=UP)
        finally:
            up.terminate()

    image = bootable.partitioned_disk(host.folder, "MYDISK")
    checksum = hashlib.sha256(image.read_bytes()).hexdigest()
    with image_server(host, image) as server:
        for path, *names in (
            ("gone.raw", "the image could not be fetched", "404"),
            ("broken.raw", "the image could not be fetched", "500"),
            ("stalls.raw", "the server of the image stopped in the middle of it"),
            ("other.raw", "the image is not the one its checksum says", checksum),
        ):
            wish = ("--image", f"{server}/{path}", "--checksum", checksum, "--replace")
            done = host.rackless("host", "provision", "node-0", *wish, check=False, timeout=UP)
            told(done, *PROVISIONING, path, *names)

    huge = host.folder / "huge.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(huge), "1T"], check=True)
    done = host.rackless("host", "provision", "node-0", "--image", str(huge), "--replace", check=False, timeout=UP)
    told(done, *PROVISIONING, "the server's disk is too small for the image")

    put_right()
    host.rackless("host", "deprovision", "node-0", "--yes")
    host.rackless("up", timeout=UP)
    require_node(host)


def test_a_machine_whose_disk_fills_up_is_named_and_with_room_again_up_goes_on(host: PretendHost) -> None:
    storage = host.folder / "small"
    storage.mkdir()
    host.run("mount", "-t", "tmpfs", "-o", "size=4g", "small", str(storage))
    (host.folder / "lab.yaml").write_text(f"storage: {storage}\n{LAB}")
    with ThreadPoolExecutor(1) as background:
        running = background.submit(host.rackless, "up", check=False, timeout=3000)
        await_phase(host, "inspecting", running)
        host.run("fallocate", "-l", str((4 << 30) - (100 << 20)), str(storage / "filler"))
        status = await_error(host, running, within=1500)
        host.run("rm", str(storage / "filler"))
        done = running.result()
    assert status["errorType"] == "provisioning error" and status["provisioning"]["state"] == "provisioning"
    assert "there is no room left on this computer for the servers' disks" in status["errorMessage"]
    assert "seen so far: power on" in status["errorMessage"]
    assert done.returncode == 0, done.stdout + done.stderr
    require_node(host)

    # once more, under a node that writes: it stops where it is, and goes on by itself
    room = shutil.disk_usage(f"/proc/{host.pid}/root{storage}").free
    host.run("fallocate", "-l", str(room - (300 << 20)), str(storage / "filler"))
    fill = "dd if=/dev/zero of=/var/tmp/much bs=1M count=1200 oflag=direct"
    host.rackless("ssh", "node-0", "--", f"sudo systemd-run --collect {fill}")
    wait_for(lambda: "paused" in host.rackless("exec", "--", "virsh", "domstate", "node-0").stdout, 300)
    host.run("rm", str(storage / "filler"))
    wait_for(lambda: "running" in host.rackless("exec", "--", "virsh", "domstate", "node-0").stdout, 60)
    assert "node-0 goes on: there is room for its disk again" in host.rackless("events").stdout
    assert host.rackless("ssh", "node-0", "--", "test -s /var/tmp/much && echo there").stdout.strip() == "there"
