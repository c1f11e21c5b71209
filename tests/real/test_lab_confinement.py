"""What a guest that has taken over its QEMU can reach: its own disk, and nothing else of the lab."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rackless.lab.accounts import FIRST, TPM
from tests.real.conftest import PretendHost, kill
from tests.real.test_bmc_lab import SYSTEM, ask

pytestmark = pytest.mark.real

LAB = """\
servers:
  box: {count: 2, role: spare}
  old: {count: 1, role: spare, firmware: bios}
  tpm: {count: 1, role: spare, tpm: true, secure_boot: true}
"""


def qemu(host: PretendHost, server: str) -> int:
    return host.one(f"guest={server},")


def credentials(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(re.split(r":\s+", line, maxsplit=1) for line in lines if ":\t" in line)


def can(host: PretendHost, pid: int, test: str, paths: Iterable[str | Path]) -> list[str]:
    """Which of the paths pass `test` (of `test -r` and the like) for a process in the place of `pid`."""
    owner = credentials(pid)
    user, group = owner["Uid"].split()[0], owner["Gid"].split()[0]
    asked = 'for path in "$@"; do test $TEST "$path" && echo "$path"; done; true'
    done = host.run(
        "nsenter", "-t", str(pid), "-m", "-n", "--",
        "setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--bounding-set=-all", "--no-new-privs",
        "env", f"TEST={test}", "sh", "-c", asked, "sh", *map(str, paths),
    )  # fmt: skip
    return done.stdout.splitlines()


@contextmanager
def serving(host: PretendHost, folder: Path) -> Iterator[str]:
    """A folder, offered to the BMCs of the lab."""
    address = "192.168.111.1"
    server = subprocess.Popen(
        host.enter(
            "nsenter", f"--net={host.folder}/run/lab/net", "--", sys.executable, "-m", "http.server", "8099",
            "--bind", address, "--directory", str(folder),
        ),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"http://{address}:8099"
    finally:
        server.terminate()
        server.wait()


def within(what: Callable[[], object], wanted: object = True) -> None:
    end = time.monotonic() + 240
    while (seen := what()) != wanted:
        assert time.monotonic() < end, seen
        time.sleep(0.2)


def files_in(host: PretendHost, folder: Path) -> set[Path]:
    seen = host.seen(folder)
    return {folder / path.relative_to(seen) for path in seen.rglob("*") if path.is_file()}


SECRETS = ("secrets", "api", "bmc", "ironic", "files", "disks", "media", "logs/console")


@pytest.mark.skipif(shutil.which("swtpm") is None, reason="one of the servers has a TPM, and swtpm is not here")
def test_each_server_runs_as_a_user_of_its_own_that_can_do_nothing(public: PretendHost) -> None:
    host, state = public, public.folder / "state/lab"
    host.seen(host.folder / "lab.yaml").write_text(LAB)
    host.rackless("up", "--file", str(host.folder / "lab.yaml"), "--until", "bmc")
    servers = ("box-0", "box-1", "old-0", "tpm-0")
    for server in servers:
        host.rackless("power", server, "on")
    found = {server: credentials(qemu(host, server)) for server in servers}
    users = {server: status["Uid"].split() for server, status in found.items()}
    assert all(len(set(numbers)) == 1 and int(numbers[0]) >= FIRST for numbers in users.values())
    assert len({numbers[0] for numbers in users.values()}) == len(servers)
    for status in found.values():
        assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {0}
        assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"  # so nothing it starts gets more
        assert set(status["Groups"].split()) <= {status["Gid"].split()[0]}

    assert credentials(host.one("swtpm socket"))["Uid"].split() == [str(TPM)] * 4

    pid = qemu(host, "box-0")
    disks = files_in(host, state / "disks")
    own = {path for path in disks if path.name.startswith("box-0.")}
    assert {path.suffix for path in own} == {".qcow2", ".nvram"}
    inside = Path("/var/lib/libvirt/servers/disks")
    assert set(can(host, pid, "-w", (inside / path.name for path in disks))) == {
        str(inside / path.name) for path in own
    }
    secrets = {path for folder in SECRETS for path in files_in(host, state / folder)}
    assert {"bmc.password", "ca.key", "box-1.log"} <= {path.name for path in secrets}
    assert set(can(host, pid, "-r", secrets)) == set(map(str, own))
    kept = {path for path in files_in(host, state) if "domain-1-box-0" not in path.parts}
    assert set(can(host, pid, "-w", kept)) == set(map(str, own)), "what the lab believes is not for a guest to write"
    sockets = [Path("/run/libvirt", f"libvirt-{name}") for name in ("sock", "sock-ro", "admin-sock")]
    assert can(host, pid, "-e", sockets) == list(map(str, sockets))
    assert can(host, pid, "-w", (*sockets, host.folder / "run/lab/labd.sock")) == []

    # devices of its own: no disk of the computer is among them, and no terminal but its own can be opened
    devices = set(host.run("nsenter", "-t", str(pid), "-m", "--", "ls", "/dev").stdout.split())
    assert devices <= {"full", "kvm", "null", "ptmx", "pts", "random", "shm", "urandom", "zero"}
    terminals = host.run("nsenter", "-t", str(pid), "-m", "--", "ls", "/dev/pts").stdout.split()
    readable = set(can(host, pid, "-r", (Path("/dev/pts", name) for name in terminals if name != "ptmx")))
    ours = {server: host.rackless("exec", "--", "virsh", "ttyconsole", server).stdout.strip() for server in servers}
    # a lab of another test may have a server of the same number: terminals are the computer's, and accounts a pretend host's own
    assert readable & set(ours.values()) == {ours["box-0"]}, ours
    others = [f"/proc/{qemu(host, 'box-1')}/{name}" for name in ("mem", "environ", "fd/0")]
    assert can(host, pid, "-r", others) == []


def opened(pid: int) -> dict[str, str]:
    """The files that a process has open, by name, with where it sees them."""
    found = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            path = Path(os.readlink(link))
            found[path.suffix] = str(path.parent)
    return found


EARLIER = """\
user = "root"
group = "root"
dynamic_ownership = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
"""


def start_as_root(host: PretendHost, server: str) -> None:
    """As earlier versions did: from the paths as the computer sees them, with nobody else's user to run as."""
    disks = host.folder / "state/lab/disks"
    (host.folder / "state/lab/libvirt/etc/qemu.conf").write_text(EARLIER)
    kill(host.one("libvirtd"))
    within(lambda: host.rackless("exec", "--", "virsh", "version", check=False).returncode == 0)
    xml = host.rackless("exec", "--", "virsh", "dumpxml", "--inactive", server).stdout
    xml = re.sub(r"<(seclabel|metadata).*?</\1>", "", xml, flags=re.DOTALL)
    (host.folder / "old.xml").write_text(xml.replace("/var/lib/libvirt/servers/disks", str(disks)))
    host.rackless("exec", "--", "virsh", "define", "old.xml")
    disks.chmod(0o700)
    for path in disks.iterdir():
        path.chmod(0o644)
    host.rackless("exec", "--", "virsh", "start", server)


def test_servers_that_run_as_root_go_on_and_have_a_user_of_their_own_from_the_next_start(host: PretendHost) -> None:
    (host.folder / "lab.yaml").write_text("servers: {box: {count: 1, role: spare}}\n")
    host.rackless("up", "--until", "bmc")
    assert host.status()["warnings"] == []
    start_as_root(host, "box-0")
    pid = qemu(host, "box-0")
    assert credentials(pid)["Uid"].split() == ["0"] * 4
    kill(host.one("rackless.holder.main"))  # as an `up` of another version would
    assert "box-0 runs on as it was" in host.rackless("up", "--until", "bmc").stdout
    assert qemu(host, "box-0") == pid
    assert ["started as root" in warning for warning in host.status()["warnings"]] == [True]

    served = host.folder / "served"
    served.mkdir()
    (served / "cd.iso").write_bytes(bytes(1 << 20))
    with serving(host, served) as url:
        insert = f"{SYSTEM}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
        within(lambda: ask(host, insert, {"Image": f"{url}/cd.iso"}), 204)
    media = host.folder / "state/lab/media"
    assert opened(pid)[".iso"] == str(media), "it does not see what is shown to servers of their own"
    (image,) = media.glob("*.iso")
    assert image.stat().st_mode & 0o007 == 0

    host.rackless("power", "box-0", "cycle")
    pid = qemu(host, "box-0")
    assert int(credentials(pid)["Uid"].split()[0]) >= FIRST
    shown = "/var/lib/libvirt/servers"
    assert {opened(pid)[name] for name in (".qcow2", ".nvram", ".iso")} == {f"{shown}/disks", f"{shown}/media"}
    assert image.stat().st_uid == 0 and image.stat().st_mode & 0o007 == 0
    assert (host.folder / "state/lab/disks/box-0.qcow2").stat().st_mode & 0o777 == 0o600
    assert host.status()["warnings"] == []
