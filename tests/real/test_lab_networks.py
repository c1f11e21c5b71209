"""The networks of a lab as its guests see them: addresses, routes, names, time, BMCs, and the way out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.adversary.lab_site import HOST_LAN, INTERNET, NEIGHBOUR, around
from tests.real.conftest import PretendHost, kill
from tests.real.guest import Guest, serving

pytestmark = pytest.mark.real

PYTHON = (sys.executable, "-P", "-m")
FOREVER = 0xFFFFFFFF
RANDOM_INSTALLER = "52:54:00:aa:bb:cc"
STRANGER = "06:00:00:00:00:01"


def make(host: PretendHost, text: str = "", until: str = "lab") -> dict[str, Any]:
    (host.folder / "lab.yaml").write_text(text)
    host.rackless("up", "--until", until)
    found = host.rackless("exec", "--", "virsh", "net-dumpxml", "cluster").stdout
    macs = {}
    for line in found.splitlines():
        if "<host mac=" in line:
            words = line.split("'")
            macs[words[3]] = words[1]
    return macs


def test_guests_on_the_baremetal_bridge_get_what_they_are_due_across_the_cable(host: PretendHost) -> None:
    macs = make(host)
    with Guest(host.pin(), "baremetal", macs["worker-0"]) as guest:
        lease = guest.dhcp()
        assert lease is not None
        assert (lease["address"], lease["lease"]) == ("192.168.111.23", FOREVER)
        assert (lease["router"], lease["dns"], lease["ntp"]) == ("192.168.111.1",) * 3
        guest.take(lease)
        for name, address in {
            "api.lab.rackless.test": "192.168.111.5",
            "api-int.lab.rackless.test": "192.168.111.5",
            "anything.apps.lab.rackless.test": "192.168.111.4",
            "ctrl-2.lab.rackless.test": "192.168.111.22",
            "bootstrap.lab.rackless.test": "192.168.111.9",
            "ctrl-0-bmc.lab.rackless.test": "192.168.112.20",
            "192.168.111.21": "ctrl-1.lab.rackless.test",
            "192.168.112.20": "ctrl-0-bmc.lab.rackless.test",
        }.items():
            assert guest.resolve(lease["dns"], name) == [address], name
        asked = time.time()
        assert asked - 1 <= guest.ask("ntp", lease["ntp"]) <= time.time(), "whole seconds, rounded down"
    with Guest(host.pin(), "baremetal", macs["bootstrap"]) as guest:
        lease = guest.dhcp()
        assert lease is not None and (lease["address"], lease["lease"]) == ("192.168.111.9", FOREVER)
    with Guest(host.pin(), "baremetal", RANDOM_INSTALLER) as guest:
        lease = guest.dhcp()
        assert lease is not None and 10 <= int(lease["address"].rpartition(".")[2]) <= 19
    with Guest(host.pin(), "baremetal", STRANGER) as guest:
        assert guest.dhcp(patience=2.5) is None


def test_with_static_only_strangers_get_nothing_and_reserved_ones_everything(host: PretendHost) -> None:
    macs = make(host, "networks: {cluster: {dhcp: static-only}}\n")
    with Guest(host.pin(), "baremetal", RANDOM_INSTALLER) as guest:
        assert guest.dhcp(patience=2.5) is None
    with Guest(host.pin(), "baremetal", macs["bootstrap"]) as guest:
        lease = guest.dhcp()
        assert lease is not None and lease["address"] == "192.168.111.9"


ROUTED = """\
networks:
  bmc: {access: routed, allow: [192.168.111.9/32, 192.168.111.20/30]}
  cluster:
    routes: [{to: 10.99.0.0/16, via: 192.168.111.3, audience: [bootstrap]}]
"""


def test_routed_bmcs_need_the_route_that_dhcp_hands_out_and_an_address_that_is_listed(host: PretendHost) -> None:
    macs = make(host, ROUTED, until="bmc")
    assert {server["power"] for server in host.status()["servers"]} == {"off"}
    default, bmc = ["0.0.0.0/0", "192.168.111.1"], ["192.168.112.0/24", "192.168.111.2"]
    with Guest(host.pin(), "baremetal", macs["bootstrap"]) as guest:
        lease = guest.dhcp()
        assert lease is not None and sorted(lease["routes"]) == [default, ["10.99.0.0/16", "192.168.111.3"], bmc]
        guest.take(lease)
        assert guest.connects("192.168.112.20", 443)
        guest.run("ip", "route", "del", bmc[0])
        assert not guest.connects("192.168.112.20", 443), "without the route the gateway must not help"
    with Guest(host.pin(), "baremetal", macs["ctrl-0"]) as guest:
        lease = guest.dhcp()
        assert lease is not None and sorted(lease["routes"]) == [default, bmc]
        guest.take(lease)
        assert guest.connects("192.168.112.23", 443)
    with Guest(host.pin(), "baremetal", RANDOM_INSTALLER) as guest:
        lease = guest.dhcp()
        assert lease is not None and bmc in lease["routes"]
        guest.take(lease)
        assert not guest.connects("192.168.112.20", 443), "its address is not listed"
    kill(host.one("rackless.labd.main"))  # and with it the namespace of the BMCs
    host.rackless("up", "--until", "bmc")
    insert_media(host)


def test_direct_bmcs_are_open_to_listed_addresses_only_and_to_all_when_the_list_is_gone(host: PretendHost) -> None:
    make(host, "networks: {bmc: {allow: [192.168.111.64/27]}}\nservers: {node: {count: 1}}\n", until="bmc")
    inside = host.rackless("exec", "--", "curl", "-sk", "https://192.168.112.20/redfish/v1/").stdout
    assert "RedfishVersion" in inside, "the lab itself is always let in"
    with Guest(host.pin(), "baremetal", STRANGER) as guest:
        guest.run("ip", "address", "add", "192.168.111.90/24", "dev", "eth0")
        guest.run("ip", "route", "add", "default", "via", "192.168.111.1")
        assert guest.connects("192.168.112.20", 443)
        guest.run("ip", "address", "flush", "dev", "eth0")
        guest.run("ip", "address", "add", "192.168.111.100/24", "dev", "eth0")
        guest.run("ip", "route", "add", "default", "via", "192.168.111.1")
        assert not guest.connects("192.168.112.20", 443), "its address is not listed"
        assert guest.connects("192.168.111.1", 6443), "only the BMCs are closed"
        (host.folder / "lab.yaml").write_text("servers: {node: {count: 1}}\n")
        host.rackless("up", "--until", "bmc")
        assert guest.connects("192.168.112.20", 443)


def test_names_outside_the_lab_are_asked_of_the_servers_that_are_given_and_the_labs_own_never(
    host: PretendHost,
) -> None:
    make(host, "networks: {dns: {forward: [192.168.111.90]}}\nservers: {node: {count: 1}}\n")
    with Guest(host.pin(), "baremetal", STRANGER) as server, Guest(host.pin(), "baremetal", RANDOM_INSTALLER) as guest:
        server.run("ip", "address", "add", "192.168.111.90/24", "dev", "eth0")
        server.serve("serve-dns", "192.168.111.90", "198.51.100.7")
        guest.run("ip", "address", "add", "192.168.111.91/24", "dev", "eth0")
        assert guest.resolve("192.168.111.1", "www.outside.example") == ["198.51.100.7"]
        assert guest.resolve("192.168.111.1", "nowhere.lab.rackless.test") == []
        # the network is made anew for this; the gateway stays where its guests know it
        (host.folder / "lab.yaml").write_text("servers: {node: {count: 1}}\n")
        host.rackless("up", "--until", "lab")
        assert guest.resolve("192.168.111.1", "www.outside.example") == [], "without them nothing is asked outside"


def insert_media(host: PretendHost) -> None:
    """The lab itself reaches a routed BMC, which fetches its media from its own address."""
    (host.folder / "boot.iso").write_bytes(b"not much of an image" * 200)
    password = (host.folder / "state/lab/secrets/bmc.password").read_text().strip()
    (host.folder / "netrc").write_text(f"machine 192.168.112.20 login admin password {password}\n")
    log = host.folder / "http.log"
    with log.open("wb") as sink:
        inside = [
            *PYTHON,
            "rackless",
            "exec",
            "--",
            "python3",
            "-u",
            "-m",
            "http.server",
            "-b",
            "192.168.111.1",
            "8000",
        ]
        server = subprocess.Popen(host.enter(*inside), env=host.environment, stdout=sink, stderr=sink)
    try:
        await_word(log, "Serving HTTP")
        url = "https://192.168.112.20/redfish/v1/Managers/1/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
        body = json.dumps({"Image": "http://192.168.111.1:8000/boot.iso"})
        done = host.rackless(
            "exec", "--", "curl", "-sk", "--netrc-file", str(host.folder / "netrc"), "-w", "%{http_code}",
            "-H", "Content-Type: application/json", "-d", body, url,
        )  # fmt: skip
        assert done.stdout[-3:] in ("200", "202", "204"), done.stdout
        await_word(log, "192.168.112.20")  # it was fetched from the BMC's own address
    finally:
        server.kill()
        server.wait()


def await_word(log: Path, word: str, within: float = 60) -> None:
    deadline = time.monotonic() + within
    while word not in log.read_text():
        assert time.monotonic() < deadline, f"{word!r} was not said: {log.read_text()}"
        time.sleep(0.1)


SITE = """\
networks:
  provisioning: {mode: unmanaged}
  extra:
    storage: {cidr: 10.55.0.0/24}
  dns: {records: {registry: 192.168.111.1, "*.dev": 192.168.111.77, mirror.example.test.: 10.55.0.9}}
servers:
  node: {count: 2, extra_disks: [1GiB, 2GiB], extra_nics: 1, firmware: bios, first: 30}
  safe: {count: 1, secure_boot: true, tpm: true}
"""


def test_further_networks_tags_records_disks_and_firmware(host: PretendHost) -> None:
    tpm = shutil.which("swtpm") is not None
    make(host, SITE if tpm else SITE.replace(", tpm: true", ""))
    xml = host.rackless("exec", "--", "virsh", "dumpxml", "node-1").stdout
    assert xml.count("device='disk'") == 3 and xml.count("<interface type='bridge'>") == 4 and "pflash" not in xml
    bridges = [line.split("'")[1] for line in xml.splitlines() if "<source bridge=" in line]
    assert bridges == ["provisioning", "virbr0", "virbr0", "storage"]
    assert "secure='yes'" in host.rackless("exec", "--", "virsh", "dumpxml", "safe-0").stdout
    host.rackless("power", "safe-0", "on")
    assert {one["name"]: one["power"] for one in host.status()["servers"]} == {
        "node-0": "off", "node-1": "off", "safe-0": "on",
    }  # fmt: skip
    if tpm:
        assert list((host.folder / "state/lab/libvirt/lib/swtpm").rglob("tpm2-*")), "it has written into its TPM"
    host.rackless("power", "safe-0", "off")
    mac = xml.split("<mac address='")[1].split("'")[0]
    with Guest(host.pin(), "provisioning", mac) as guest:
        lease = guest.dhcp()
        assert lease is not None and (lease["address"], lease["router"]) == ("172.22.0.31", None)
    with Guest(host.pin(), "baremetal", RANDOM_INSTALLER) as guest:
        guest.run("ip", "address", "add", "192.168.111.90/24", "dev", "eth0")
        assert guest.resolve("192.168.111.1", "registry.lab.rackless.test") == ["192.168.111.1"]
        assert guest.resolve("192.168.111.1", "x.dev.lab.rackless.test") == ["192.168.111.77"]
        assert guest.resolve("192.168.111.1", "mirror.example.test") == ["10.55.0.9"]


def test_a_tagged_network_is_reached_by_its_tag_only(host: PretendHost) -> None:
    host.run("ip", "link", "add", "name", "probe", "type", "bridge")
    missing = host.run(
        "ip", "link", "add", "link", "probe", "name", "v", "type", "vlan", "id", "9", check=False
    ).returncode
    host.run("ip", "link", "delete", "probe")
    if missing:
        before = host.snapshot()
        (host.folder / "lab.yaml").write_text("networks: {extra: {tenant: {cidr: 10.56.0.0/24, vlan: 42}}}\n")
        done = host.rackless("up", "--until", "lab", check=False)
        assert done.returncode == 3 and "modprobe 8021q" in done.stderr
        (host.folder / "lab.yaml").unlink()
        assert host.snapshot() == before, "nothing half made"
        pytest.skip("this kernel has no VLANs; that this is said was seen")
    make(host, "networks: {extra: {tenant: {cidr: 10.56.0.0/24, vlan: 42}}}\n")
    with Guest(host.pin(), "baremetal", RANDOM_INSTALLER) as guest:
        guest.run("ip", "address", "add", "10.56.0.51/24", "dev", "eth0")
        assert guest.run("python3", "-c", PING, "10.56.0.1", check=False).returncode == 1
        guest.run("ip", "address", "del", "10.56.0.51/24", "dev", "eth0")
        guest.run("ip", "link", "add", "link", "eth0", "name", "eth0.42", "type", "vlan", "id", "42")
        guest.run("ip", "address", "add", "10.56.0.50/24", "dev", "eth0.42")
        guest.run("ip", "link", "set", "eth0.42", "up")
        assert guest.run("python3", "-c", PING, "10.56.0.1", check=False).returncode == 0


PING = """\
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); s.settimeout(5)
s.sendto(struct.pack('!BBHHH', 8, 0, 0xf7fd, 1, 1), (sys.argv[1], 0))
try:
    while s.recvfrom(1500)[1][0] != sys.argv[1]: pass
except OSError: sys.exit(1)
"""


def test_a_lab_with_an_uplink_reaches_out_and_leaves_the_host_as_it_was(host: PretendHost) -> None:
    before = host.snapshot()
    rules = host.run("nft", "list", "ruleset").stdout
    host.run("sysctl", "-qw", "net.ipv4.ip_forward=0")
    with around(host) as site:
        with serving(host.enter(), "serve-dns", HOST_LAN, "198.51.100.99"):
            (host.folder / "resolv.conf").write_text(f"nameserver 127.0.0.53\nnameserver {HOST_LAN}\n")
            host.run("mount", "--bind", str(host.folder / "resolv.conf"), "/etc/resolv.conf")
            make(host, "networks: {uplink: nat}\nservers: {node: {count: 1}}\n")
            with Guest(host.pin(), "virbr0", STRANGER) as guest:
                guest.run("ip", "address", "add", "192.168.111.90/24", "dev", "eth0")
                guest.run("ip", "route", "add", "default", "via", "192.168.111.1")
                assert guest.run("python3", "-c", PING, INTERNET, check=False).returncode == 0
                assert guest.resolve("192.168.111.1", "www.outside.example") == ["198.51.100.99"], "the host's is asked"
                assert not guest.connects(NEIGHBOUR, 8080) and not guest.connects(HOST_LAN, 8080)
                (host.folder / "lab.yaml").write_text(
                    f"networks: {{uplink: {{reach: ['{NEIGHBOUR}:8080', 'host:8081']}}}}\nservers: {{node: {{count: 1}}}}\n"
                )
                host.rackless("up", "--until", "lab")
                assert guest.connects(NEIGHBOUR, 8080) and guest.connects(HOST_LAN, 8081)
                assert not guest.connects(NEIGHBOUR, 8081) and not guest.connects(HOST_LAN, 8080)
        host.run("umount", "/etc/resolv.conf")
        (host.folder / "resolv.conf").unlink()
        assert host.run("cat", "/proc/sys/net/ipv4/ip_forward").stdout.strip() == "0", "single interfaces forward"
        host.rackless("down", "--force")
        assert "rl-" not in host.run("ip", "-brief", "link").stdout
        host.rackless("up", "--until", "lab")
        assert "rl-" in host.run("ip", "-brief", "link").stdout
        host.rackless("destroy", "--yes")
        assert site.forwarding()["eth0"] == "0"
    for link in ("eth0", "lan0"):
        host.run("ip", "link", "delete", link, check=False)
    (host.folder / "lab.yaml").unlink()
    assert host.snapshot() == before
    assert host.run("nft", "list", "ruleset").stdout == rules


@pytest.mark.parametrize("mode", ["managed", "unmanaged"])
def test_nothing_is_forwarded_between_the_provisioning_and_the_cluster_network(host: PretendHost, mode: str) -> None:
    make(host, f"networks: {{provisioning: {{mode: {mode}}}}}\nservers: {{node: {{count: 1}}}}\n")
    places = (("provisioning", "172.22.0.90"), ("baremetal", "192.168.111.90"))
    with Guest(host.pin(), places[0][0], STRANGER) as one, Guest(host.pin(), places[1][0], RANDOM_INSTALLER) as other:
        for guest, (_, address) in zip((one, other), places, strict=True):
            guest.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
            guest.run("ip", "route", "add", "default", "via", f"{address.rpartition('.')[0]}.1")
            guest.run("python3", "-c", PING, f"{address.rpartition('.')[0]}.1")
        for guest, target in ((one, places[1][1]), (other, places[0][1])):
            assert guest.run("python3", "-c", PING, target, check=False).returncode == 1, f"{target} is reached"
        with Guest(host.pin(), places[0][0], "06:00:00:00:00:02") as beside:
            beside.run("ip", "address", "add", "172.22.0.91/24", "dev", "eth0")
            beside.run("python3", "-c", PING, places[0][1])
