"""The VIP and the balancer before the API, with no guest in between.

Three network namespaces on one bridge stand for three control planes, each with its own etcd and haproxy, out of the packages the
node image is made of, and our API server and VIP, as the nodes' configs start them. What is shown here in seconds, the provisioning
tests show on nodes. Who answers for the VIP, and whether its API is ready, is looked at five times a second (`vip_watch`).
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import rackless
from rackless.cluster.reference.keys import Keys
from rackless.drivers.nodes import vip
from rackless.installer.assets.ignition import control_plane, front
from rackless.node.vip import holding
from rackless.plan.addressing import plan_lab
from rackless.plan.model import PlannedServer
from rackless.spec.address import Ip
from rackless.spec.lab import LabSpec
from rackless.trust.authority import Authority
from tests.real import node_programs, vip_watch
from tests.real.conftest import PretendHost

pytestmark = pytest.mark.real

PLAN = plan_lab(LabSpec.model_validate({"name": "front", "servers": {"ctrl": {"role": "control-plane", "count": 3}}}))
PACKAGES = ("etcd-server", "haproxy", "base-passwd")
API, VIP = "rackless-api", "rackless-vip"
STOPPED_SECONDS = 30
TAKEN_WITHIN = holding.TAKE_SECONDS + 2 * holding.LOOK_SECONDS
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
    """One control plane: a network namespace with an address, a root with its files, and what runs in it."""

    server: PlannedServer
    host: PretendHost
    root: Path
    stack: ExitStack
    pid: int = 0
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    lies: dict[str, str] = field(default_factory=dict)
    """Words of the API server's command line, and what stands in their place."""

    def plug_in(self) -> None:
        holder = subprocess.Popen(self.host.enter("unshare", "--net", "--uts", "--", "sleep", "3600"))
        self.stack.callback(_end, holder)
        outside = os.readlink(f"/proc/{self.host.pid}/ns/net")
        _await(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") not in (outside, os.readlink("/proc/self/ns/net")))
        self.pid, name, end = holder.pid, self.server.name, front.INTERFACE
        self.host.run("ip", "link", "add", name, "type", "veth", "peer", "name", end, "address", self.server.mac)
        self.host.run("ip", "link", "set", name, "master", PLAN.cluster.bridge, "up")
        self.host.run("ip", "link", "set", end, "netns", str(self.pid))
        self.run("hostname", self.server.name)
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "address", "add", f"{self.server.address}/24", "dev", end)
        self.run("ip", "link", "set", end, "up")

    def inside(self, *argv: str) -> list[str]:
        spaces = (f"--net=/proc/{self.pid}/ns/net", f"--uts=/proc/{self.pid}/ns/uts")
        return self.host.enter("nsenter", *spaces, "--", *argv)

    def run(self, *argv: str, check: bool = True) -> None:
        subprocess.run(self.inside(*argv), check=check, capture_output=True)

    def follow(self, keys: Keys) -> None:
        """Do what Ignition would."""
        for each in control_plane.files(self.server, PLAN, keys.control_plane(self.server, PLAN)):
            path = self.root / each["path"].lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)  # roots share the packages' files
            path.write_bytes(base64.b64decode(each["contents"]["source"].partition("base64,")[2]))
            path.chmod(each["mode"])

    def start(self, *names: str) -> None:
        for name in names or ("etcd", API, "haproxy", VIP):
            with (self.host.folder / f"{self.server.name}-{name}.log").open("ab") as log:
                process = self.running[name] = subprocess.Popen(
                    self.inside(*self._program(name)), stdout=log, stderr=log
                )
            self.stack.callback(_end, process)

    def _program(self, name: str) -> list[str]:
        chroot = ["chroot", str(self.root)]
        if name == "haproxy":
            return [*chroot, "haproxy", "-db", "-f", "/etc/haproxy/haproxy.cfg"]
        if name == "etcd":
            settings = re.findall(r'(\w+)="(.*)"', (self.root / "etc/default/etcd").read_text())
            return ["env", *(f"{name}={value}" for name, value in settings), *chroot, "etcd"]
        units = {each["name"]: each.get("contents", "") for each in control_plane.units(self.server, PLAN)}
        (line,) = re.findall(r"ExecStart=((?:.|\\\n)*?[^\\])\n", units[f"{name}.service"])
        words = [
            re.sub(r"^/etc/rackless", f"{self.root}/etc/rackless", word) for word in line.replace("\\\n", " ").split()
        ]
        if name == VIP:  # the standard library and our own modules are all that it has
            return ["env", f"PYTHONPATH={Path(rackless.__file__).parents[1]}", sys.executable, *words[1:]]
        return [sys.executable, "-P", "-m", "rackless", *(self.lies.get(word, word) for word in words[1:])]

    def end(self, *names: str) -> None:
        for name in names or [*self.running]:
            _end(self.running.pop(name))

    def signal(self, number: int, *names: str) -> None:
        """To the program itself: those that lead into the namespaces have become it."""
        for name in names or [*self.running]:
            self.running[name].send_signal(number)

    def log(self, name: str) -> str:
        return (self.host.folder / f"{self.server.name}-{name}.log").read_text()

    def await_log(self, name: str, words: str, times: int = 1) -> None:
        _await(lambda: self.log(name).count(words) >= times, lambda: f"{words!r} not {times} times in {self.log(name)}")


@dataclass
class Site:
    host: PretendHost
    nodes: dict[str, Node]
    keys: Keys
    stack: ExitStack

    def holders(self) -> list[str]:
        asked = self.host.run(sys.executable, "-P", "-c", ASK, str(PLAN.api_vip), PLAN.cluster.bridge)
        return list(vip.holders_of(set(json.loads(asked.stdout)), {s.mac: s.name for s in PLAN.servers}))

    def await_holder(self, *but: str, within: float = 90) -> str:
        found: list[str] = []

        def seen() -> bool:
            found[:] = self.holders()
            return len(found) == 1 and found[0] not in but

        _await(seen, lambda: f"holders were {found} at last\n{self.told()}", within)
        (holder,) = found
        return holder

    def answers(self, at: Ip = PLAN.api_vip) -> bool:
        """Whether a ready API server is behind the balancer at this address."""
        ca, name = self.keys.api / "ca.crt", str(PLAN.api_vip)
        asked = [sys.executable, "-P", "-c", READY, str(at), str(front.API_PORT), name, str(ca)]
        return self.host.run(*asked, check=False).stdout == "ok"

    def watch(self) -> Callable[[], list[str]]:
        """From a neighbour of all; the lines that are whole."""
        log = self.host.folder / "vip.jsonl"
        own, ca = str(PLAN.gateway.ip), str(self.keys.api / "ca.crt")
        argv = [sys.executable, vip_watch.__file__, PLAN.cluster.bridge, own, str(PLAN.api_vip), ca, "400", "1"]
        with log.open("wb") as out:
            self.stack.callback(_end, subprocess.Popen(self.host.enter(*argv), stdout=out))
        return lambda: [line for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]

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
    """A root with etcd and haproxy, unpacked from the node image's packages; nothing is installed."""
    with node_programs.unpacked(PACKAGES) as root:
        yield root


@pytest.fixture
def site(host: PretendHost, programs: Path) -> Iterator[Site]:
    host.run("ip", "link", "add", PLAN.cluster.bridge, "type", "bridge")
    host.run("ip", "address", "add", str(PLAN.gateway), "dev", PLAN.cluster.bridge)
    host.run("ip", "link", "set", PLAN.cluster.bridge, "up")
    keys = Keys(host.folder / "keys")
    with ExitStack() as stack:
        nodes: dict[str, Node] = {}
        for server in PLAN.control_planes:
            root = programs.with_name(f"{programs.name}-{server.name}")
            subprocess.run(["cp", "-al", programs, root], check=True)
            stack.callback(shutil.rmtree, root)
            node = nodes[server.name] = Node(server, host, root, stack)
            (root / "var/lib/etcd").mkdir(parents=True, exist_ok=True)
            node.plug_in()
            node.follow(keys)
        yield Site(host, nodes, keys, stack)


def test_the_vip_leads_to_a_ready_api_and_moves_when_its_holder_dies_but_not_back(site: Site) -> None:
    for node in site.nodes.values():
        node.start()
    first = site.await_holder()
    _await(site.answers, site.told)
    looks = site.watch()

    # its API server dies: haproxy leads to the others, and the VIP stays where it is
    down = f"Server api/{first} is DOWN"  # also said at the start, when haproxy looked before the API server was there
    said = site.nodes[first].log("haproxy").count(down)
    site.nodes[first].end(API)
    site.nodes[first].await_log("haproxy", down, times=said + 1)
    assert site.answers() and site.holders() == [first]

    # the node dies: another one takes over
    site.nodes[first].run("ip", "link", "set", front.INTERFACE, "down")
    site.nodes[first].end()
    second = site.await_holder(first, within=TAKEN_WITHIN + 5)
    _await(site.answers, site.told)
    assert vip_watch.find_wrong(looks()) == []

    # it comes back, and a stranger has the address too: two hold it, and both are told
    site.nodes[first].run("ip", "link", "set", front.INTERFACE, "up")
    site.nodes[first].run("ip", "address", "add", f"{PLAN.api_vip}/32", "dev", front.INTERFACE)
    assert site.holders() == sorted([first, second])
    site.nodes[first].run("ip", "address", "del", f"{PLAN.api_vip}/32", "dev", front.INTERFACE)
    site.nodes[first].start()
    site.nodes[first].await_log(VIP, f"{second} ({PLAN.server(second).mac}) has it")  # type: ignore[union-attr]
    _await(lambda: site.answers(site.nodes[first].server.address), site.told)
    assert site.holders() == [second] and site.answers()

    # asked to go, it says so: nobody waits
    site.nodes[second].signal(signal.SIGTERM, VIP)
    site.await_holder(second, within=holding.LOOK_SECONDS + 6)


def test_a_holder_that_others_do_not_hear_gives_the_vip_up_and_never_shares_it(site: Site) -> None:
    """For 60 s nothing comes through between it and the other control planes; their neighbours reach all of them."""
    for node in site.nodes.values():
        node.start()
    first = site.await_holder()
    _await(site.answers, site.told)
    looks = site.watch()
    time.sleep(5)
    peers = ", ".join(str(node.server.address) for name, node in site.nodes.items() if name != first)
    cut = time.monotonic()
    site.nodes[first].run("nft", f"add table ip cut; add chain ip cut in {{ type filter hook input priority 0; }}; "
                          f"add rule ip cut in ip saddr {{ {peers} }} drop")  # fmt: skip
    site.await_holder(first, within=TAKEN_WITHIN + 15)
    took = time.monotonic() - cut
    time.sleep(60 - min(took, 59))
    site.nodes[first].run("nft", "delete", "table", "ip", "cut")
    # on a busy computer it may have moved on, to the third one, meanwhile
    others = [f"{name} ({node.server.mac}) has it" for name, node in site.nodes.items() if name != first]
    _await(lambda: any(other in site.nodes[first].log(VIP) for other in others), site.told)
    time.sleep(10)
    lines = looks()
    _assert_never_shared(lines, site)
    assert len(lines) > 250 and len(vip_watch.holders(lines)) >= 2


def test_a_holder_that_was_stopped_does_not_share_the_vip_when_it_goes_on(site: Site) -> None:
    """First its VIP program alone, then all of the machine, which nobody reaches meanwhile: its kernel stands still too."""
    for node in site.nodes.values():
        node.start()
    first = site.await_holder()
    _await(site.answers, site.told)
    looks = site.watch()
    time.sleep(3)
    site.nodes[first].signal(signal.SIGSTOP, VIP)
    time.sleep(STOPPED_SECONDS)
    site.nodes[first].signal(signal.SIGCONT, VIP)
    second = site.await_holder(within=TAKEN_WITHIN)
    assert second != first
    _await(site.answers, site.told)
    time.sleep(3)
    site.nodes[second].run("ip", "link", "set", front.INTERFACE, "down")
    site.nodes[second].signal(signal.SIGSTOP)
    time.sleep(STOPPED_SECONDS)
    site.nodes[second].run("ip", "link", "set", front.INTERFACE, "up")
    site.nodes[second].signal(signal.SIGCONT)
    site.await_holder(within=TAKEN_WITHIN + 10)
    _await(site.answers, site.told)
    time.sleep(5)
    _assert_never_shared(looks(), site)


def _assert_never_shared(lines: list[str], site: Site) -> None:
    """One question may be lost: a balancer finds out by it that the machine it leads to is gone."""
    wrong = vip_watch.find_wrong(lines)
    assert [line for line in wrong if "two hold it" in line] == [], site.told()
    assert len(wrong) <= 1, wrong


def test_nobody_holds_the_vip_when_no_api_server_can_be_trusted(site: Site) -> None:
    """One shows a certificate of another CA, one a certificate of another node."""
    first, second, third = PLAN.control_planes
    Authority.ensure(site.host.folder / "stranger", "a stranger")
    liars = [site.nodes[first.name], site.nodes[second.name]]
    liars[0].lies = {f"{liars[0].root}{control_plane.PKI}": str(site.host.folder / "stranger")}
    liars[1].lies = {second.fqdn: first.fqdn, second.name: first.name}
    site.nodes[third.name].start("etcd")
    for node in liars:
        node.start("etcd", API)
    for node in liars:
        node.await_log(API, "serving")
        node.start("haproxy", VIP)
    for node in liars:
        for liar in liars:
            node.await_log("haproxy", f"Server api/{liar.server.name} is DOWN, reason: Layer6")
        node.await_log(VIP, "no API server is ready")
    assert site.holders() == []
