"""The whole of `--live` in network namespaces of our own: a provisioning host, and a neighbour across a cable."""

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rackless.installer.install_config.cluster_input import BootstrapInput, ClusterInput
from rackless.installer.install_config.writing import render

pytestmark = [pytest.mark.real, pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")]

_VRRP = """
import socket, struct, time
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, 112)
out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("192.168.111.77"))
advertisement = bytes([0x21, ID, 100, 1, 0, 1, 0, 0]) + socket.inet_aton("192.168.111.200") + b"\\0" * 8
while True:
    out.sendto(advertisement, ("224.0.0.18", 0))
    time.sleep(0.3)
"""


@dataclass(frozen=True)
class Space:
    pid: int

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        argv = ["nsenter", "-t", str(self.pid), "-n", "-m", *words]
        return subprocess.run(argv, check=check, capture_output=True, text=True, timeout=180)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["nsenter", "-t", str(self.pid), "-n", "-m", *words], stdout=subprocess.DEVNULL)


@dataclass(frozen=True)
class Site:
    host: Space
    neighbour: Space
    folder: Path
    started: list[subprocess.Popen[bytes]]

    def serve(self, *words: str) -> None:
        self.started.append(self.neighbour.start(*words))

    def check(self, text: str) -> tuple[int, dict[str, Any]]:
        file = self.folder / "install-config.yaml"
        file.write_text(text)
        rackless = str(Path(sys.executable).with_name("rackless"))
        done = self.host.run(rackless, "check", "install-config", "--live", "--json", str(file), check=False)
        assert done.returncode in (0, 10), done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return done.returncode, found


def _space() -> subprocess.Popen[bytes]:
    holder = subprocess.Popen(["unshare", "-n", "-m", "--propagation", "private", "sleep", "300"])
    own = os.readlink("/proc/self/ns/net")
    for _ in range(1500):
        if (
            os.readlink(f"/proc/{holder.pid}/ns/net") != own
            and Path(f"/proc/{holder.pid}/comm").read_text().strip() == "sleep"
        ):
            return holder
        time.sleep(0.02)
    raise AssertionError("no namespace")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    holders = [_space(), _space()]
    made = Site(Space(holders[0].pid), Space(holders[1].pid), tmp_path, [])
    try:
        run = made.host.run
        run("ip", "link", "add", "baremetal", "type", "bridge")
        run("ip", "link", "add", "cable", "type", "veth", "peer", "name", "far", "netns", str(holders[1].pid))
        run("ip", "link", "set", "cable", "master", "baremetal")
        for link in ("lo", "cable", "baremetal"):
            run("ip", "link", "set", link, "up")
        run("ip", "address", "add", "192.168.111.1/24", "dev", "baremetal")
        run("ip", "-6", "address", "add", "fd00:111::1/64", "dev", "baremetal", "nodad")
        far = made.neighbour.run
        for link in ("lo", "far"):
            far("ip", "link", "set", link, "up")
        far("ip", "address", "add", "192.168.111.77/24", "dev", "far")
        far("ip", "-6", "address", "add", "fd00:111::77/64", "dev", "far", "nodad")
        resolver = tmp_path / "resolv.conf"
        resolver.write_text("nameserver 192.168.111.77\noptions timeout:1 attempts:2\n")
        run("mount", "--bind", str(resolver), "/etc/resolv.conf")
        yield made
    finally:
        for one in [*made.started, *holders]:
            one.kill()
            one.wait()


@pytest.fixture
def wanted(make_compact: Callable[[], ClusterInput]) -> ClusterInput:
    """Its libvirt is the test driver, whose only active interface is eth1."""
    return replace(make_compact(), bootstrap=BootstrapInput("eth1", "52:54:00:00:00:01", libvirt_uri="test:///default"))


def _outcomes(found: dict[str, Any]) -> dict[str, str]:
    return {probe["subject"]: probe["outcome"] for probe in found["live"]}


def _redfish(folder: Path) -> Path:
    script = folder / "bmc.py"
    script.write_text(
        textwrap.dedent("""
        import http.server, json
        media = {"@odata.id": "/redfish/v1/Systems/1/VirtualMedia"}
        disc = {"MediaTypes": ["CD"], "Actions": {"#VirtualMedia.InsertMedia": {}}}
        tree = {
            "/redfish/v1/": {}, **{f"/redfish/v1/Systems/{n}": {"VirtualMedia": media} for n in range(3)},
            media["@odata.id"]: {"Members": [{"@odata.id": "/cd"}]}, "/cd": disc,
        }
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                data = json.dumps(tree.get(self.path)).encode()
                self.send_response(200 if self.path in tree else 404)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
        http.server.ThreadingHTTPServer(("192.168.111.77", 8000), Handler).serve_forever()
        """)
    )
    return script


def _wait_until_served(site: Site, port: int) -> None:
    for _ in range(600):
        if f":{port} " in site.neighbour.run("ss", "-Hltun").stdout:
            return
        time.sleep(0.1)
    raise AssertionError(f"nothing listens on {port}")


def test_a_site_that_is_ready_passes(site: Site, wanted: ClusterInput) -> None:
    names = ["--address=/api.lab.example.com/192.168.111.5", "--address=/apps.lab.example.com/192.168.111.4"]
    quiet = ["--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", "--pid-file=", "--user=root"]
    site.serve("dnsmasq", *quiet, "--port=53", "--local=/example.com/", *names)
    site.serve(sys.executable, str(_redfish(site.folder)))
    _wait_until_served(site, 8000)
    _wait_until_served(site, 53)
    hosts = tuple(
        replace(host, bmc_address=f"redfish-virtualmedia+http://192.168.111.77:8000/redfish/v1/Systems/{n}")
        for n, host in enumerate(wanted.hosts)
    )
    _, found = site.check(render(replace(wanted, hosts=hosts)))
    outcomes = _outcomes(found)
    about_the_site = {
        subject: said
        for subject, said in outcomes.items()
        if not subject.startswith(("space", "memory", "accel", "clock"))
    }
    assert set(about_the_site.values()) == {"ok"}, found["live"]
    assert {
        "DNS api.lab.example.com",
        "DNS *.apps.lab.example.com",
        "API VIP 192.168.111.5 is free",
        "bridge eth1",
    } <= set(about_the_site)
    assert all(probe["did"] and probe["saw"] for probe in found["live"])
    assert not [one for one in found["findings"] if one["rule"] == "bridges"]


def test_addresses_that_are_taken_ids_that_clash_and_what_does_not_answer_are_found(
    site: Site, wanted: ClusterInput
) -> None:
    from rackless.installer.install_config.live.vrrp import router_ids

    site.neighbour.run("ip", "address", "add", "192.168.111.5/24", "dev", "far")
    site.serve(sys.executable, "-c", _VRRP.replace("ID", str(router_ids("lab")[1])))
    wrong_bridge = replace(wanted, bootstrap=replace(wanted.bootstrap, bridge="baremetal"))
    code, found = site.check(render(wrong_bridge))
    outcomes = _outcomes(found)
    assert code == 10
    assert outcomes["API VIP 192.168.111.5 is free"] == "failed"
    assert outcomes["ingress VIP 192.168.111.4 is free"] == "ok"
    assert outcomes[f"VRRP ids {router_ids('lab')[0]} and {router_ids('lab')[1]} are free"] == "failed"
    assert outcomes["BMC of master-0"] == "failed"
    assert outcomes["DNS api.lab.example.com"] == "unknown"
    assert outcomes["bridge baremetal"] == "failed"
    assert [one["path"] for one in found["findings"] if one["rule"] == "bridges"] == [
        "platform.baremetal.externalBridge"
    ]


def test_an_ipv6_address_that_is_taken_is_found(site: Site, wanted: ClusterInput) -> None:
    site.neighbour.run("ip", "-6", "address", "add", "fd00:111::5/64", "dev", "far", "nodad")
    six = replace(
        wanted,
        machine_networks=("fd00:111::/64",),
        cluster_networks=(("fd01::/48", 64),),
        service_networks=("fd02::/112",),
        api_vips=("fd00:111::5",),
        ingress_vips=("fd00:111::4",),
    )
    outcomes = _outcomes(site.check(render(six))[1])
    assert outcomes["API VIP fd00:111::5 is free"] == "failed"
    assert outcomes["ingress VIP fd00:111::4 is free"] == "ok"
