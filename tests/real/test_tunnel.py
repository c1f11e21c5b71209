"""From another computer: the `ssh` line that `rackless expose` prints, at a real sshd, brings a BMC to its loopback."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.conftest import debian_program
from tests.real.conftest import PretendHost
from tests.real.spaces import hold

pytestmark = pytest.mark.real

HOST, ELSEWHERE = "10.77.0.1", "10.77.0.2"
PREFIX = "24"
LAB = "servers: {box: {count: 1, role: spare}}\n"
SSHD = """\
ListenAddress {host}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
"""
CLIENT = """\
Host *
    HostName {host}
    IdentityFile {folder}/key
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    ExitOnForwardFailure yes
"""
SERVE = """
mount -t tmpfs none /run && mkdir -m 755 /run/sshd
(cat /etc/passwd; echo 'sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin') >{folder}/passwd
mount --bind {folder}/passwd /etc/passwd
exec env LD_LIBRARY_PATH={libraries} {program} -D -e -f {folder}/sshd.conf
"""


@pytest.fixture
def sshd(host: PretendHost, tmp_path: Path) -> Iterator[Path]:
    """On the pretend host; gives its folder, with what a client needs."""
    program = debian_program("openssh-server", "usr/sbin/sshd")
    library = debian_program("libwrap0", "usr/lib/x86_64-linux-gnu/libwrap.so.0")  # which sshd is linked with
    if program is None or library is None:
        pytest.skip("openssh-server cannot be had here")
    folder = tmp_path / "ssh"
    folder.mkdir()
    for name in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "sshd.conf").write_text(SSHD.format(host=HOST, folder=folder))
    (folder / "client.conf").write_text(CLIENT.format(host=HOST, folder=folder))
    script = SERVE.format(folder=folder, program=program, libraries=library.parent)
    serving = subprocess.Popen(host.enter("unshare", "--mount", "sh", "-e", "-c", script), stdin=subprocess.DEVNULL)
    yield folder
    serving.terminate()
    serving.wait(timeout=30)


@pytest.fixture
def elsewhere(host: PretendHost) -> Iterator[list[str]]:
    """Another computer, on one wire with the pretend host: what a command there begins with."""
    other = hold("--net")
    there = ["nsenter", "-t", str(other.pid), "-n", "--"]
    try:
        host.run("ip", "link", "add", "wire", "type", "veth", "peer", "name", "eth0", "netns", str(other.pid))
        host.run("ip", "address", "add", f"{HOST}/{PREFIX}", "dev", "wire")
        host.run("ip", "link", "set", "wire", "up")
        for command in ("link set lo up", f"address add {ELSEWHERE}/{PREFIX} dev eth0", "link set eth0 up"):
            subprocess.run([*there, "ip", *command.split()], check=True)
        yield there
    finally:
        other.kill()
        other.wait()


def test_the_printed_ssh_line_brings_a_bmc_to_another_computer(
    host: PretendHost, elsewhere: list[str], sshd: Path
) -> None:
    (host.folder / "lab.yaml").write_text(LAB)
    host.rackless("up", "--until", "bmc")
    told = json.loads(host.rackless("expose", "bmc", "--json").stdout)
    (port,) = {one["port"] for one in told["forwards"]}
    word, *line = shlex.split(told["ssh"])
    assert word == "ssh"
    state = host.folder / "state/lab/secrets"
    login = f"admin:{(state / 'bmc.password').read_text().strip()}"
    get = [*elsewhere, "curl", "-sS", "--fail", "--cacert", str(state / "tls/ca.crt"), "-u", login]
    get.append(f"https://127.0.0.1:{port}/redfish/v1/Systems/1")
    assert subprocess.run(get, capture_output=True).returncode != 0, "nothing of the lab is there by itself"
    tunnel = subprocess.Popen([*elsewhere, "ssh", "-F", str(sshd / "client.conf"), *line], stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while (done := subprocess.run(get, capture_output=True, text=True)).returncode != 0:
            assert time.monotonic() < deadline and tunnel.poll() is None, done.stderr
            time.sleep(0.5)
    finally:
        tunnel.terminate()
        tunnel.wait(timeout=30)
    assert json.loads(done.stdout)["PowerState"] == "Off"
