"""A lab on a bridge and on a NIC of a pretend host: its wire leads outside, and both are as before when the lab is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.real.conftest import PretendHost, kill
from tests.real.guest import Guest

pytestmark = pytest.mark.real

SITE = """
ip link add br0 mtu 1450 type bridge
ip address add 10.9.0.2/24 dev br0
ip link set br0 up
ip link add card mtu 1450 type veth peer name card-far
ip link set card master br0 up
ip link set card-far up
ip link add br1 type bridge
ip link set br1 up
ip link add nic0 mtu 1400 type veth peer name nic0-far
ip link set nic0-far master br1 up
ip link set nic0 up
ip address add 198.51.100.9/24 dev nic0
ip route add 203.0.113.0/24 via 198.51.100.1 metric 7
"""
LAB = """
networks:
  cluster: {attach: DEVICE, cidr: 10.9.0.0/24, gateway: 10.9.0.7, api_vip: 10.9.0.5, ingress_vip: 10.9.0.4}
servers: {}
"""
MANAGER = """#!/bin/sh
echo "$@" >> FOLDER.log
case "$*" in *RUNNING*) echo running ;; *STATE*) echo "30 (disconnected)" ;; esac
"""
"""As much of NetworkManager as is asked for; what it was told is written down."""
OUTSIDE = "06:00:00:00:00:09"


def seen(host: PretendHost) -> dict[str, object]:
    """In any order, without the addresses and routes that IPv6 gives every link after a moment, and without the state of
    links, which the kernel tells late (`UNKNOWN`); whether they are up is among their flags."""
    found = host.snapshot()
    for key in ("links", "addresses", "routes"):
        lines = [line for line in found[key].splitlines() if "ff00::" not in line]
        found[key] = sorted(
            " ".join(word for word in line.split() if "fe80:" not in word and word not in ("UP", "UNKNOWN"))
            for line in lines
        )
    found["routes"] = [
        line for line in found["routes"] if " metric 256" not in line and not line.startswith("local dev")
    ]
    return found


def meet(host: PretendHost, bridge: str) -> None:
    """Somebody on the site's network reaches the lab's API."""
    with Guest(Path(f"/proc/{host.pid}/ns/net"), bridge, OUTSIDE) as guest:
        guest.run("ip", "address", "add", "10.9.0.99/24", "dev", "eth0")
        assert guest.connects("10.9.0.7", 6443)


def test_a_bridge_and_then_a_nic_lead_into_the_lab_and_are_given_back_after_a_crash(host: PretendHost) -> None:
    for line in SITE.strip().splitlines():
        host.run(*line.split())
    manager = host.folder / "nmcli"
    manager.write_text(MANAGER.replace("FOLDER", str(host.folder / "nmcli")))
    manager.chmod(0o755)
    host.run("mount", "-t", "tmpfs", "tmpfs", "/usr/local/bin")
    host.run("cp", str(manager), "/usr/local/bin/nmcli")
    told = host.folder / "nmcli.log"
    told.touch()
    described = host.folder / "lab.yaml"
    described.write_text(LAB.replace("DEVICE", "br0"))
    mac = json.loads(host.run("ip", "-json", "link", "show", "br0").stdout)[0]["address"]
    before = seen(host)
    host.rackless("up", "--until", "lab")
    link = json.loads(host.run("ip", "-json", "link", "show", "br0").stdout)[0]
    assert (link["address"], link["mtu"]) == (mac, 1450), "one more port, and nothing else about the bridge changed"
    meet(host, "br0")
    described.write_text(LAB.replace("DEVICE", "{device: nic0, in_use: true}"))
    host.rackless("up", "--until", "lab")
    assert host.run("ip", "link", "show", "nic0", check=False).returncode != 0, "it is in the lab"
    meet(host, "br1")
    kill(*(pid for pid, _ in host.inhabitants()))
    host.rackless("destroy", "--yes")
    described.write_text(LAB.replace("DEVICE", "br0"))
    assert "device set nic0 managed no\n" in told.read_text() and told.read_text().endswith(
        "device set nic0 managed yes\n"
    )
    assert seen(host) == before
