"""What a person and a program do with a lab: interrupt it, look at it without being root, watch its packets, go inside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real.conftest import PretendHost
from tests.real.test_lab_life import describe, wait_for

pytestmark = pytest.mark.real

ME = (sys.executable, "-P", "-m", "rackless")
OWNER = "65534"
RAW = """
import socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect("/srv/run/lab/labd.sock")
head = f"POST /{sys.argv[1]} HTTP/1.1\\r\\nHost: labd\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n"
line.sendall(head.encode())
while data := line.recv(65536):
    print(data.decode(errors="replace"))
"""
LOOK = """
import json, sys, urllib.request as u
browser, page = u.build_opener(u.HTTPCookieProcessor()), sys.argv[1].partition('/?')[0]
print(browser.open(sys.argv[1]).read()[:15])
print(browser.open(page + '/api/labs/lab/servers/box-0/screen').read()[:4])
asked = json.dumps({'network': 'cluster', 'seconds': 2}).encode()
headers = {'Content-Type': 'application/json', 'Origin': page}
print(browser.open(u.Request(page + '/api/labs/lab/servers/box-0/capture', asked, headers)).read()[:4])
"""
"""A browser's way to the page, a screen and packets, without a browser."""


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


@dataclass
class Owned:
    host: PretendHost

    def command(self, *arguments: str) -> list[str]:
        become = ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups", "--bounding-set=-all"]
        return [*become, "--no-new-privs", "env", "HOME=/srv/home", *ME, *arguments]

    def rackless(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.host.run(*self.command(*arguments), check=check, timeout=120)


@pytest.fixture
def owned(public: PretendHost) -> Owned:
    """A lab with BMCs whose owner is an ordinary user, with a folder of their own."""
    (public.seen(public.folder) / "lab.yaml").write_text("servers: {box: {role: spare, firmware: bios}}\n")
    home = public.seen(public.folder / "home")
    home.mkdir()
    os.chown(home, int(OWNER), int(OWNER))
    secret = public.seen(public.folder / "secret.iso")
    secret.write_bytes(b"\0" * 0x8001 + b"CD001" + b"only root reads this" * 200)
    secret.chmod(0o600)
    own = home / "own.iso"
    own.write_bytes(b"\0" * 0x8001 + b"CD001" + b"everybody reads this" * 200)
    public.run("env", f"SUDO_UID={OWNER}", *ME, "up", "-f", "/srv/lab.yaml", "--until", "bmc")
    return Owned(public)


def test_the_owner_works_with_a_lab_without_root(owned: Owned) -> None:
    inside = json.loads(
        owned.rackless("exec", "--json", "--", "sh", "-c", "id -u; ip -o link; cat /etc/resolv.conf").stdout
    )
    assert inside["returncode"] == 0 and inside["stdout"].startswith(f"{OWNER}\n")
    assert "virbr0" in inside["stdout"] and "192.168.111.1" in inside["stdout"], "the lab's network, and its resolver"
    config = json.loads(owned.rackless("exec", "--", "sh", "-c", "cat $KUBECONFIG").stdout)
    assert config["clusters"][0]["cluster"]["server"] == "https://192.168.111.1:6443"
    kept = [file for file in Path("/tmp").glob("rackless-*") if file.stat().st_uid == int(OWNER)]
    assert kept == [], "taken away afterwards"
    assert "rackless-lab" in owned.rackless("kubeconfig").stdout
    owned.rackless("power", "box-0", "on")
    owned.rackless("screenshot", "box-0", "-o", "/srv/home/box.png")
    recorded = json.loads(
        owned.rackless("capture", "box-0", "-o", "/srv/home/box.pcap", "--cycle", "--seconds", "20", "--json").stdout
    )
    home = owned.host.seen(owned.host.folder / "home")
    assert recorded["packets"] > 0 and (home / "box.pcap").read_bytes()[:4] == b"\xa1\xb2\xc3\xd4"
    assert (home / "box.png").read_bytes()[:4] == b"\x89PNG" and {
        file.stat().st_uid for file in home.iterdir() if file.name != "own.iso"
    } == {int(OWNER)}
    console = json.loads(owned.rackless("console", "box-0", "--json").stdout)
    assert console["terminal"].startswith("/dev/pts/") and console["log"].endswith("/box-0.log")
    assert owned.rackless("why", check=False).returncode in (0, 10)
    assert json.loads(owned.rackless("host", "list", "-o", "json").stdout) == [], "none is registered yet"
    assert json.loads(owned.rackless("bmc", "boot", "box-0", "network", "--json").stdout)["boot"] == "network"
    assert "no node has a system yet" in owned.rackless("ssh", "box-0", check=False).stderr
    command = owned.host.enter(*owned.command("web", "--json"))
    web = subprocess.Popen(command, env=owned.host.environment, stdout=subprocess.PIPE, text=True)
    try:
        assert web.stdout is not None
        page = json.loads(web.stdout.readline())["url"]
        shown, screen, packets = owned.host.run(sys.executable, "-c", LOOK, page).stdout.splitlines()
        assert "<!doctype html>" in shown and "PNG" in screen and packets == r"b'\xa1\xb2\xc3\xd4'"
    finally:
        web.terminate()
        web.communicate(timeout=30)


def test_the_owner_reads_no_file_of_roots_by_way_of_a_lab(owned: Owned) -> None:
    secret, own = "/srv/secret.iso", "/srv/home/own.iso"
    refused = owned.rackless("exec", "--", "cat", secret, check=False)
    assert refused.returncode == 1 and "Permission denied" in refused.stderr
    for program in (
        "sudo -n true",
        "unshare --net true",
        "virsh -c qemu:///system list",
        "cat /srv/state/lab/secrets/bmc.password",
    ):
        assert owned.rackless("exec", "--", "sh", "-c", program, check=False).returncode != 0, program
    kvm = owned.rackless("exec", "--", "sh", "-c", "test -w /dev/kvm && echo open || echo closed").stdout
    outside = owned.host.run(
        "setpriv", f"--reuid={OWNER}", "--clear-groups", "sh", "-c", "test -w /dev/kvm && echo open || echo closed"
    )
    assert kvm == outside.stdout, "what servers may open is not opened to their owner"
    link = owned.host.seen(owned.host.folder / "home") / "link.iso"
    link.symlink_to(secret)
    ways = (
        ["bmc", "media", "insert", "box-0"],
        ["host", "provision", "box-0", "--image"],
        ["host", "adopt", "box-0", "--image"],
    )
    for way in ways:
        for path in (secret, "/srv/home/link.iso", f"/proc/self/root{secret}", f"/srv/home/../{Path(secret).name}"):
            given = owned.rackless(*way, path, check=False)
            assert given.returncode == 2 and "Permission denied" in given.stderr, (way, path)
    # asked without our own command, which looks first: the daemon knows no file by a path of this computer
    ask = (
        "import asyncio, sys; from pathlib import Path; from rackless.events import Bus; "
        "from rackless.protocol import messages as say; from rackless.protocol.client import ControlClient; "
        "asyncio.run(ControlClient(Path('/srv/run/lab/labd.sock')).work("
        "say.INSERT_MEDIA, say.InsertMedia('box-0', sys.argv[1]), Bus()))"
    )
    become = owned.command()[: -len(ME)]
    for path in (secret, f"file://{secret}", f"/sent/../..{secret}"):
        done = owned.host.run(*become, sys.executable, "-P", "-c", ask, path, check=False)
        assert done.returncode != 0 and "is not offered to the lab" in done.stderr, path
    owned.rackless("bmc", "media", "insert", "box-0", own)
    shown = json.loads(owned.rackless("bmc", "show", "box-0", "--json").stdout)
    assert "image-" in shown["seen"]["media"]
    picture = owned.rackless("screenshot", "box-0", "-o", "/srv/state/lab/secrets/x.png", check=False)
    assert picture.returncode != 0 and not owned.host.seen(Path("/srv/state/lab/secrets/x.png")).exists()
    for words in (["capture", "box-0", "--seconds", "1"], ["kubeconfig"], ["export", "ansible"]):
        for place in (secret, "/srv/state/lab/spec.json"):
            refused = owned.rackless(*words, "-o", place, check=False)
            assert refused.returncode == 2 and "Traceback" not in refused.stderr, (words, refused.stderr)
    assert b"only root" in owned.host.seen(Path(secret)).read_bytes()
    assert "worker" not in owned.host.seen(Path("/srv/state/lab/spec.json")).read_text()
    for request in ("console/..%2F..%2Fspec.json/10", "console/box-0%2F..%2F..%2Fspec.json/10", "offer/..%2Fx"):
        found = owned.host.run(*become, sys.executable, "-P", "-c", RAW, request).stdout
        assert "servers" not in found and ("there is no server" in found or "404" in found), request


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
