"""What a person and a program do with a lab: interrupt it, look at it without being root, watch its packets, go inside."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from tests.real.conftest import PretendHost
from tests.real.test_lab_life import describe, wait_for

pytestmark = pytest.mark.real

ME = (sys.executable, "-P", "-m", "rackless")
OWNER = "65534"


def begin(host: PretendHost, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        host.enter(*ME, *arguments),
        env=host.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_an_interrupt_says_what_is_left_and_how_to_go_on(host: PretendHost) -> None:
    describe(host, "servers: {node: {count: 1}}\n")
    up = begin(host, "up", "--until", "bmc")
    wait_for(lambda: (host.folder / "state/lab/spec.json").exists())
    time.sleep(0.5)
    up.send_signal(signal.SIGINT)
    _, said = up.communicate(timeout=60)
    assert up.returncode == 130
    assert "the lab lab stays as it is" in said and "MiB in" in said
    assert "`rackless up --name lab` goes on where it was, `rackless destroy --name lab` takes it away" in said
    host.rackless("up", "--until", "bmc")


def test_the_owner_of_a_lab_may_talk_to_it_and_others_may_not(public: PretendHost) -> None:
    public.run("env", f"SUDO_UID={OWNER}", *ME, "up", "--until", "lab")

    def ask(user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        return public.run(*become, *ME, *arguments, check=False)

    found = ask(OWNER, "status", "--json")
    assert found.returncode == 0 and json.loads(found.stdout)["daemon"] == "running"
    assert ask(OWNER, "power", "worker-0", "on").returncode == 0
    stranger = ask("12345", "status")
    assert stranger.returncode == 3 and "only root and the lab's owner" in stranger.stderr and "sudo" in stranger.stderr
    secret = ask(OWNER, "destroy", "--yes")
    assert secret.returncode == 3 and "sudo" in secret.stderr


def test_the_packets_of_a_boot_are_recorded_from_the_first(host: PretendHost) -> None:
    describe(host, "servers: {box: {role: spare, firmware: bios}}\n")
    host.rackless("up", "--until", "lab")
    recording = begin(host, "capture", "box-0", "--cycle", "-o", "boot.pcap", "--json")
    mac = host.rackless("exec", "--", "virsh", "-q", "domiflist", "box-0").stdout.split()[4]
    wire = bytes.fromhex(mac.replace(":", ""))
    file = host.folder / "boot.pcap"
    wait_for(lambda: file.exists() and b"\x63\x82\x53\x63\x35\x01\x01" in file.read_bytes(), within=120)
    recording.send_signal(signal.SIGINT)
    said, _ = recording.communicate(timeout=60)
    assert json.loads(said)["packets"] > 0 and recording.returncode == 0
    assert file.read_bytes()[:4] == b"\xa1\xb2\xc3\xd4" and wire in file.read_bytes(), "its request for an address"


def test_programs_are_told_what_people_would_see(host: PretendHost) -> None:
    describe(host, "servers: {box: {role: spare}}\n")
    host.rackless("up", "--until", "lab")
    done = host.rackless("exec", "--json", "--", "sh", "-c", "virsh -q list --all --name; exit 3", check=False)
    found = json.loads(done.stdout)
    assert done.returncode == found["returncode"] == 3 and found["stdout"].split() == ["box-0"]
    shell = json.loads(host.rackless("shell", "--json").stdout)
    assert shell["argv"][0] == "nsenter" and shell["environment"]["RACKLESS_LAB"] == "lab"
    console = json.loads(host.rackless("console", "box-0", "--json").stdout)
    assert console["terminal"] is None and console["log"].endswith("/box-0.log")
    host.rackless("power", "box-0", "on")
    assert json.loads(host.rackless("console", "box-0", "--json").stdout)["terminal"].startswith("/dev/pts/")
    error = json.loads(host.rackless("ssh", "box-0", "--json", check=False).stdout.splitlines()[-1])["error"]
    assert error["exit_code"] == 4 and "no system yet" in error["what"]
