"""The VIP's and the balancer's configurations, read by the real keepalived and haproxy, with no guest in between.

Three network namespaces on one bridge stand for three control planes. Programs come out of the packages the node image
is made of; the API servers are ours. What is shown here in seconds, the provisioning tests show on nodes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rackless.drivers.nodes import vip
from rackless.installer.assets.ignition import front
from rackless.plan.addressing import plan_lab
from rackless.plan.model import PlannedServer
from rackless.spec.address import Ip
from rackless.spec.lab import LabSpec
from rackless.trust.authority import Authority
from tests.real import node_programs
from tests.real.conftest import PretendHost

pytestmark = pytest.mark.real

PLAN = plan_lab(LabSpec.model_validate({"name": "front", "servers": {"ctrl": {"role": "control-plane", "count": 3}}}))
PACKAGES = ("keepalived", "haproxy", "busybox-static", "base-passwd")
ASK = """
import asyncio, ipaddress, json, sys
from rackless.drivers.nodes import vip
print(json.dumps(sorted(asyncio.run(vip.ask_all(ipaddress.IPv4Address(sys.argv[1]), sys.argv[2])))))
"""
READY = """
import socket, ssl, sys
address, port, name, ca = sys.argv[1:]
tls = ssl.create_default_context(cafile=ca)
with tls.wrap_socket(socket.create_connection((address, int(port)), timeout=5), server_hostname=name) as spoken:
    spoken.sendall(b"GET /readyz HTTP/1.1\\r\\nHost: api\\r\\nConnection: close\\r\\n\\r\\n")
    print(b"".join(iter(lambda: spoken.recv(4096), b"")).decode().splitlines()[-1], end="")
"""


@dataclass
class Node:
    """One control plane: a network namespace with an address, and what runs in it."""

    server: PlannedServer
    host: PretendHost
    root: Path
    stack: ExitStack
    pid: int = 0
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def plug_in(self) -> None:
        holder = subprocess.Popen(self.host.enter("unshare", "--net", "--", "sleep", "3600"))
        self.stack.callback(_end, holder)
        outside = os.readlink(f"/proc/{self.host.pid}/ns/net")
        _await(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") not in (outside, os.readlink("/proc/self/ns/net")))
        self.pid, name, end = holder.pid, self.server.name, front.INTERFACE
        self.host.run("ip", "link", "add", name, "type", "veth", "peer", "name", end, "address", self.server.mac)
        self.host.run("ip", "link", "set", name, "master", PLAN.cluster.bridge, "up")
        self.host.run("ip", "link", "set", end, "netns", str(self.pid))
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "address", "add", f"{self.server.address}/24", "dev", end)
        self.run("ip", "link", "set", end, "up")

    def inside(self, *argv: str) -> list[str]:
        return self.host.enter("nsenter", f"--net=/proc/{self.pid}/ns/net", "--", *argv)

    def run(self, *argv: str) -> None:
        subprocess.run(self.inside(*argv), check=True, capture_output=True)

    def start(self, name: str, *argv: str) -> None:
        with (self.host.folder / f"{self.server.name}-{name}.log").open("ab") as log:
            process = self.running[name] = subprocess.Popen(self.inside(*argv), stdout=log, stderr=log)
        self.stack.callback(_end, process)

    def start_api(self, name: str = "") -> None:
        state = self.host.folder / self.server.name
        if not state.exists():
            shutil.copytree(self.host.folder / "ca", state)
        self.start(
            "api", sys.executable, "-P", "-m", "rackless", "api", "serve", "--store", f"sqlite:{state}.db",
            "--address", str(self.server.address), "--port", str(front.SERVER_PORT), "--pki", str(state),
            "--name", name or self.server.fqdn, "--name", str(PLAN.api_vip),
        )  # fmt: skip

    def start_front(self) -> None:
        etc = self.root / "etc" / self.server.name
        etc.mkdir(exist_ok=True)
        (etc / "keepalived.conf").write_text(front.keepalived_conf(self.server, PLAN))
        (etc / "haproxy.cfg").write_text(front.haproxy_cfg(PLAN))
        inner = f"/etc/{self.server.name}"
        self.start("haproxy", "chroot", str(self.root), "haproxy", "-db", "-f", f"{inner}/haproxy.cfg")
        pids = [f"--pid={inner}/p", f"--vrrp_pid={inner}/v", f"--checkers_pid={inner}/c"]
        # of one that was killed: its number may be somebody else's by now, who would be taken for it
        for name in "pvc":
            (etc / name).unlink(missing_ok=True)
        self.start(
            "keepalived", "chroot", str(self.root), "keepalived", "--dont-fork", "--log-console", "--vrrp",
            f"--use-file={inner}/keepalived.conf", *pids,
        )  # fmt: skip

    def end(self, name: str) -> None:
        _end(self.running.pop(name))

    def log(self, name: str) -> str:
        return (self.host.folder / f"{self.server.name}-{name}.log").read_text()

    def await_log(self, name: str, words: str, times: int = 1) -> None:
        _await(lambda: self.log(name).count(words) >= times, lambda: f"{words!r} not {times} times in {self.log(name)}")


@dataclass
class Site:
    host: PretendHost
    nodes: dict[str, Node]

    def holders(self) -> list[str]:
        asked = self.host.run(sys.executable, "-P", "-c", ASK, str(PLAN.api_vip), PLAN.cluster.bridge)
        return list(vip.holders_of(set(json.loads(asked.stdout)), {s.mac: s.name for s in PLAN.servers}))

    def await_holder(self, wanted: Callable[[list[str]], bool]) -> str:
        found: list[str] = []

        def seen() -> bool:
            found[:] = self.holders()
            return wanted(found)

        _await(seen, lambda: f"holders were {found} at last\n{self.told()}")
        (holder,) = found
        return holder

    def answers(self, at: Ip = PLAN.api_vip) -> bool:
        """Whether a ready API server is behind the balancer at this address."""
        ca, name = self.host.folder / "ca" / "ca.crt", str(PLAN.api_vip)
        asked = [sys.executable, "-P", "-c", READY, str(at), str(front.API_PORT), name, str(ca)]
        return self.host.run(*asked, check=False).stdout == "ok"

    def told(self) -> str:
        return "\n".join(f"--- {log.name}\n{log.read_text()[-1500:]}" for log in sorted(self.host.folder.glob("*.log")))


def _await(condition: Callable[[], bool], describe: Callable[[], str] = lambda: "", within: float = 90) -> None:
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"it never came to be; {describe()}")
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    """A root with keepalived and haproxy, unpacked from the node image's packages; nothing is installed."""
    with node_programs.unpacked(PACKAGES) as root:
        yield root


@pytest.fixture
def site(host: PretendHost, programs: Path) -> Iterator[Site]:
    for kind in ("proc", "dev"):
        host.run("mount", "--rbind", f"/{kind}", str(programs / kind))  # in the pretend host's own mount namespace
    host.run("ip", "link", "add", PLAN.cluster.bridge, "type", "bridge")
    host.run("ip", "address", "add", str(PLAN.gateway), "dev", PLAN.cluster.bridge)
    host.run("ip", "link", "set", PLAN.cluster.bridge, "up")
    trusted = programs / front.CA.lstrip("/")
    trusted.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(Authority.ensure(host.folder / "ca", "front").certificate, trusted)
    with ExitStack() as stack:
        nodes = {server.name: Node(server, host, programs, stack) for server in PLAN.control_planes}
        for node in nodes.values():
            node.plug_in()
        yield Site(host, nodes)


def test_the_vip_leads_to_a_ready_api_and_moves_when_its_holder_dies_but_not_back(site: Site) -> None:
    for node in site.nodes.values():
        node.start_api()
        node.start_front()
    first = site.await_holder(lambda found: len(found) == 1)
    _await(site.answers, site.told)

    # its API server dies: haproxy leads to the others, and the VIP stays where it is
    down = f"Server api/{first} is DOWN"  # also said at the start, when haproxy looked before the API server was there
    said = site.nodes[first].log("haproxy").count(down)
    site.nodes[first].end("api")
    site.nodes[first].await_log("haproxy", down, times=said + 1)
    assert site.answers() and site.holders() == [first]

    # the node dies: another one takes over
    for name in ("keepalived", "haproxy"):
        site.nodes[first].end(name)
    site.nodes[first].run("ip", "link", "set", front.INTERFACE, "down")
    second = site.await_holder(lambda found: len(found) == 1 and found != [first])
    _await(site.answers, site.told)

    # it comes back with the VIP on it, as a node does that was only cut off: two hold it, and both are told
    site.nodes[first].run("ip", "link", "set", front.INTERFACE, "up")
    site.nodes[first].run("ip", "address", "replace", f"{PLAN.api_vip}/32", "dev", front.INTERFACE)
    assert site.holders() == sorted([first, second])
    site.nodes[first].run("ip", "address", "del", f"{PLAN.api_vip}/32", "dev", front.INTERFACE)
    site.nodes[first].start_api()
    site.nodes[first].start_front()
    site.nodes[first].await_log("keepalived", "Entering BACKUP STATE", times=2)
    _await(lambda: site.answers(site.nodes[first].server.address), site.told)
    assert site.holders() == [second] and site.answers()


def test_nobody_holds_the_vip_when_no_api_server_can_be_trusted(site: Site) -> None:
    """One shows a certificate of another CA, one a certificate of another node."""
    first, second, _ = PLAN.control_planes
    Authority.ensure(site.host.folder / first.name, "a stranger")
    site.nodes[first.name].start_api()
    site.nodes[second.name].start_api(first.fqdn)
    liars = [site.nodes[first.name], site.nodes[second.name]]
    for node in liars:
        node.await_log("api", "serving")
    for node in liars:
        node.start_front()
    for node in liars:
        for liar in liars:
            node.await_log("haproxy", f"Server api/{liar.server.name} is DOWN, reason: Layer6")
        node.await_log("keepalived", "VRRP_Script(api) failed")
    assert site.holders() == []
