"""Faults planted in the programs of a node, and what these write: Ignition and etcd as Debian has them, and our VIP.

`python -m tests.real.planting_node FOLDER` records it; `tests/diagnosis/data` is what it wrote. The programs are unpacked from
their packages into a folder that goes with the run, and live in network namespaces of their own, where only loopback and the
pair of NICs between them are. A slow disk is made by holding up every fdatasync (strace), another clock by a relay between two
members that changes the time a member tells its peer.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

from rackless.node.vip.address import MovingAddress
from rackless.node.vip.holding import VipHolder, VipRecord

PACKAGES = ("etcd-server", "etcd-client", "ignition", "libblkid1")
_STRANGER = "02:00:00:00:00:66"
IGNITION = "usr/lib/dracut/modules.d/30ignition/ignition"
_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")
_WITHIN = 90.0
_NODE_INIT = Path(__file__).parents[2] / "src/rackless/images/files/node/init"


def unpack(scratch: Path) -> Path:
    """The programs as Debian has them, in a folder."""
    debs, root = scratch / "debs", scratch / "root"
    debs.mkdir()
    subprocess.run(["apt-get", "-qq", "download", *PACKAGES], cwd=debs, check=True, stderr=subprocess.DEVNULL)
    for deb in sorted(debs.iterdir()):
        subprocess.run(["dpkg-deb", "-x", deb, root], check=True)
    return root


def _environment(root: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(str(root / place) for place in _LIBRARIES), **more}


def _await(done: Callable[[], bool], what: str, within: float = _WITHIN) -> None:
    deadline = time.monotonic() + within
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.1)


@contextmanager
def _running(argv: Sequence[str | Path], log: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """In a session of its own: strace and what it holds are ended together."""
    with log.open("wb") as sink:
        process = subprocess.Popen(argv, stdout=sink, stderr=sink, env=environment, start_new_session=True)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# Ignition


def plant_ignition(root: Path, scratch: Path, folder: Path) -> None:
    url = "http://127.0.0.1:18099/motd"
    hasty = {"ignition": {"version": "3.3.0", "timeouts": {"httpTotal": 6}}}
    fetched = {**hasty, "storage": {"files": [{"path": "/etc/motd", "contents": {"source": url}}]}}
    stages = partial(_ignition, root, scratch)
    _keep_ignition(folder / "console-ignition-refused.log", stages(json.dumps(fetched)))
    with web_server(18099):
        _keep_ignition(folder / "console-ignition-missing.log", stages(json.dumps(fetched)))
    _keep_ignition(folder / "console-ignition-invalid.log", stages('{"ignition": {"version": "3.3.0"}, "storage": {'))


def _ignition(root: Path, scratch: Path, config: str) -> tuple[str, str]:
    """The stage that failed, and its log."""
    given, sysroot, cache = scratch / "config.ign", scratch / "sysroot", scratch / "ignition.json"
    given.write_text(config)
    sysroot.mkdir(exist_ok=True)
    cache.unlink(missing_ok=True)
    for stage in ("fetch", "files"):
        done = subprocess.run(
            [root / IGNITION, f"--root={sysroot}", "--platform=file", f"--stage={stage}", f"--config-cache={cache}",
             "--log-to-stdout"],
            env=_environment(root, IGNITION_CONFIG_FILE=str(given)), capture_output=True, text=True, timeout=_WITHIN,
        )  # fmt: skip
        if done.returncode:
            return stage, (done.stdout + done.stderr).replace(str(sysroot), "").replace(str(scratch), "/run")
    raise AssertionError("Ignition was content")


def _keep_ignition(target: Path, failed: tuple[str, str]) -> None:
    """As the node's init passes it on to the console: which lines is told there."""
    stage, log = failed
    wanted = re.search(r"grep -E '([^']+)' \"/run/ignition", _NODE_INIT.read_text())
    assert wanted is not None
    lines = [line for line in log.splitlines() if re.search(wanted[1], line)][-8:]
    said = [*(f"ignition: {line}" for line in lines), f"FAILED: Ignition, stage {stage}, platform openstack"]
    head = "[    0.000000] Linux version 6.1.0\n"
    target.write_text(head + "".join(f"[   {9 + n}.500000] [node {9 + n}.50] {line}\n" for n, line in enumerate(said)))


class NoFile(BaseHTTPRequestHandler):
    """A server that has no file."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def web_server(port: int) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", port), NoFile) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


# etcd


def plant_etcd(root: Path, scratch: Path, folder: Path) -> None:
    slow = ("strace", "-f", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_exit=1300000")
    with etcd_members(root, scratch / "disk", {3: slow}) as members:
        _await(lambda: members[3].read_text().count("sync duration") > 1, "etcd to notice its slow disk")
        keys = count()

        def noticed() -> bool:  # several writes may go to the disk at once
            _put(root, f"k{next(keys)}")
            return members[3].read_text().count("sync duration") > 4

        _await(noticed, "etcd to notice its slow disk again")
        _keep(members[3], scratch, folder / "etcd-disk-slow.log")
        _keep(members[1], scratch, folder / "etcd-well.log")
    with etcd_members(root, scratch / "member", {}) as members:
        _await(lambda: _leader(members) != 0, "etcd to elect a leader")
        said = members[_leader(members)]
        pid = int(said.with_suffix(".pid").read_text())
        for _ in range(4):  # one that gets no processor for a while, and is not gone for so long that another leads
            os.kill(pid, signal.SIGSTOP)
            time.sleep(2)
            os.kill(pid, signal.SIGCONT)
            time.sleep(2)
        _await(
            lambda: said.read_text().count("failed to send out heartbeat on time") > 2, "etcd to notice that it is late"
        )
        _keep(said, scratch, folder / "etcd-member-slow.log")
        (folder / "journal-localhost-v6.log").write_text(_ask_localhost(root, scratch))
    with (
        _relay(12380, ("127.0.0.3", 2380)),
        etcd_members(root, scratch / "time", {}, {3: "http://127.0.0.1:12380"}) as members,
    ):
        _await(lambda: "clock difference" in members[1].read_text(), "etcd to notice another's clock")
        _keep(members[1], scratch, folder / "etcd-clock.log")


@contextmanager
def etcd_members(
    root: Path, scratch: Path, before: dict[int, Sequence[str]], peers: dict[int, str] | None = None
) -> Iterator[dict[int, Path]]:
    """Three members on loopback, and their logs; the third is the one with the fault."""
    scratch.mkdir()
    advertised = {n: f"http://127.0.0.{n}:2380" for n in (1, 2, 3)} | (peers or {})
    cluster = ",".join(f"m{n}={url}" for n, url in advertised.items())
    logs = {n: scratch / f"m{n}.log" for n in (1, 2, 3)}

    def member(n: int) -> list[str | Path]:
        client = f"http://127.0.0.{n}:2379"
        return [
            *before.get(n, ()), root / "usr/bin/etcd", "--name", f"m{n}", "--data-dir", scratch / f"m{n}",
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", f"http://127.0.0.{n}:2380", "--initial-advertise-peer-urls", advertised[n],
            "--initial-cluster", cluster, "--heartbeat-interval", "500", "--election-timeout", "5000",
        ]  # fmt: skip

    with (
        _running(member(1), logs[1], _environment(root)) as one, _running(member(2), logs[2], _environment(root)) as two,
        _running(member(3), logs[3], _environment(root)) as three,
    ):  # fmt: skip
        for n, process in enumerate((one, two, three), 1):
            (scratch / f"m{n}.pid").write_text(str(process.pid))
        _await(lambda: "ready to serve client requests" in logs[1].read_text(), "etcd to be ready")
        yield logs


def _put(root: Path, key: str) -> None:
    argv = [
        str(root / "usr/bin/etcdctl"),
        "--endpoints",
        "http://127.0.0.1:2379",
        "--command-timeout",
        "60s",
        "put",
        key,
        "v",
    ]
    subprocess.run(argv, check=True, env=_environment(root, ETCDCTL_API="3"), stdout=subprocess.DEVNULL)


def _keep(log: Path, scratch: Path, target: Path) -> None:
    """Without the names of folders that are gone by then."""
    target.write_text(re.sub(rf"{re.escape(str(scratch))}/\w+", "/var/lib/etcd", log.read_text()))


def _leader(members: dict[int, Path]) -> int:
    """The member that became leader last, 0 while there is none."""
    return next((n for n, log in members.items() if "became leader at term" in log.read_text()), 0)


def _ask_localhost(root: Path, scratch: Path) -> str:
    """What a client of etcd says where localhost is ::1 alone, and etcd listens on 127.0.0.1."""
    hosts = scratch / "hosts"
    hosts.write_text("::1 localhost\n")
    asking = [str(root / "usr/bin/etcdctl"), "--endpoints", "http://localhost:2379", "ls"]
    inside = f"mount --bind {hosts} /etc/hosts && exec {' '.join(asking)}"
    argv = ["unshare", "--mount", "sh", "-c", inside]
    done = subprocess.run(
        argv, env=_environment(root, ETCDCTL_API="2"), capture_output=True, text=True, timeout=_WITHIN
    )
    return "".join(f"{line}\n" for line in (done.stdout + done.stderr).splitlines() if "[::1]" in line)


_NOW = re.compile(rb'"Now":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)')


def _an_hour_ago(piece: bytes) -> bytes:
    """What a member whose clock is an hour behind would tell the peer that probes it; as long as what it is put for."""

    def earlier(found: re.Match[bytes]) -> bytes:
        told = datetime.fromisoformat(found[1].decode()) - timedelta(hours=1)
        return b'"Now":"' + told.isoformat().encode()

    return _NOW.sub(earlier, piece)


@contextmanager
def _relay(port: int, target: tuple[str, int]) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", port)) as listening:
        threading.Thread(target=_accept, args=(listening, target), daemon=True).start()
        yield


def _accept(listening: socket.socket, target: tuple[str, int]) -> None:
    while True:
        try:
            client, _ = listening.accept()
            server = socket.create_connection(target, timeout=5)
        except OSError:
            if listening.fileno() < 0:
                return
            continue
        threading.Thread(target=_pass_on, args=(client, server), daemon=True).start()


def _pass_on(client: socket.socket, server: socket.socket) -> None:
    with client, server:
        try:
            while True:
                for ready in select.select([client, server], [], [], 600)[0]:
                    piece = ready.recv(1 << 16)
                    if not piece:
                        return
                    (client if ready is server else server).sendall(_an_hour_ago(piece) if ready is server else piece)
        except OSError:
            return


# the VIP


class _Register:
    """The record, as an etcd with a quorum has it."""

    def __init__(self) -> None:
        self.record = VipRecord("", 0)

    def read(self) -> VipRecord:
        return self.record

    def swap(self, seen: VipRecord, holder: str) -> tuple[bool, VipRecord]:
        if seen == self.record:
            self.record = VipRecord(holder, seen.revision + 1)
            return True, self.record
        return False, self.record


def plant_stranger(folder: Path) -> None:
    """A machine that knows nothing of the cluster has the API's address, and then has it no more."""
    stranger = subprocess.Popen(["unshare", "--net", "sleep", "120"])
    try:
        mine = os.readlink("/proc/self/ns/net")
        _await(lambda: os.readlink(f"/proc/{stranger.pid}/ns/net") != mine, "a second namespace")
        inside = ["nsenter", "-t", str(stranger.pid), "-n"]
        for argv in (
            ["ip", "link", "add", "ours", "type", "veth", "peer", "name", "theirs", "address", _STRANGER],
            ["ip", "link", "set", "theirs", "netns", str(stranger.pid)],
            ["ip", "address", "add", "192.0.2.11/24", "dev", "ours"],
            ["ip", "link", "set", "ours", "up"],
            [*inside, "ip", "address", "add", "192.0.2.5/24", "dev", "theirs"],
            [*inside, "ip", "link", "set", "theirs", "up"],
        ):
            subprocess.run(argv, check=True)
        said: list[str] = []
        place = MovingAddress("192.0.2.5", "ours")
        holder = VipHolder(
            "ctrl-0", _Register(), place, lambda: True, time.monotonic, lambda what: said.append(f"192.0.2.5: {what}\n")
        )
        _step_until(holder, lambda: "somebody else" in said[-1], "the stranger to be noticed")
        (folder / "vip-stranger.log").write_text("".join(said))
        subprocess.run([*inside, "ip", "link", "set", "theirs", "down"], check=True)
        subprocess.run(["ip", "link", "set", "ours", "up"], check=True)
        said.clear()
        _step_until(holder, lambda: bool(said), "the address to be taken")
        (folder / "vip-well.log").write_text("".join(said))
    finally:
        stranger.kill()
        stranger.wait()


def _step_until(holder: VipHolder, true: Callable[[], bool], what: str) -> None:
    def stepped() -> bool:
        holder.step()
        return true()

    _await(stepped, what)


def plant(folder: Path) -> None:
    """Call it in a network namespace of its own: `unshare --net`."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    root = Path(os.environ["PLANTED_PROGRAMS"])
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        plant_ignition(root, scratch, folder)
        plant_stranger(folder)
        plant_etcd(root, scratch, folder)


def record(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        programs = unpack(Path(name))
        inside = ["unshare", "--net", sys.executable, "-m", "tests.real.planting_node", "--inside", str(folder)]
        environment = {**os.environ, "PLANTED_PROGRAMS": str(programs)}
        subprocess.run(inside, check=True, cwd=Path(__file__).parents[2], env=environment)


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        plant(Path(sys.argv[2]))
    else:
        record(Path(sys.argv[1]))
