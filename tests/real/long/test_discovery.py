"""A server that nobody has described, from its firmware on: UEFI, TFTP, iPXE, Ironic's script, the agent, multicast DNS, Ironic.
There it is as a host without a BMC."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.computer import LinuxComputer
from rackless.lab.network_boot import find_loaders
from rackless.spec.load import parse
from tests.real.conftest import PretendHost

pytestmark = [
    pytest.mark.real,
    pytest.mark.long("discovery"),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]

MAC = "02:00:00:00:77:09"
NAME = "discovered-020000007709"
LAB = """\
networks:
  provisioning: {mode: managed, discover: mdns}
servers: {}
"""
# its disk is on a bus for which the deploy ramdisk has a driver
STRANGER = """\
<domain type="qemu">
  <name>stranger</name>
  <memory unit="MiB">2048</memory>
  <vcpu>1</vcpu>
  <cpu mode="custom" match="exact" check="none"><model fallback="forbid">Nehalem</model></cpu>
  <os>
    <type arch="x86_64" machine="q35">hvm</type>
    <loader readonly="yes" type="pflash">/usr/share/OVMF/OVMF_CODE_4M.fd</loader>
    <nvram template="/usr/share/OVMF/OVMF_VARS_4M.fd">{folder}/stranger.fd</nvram>
    <boot dev="network"/>
  </os>
  <features><acpi/></features>
  <devices>
    <controller type="scsi" index="0" model="virtio-scsi"/>
    <controller type="usb" model="none"/>
    <disk type="file" device="disk">
      <driver name="qemu" type="raw" cache="unsafe"/>
      <source file="{folder}/stranger.img"/>
      <target dev="sda" bus="scsi"/>
    </disk>
    <interface type="bridge">
      <source bridge="{bridge}"/>
      <mac address="{mac}"/>
      <model type="virtio"/>
      <rom enabled="no"/>
    </interface>
    <serial type="file"><source path="{folder}/stranger.log"/></serial>
    <rng model="virtio"><backend model="random">/dev/urandom</backend></rng>
  </devices>
</domain>
"""
WITHIN_S = 1200


def test_a_server_that_nobody_described_boots_from_the_network_and_becomes_a_host(public: PretendHost) -> None:
    host = public  # QEMU may look into its folder
    (host.seen(host.folder) / "lab.yaml").write_text(LAB)
    host.rackless("up", "-f", str(host.folder / "lab.yaml"), "--until", "engine")
    metal, bridge = host.folder / "metal", parse(LAB, "lab").networks.provisioning.bridge
    host.seen(metal).mkdir(mode=0o755)
    with (host.seen(metal) / "stranger.img").open("wb") as disk:
        disk.truncate(6 << 30)
    (host.seen(host.folder) / "stranger.xml").write_text(STRANGER.format(folder=metal, mac=MAC, bridge=bridge))
    try:
        host.rackless("exec", "--", "virsh", "create", str(host.folder / "stranger.xml"))
        found = _await_host(host, metal / "stranger.log")
        _check(host, found)
    finally:
        host.rackless("exec", "--", "virsh", "destroy", "stranger", check=False)


def _check(host: PretendHost, found: dict[str, Any]) -> None:
    assert found["spec"]["bootMACAddress"] == MAC and not found["spec"].get("bmc") and not found["spec"]["online"]
    status = found["status"]
    assert (status["provisioning"]["state"], status["operationalStatus"]) == ("unmanaged", "discovered")
    hardware = status["hardware"]
    [nic] = [nic for nic in hardware["nics"] if nic["mac"] == MAC]
    assert nic["pxe"] and nic["ip"].startswith("172.22.0."), nic
    assert 1500 < hardware["ramMebibytes"] <= 2048 and hardware["cpu"]["count"] == 1
    assert [disk["sizeBytes"] for disk in hardware["storage"]] == [6 << 30]
    [data] = _kubectl(host, "get", "hardwaredata", NAME)
    assert data["spec"]["hardware"] == hardware
    events = _kubectl(host, "get", "events", "--field-selector", f"involvedObject.name={NAME}")
    assert "Discovered" in {event["reason"] for event in events}

    # every part has had its turn: UEFI's own PXE by TFTP, iPXE's script by HTTP, and nothing of it is left in Ironic
    log = (host.seen(host.folder) / "state/lab/logs/network-boot.log").read_text()
    assert find_loaders(LinuxComputer()).uefi in log and f"DHCPACK(provisioning) {nic['ip']} {MAC}" in log
    assert "running" in host.rackless("exec", "--", "virsh", "domstate", "stranger").stdout, "nothing is switched"


def _await_host(host: PretendHost, console: Path) -> dict[str, Any]:
    end = time.monotonic() + WITHIN_S
    while True:
        for found in _kubectl(host, "get", "bmh", "-l", "rackless.test/discovered"):
            if ((found.get("status") or {}).get("hardware")) and found["metadata"]["name"] == NAME:
                return found
        assert time.monotonic() < end, _last_words(host, console)
        time.sleep(5)


def _last_words(host: PretendHost, console: Path) -> str:
    seen = host.seen(console)
    said = seen.read_text(errors="replace")[-2000:] if seen.exists() else "no console"
    log = (host.seen(host.folder) / "state/lab/logs/network-boot.log").read_text()[-2000:]
    return f"{said}\n---\n{log}"


def _kubectl(host: PretendHost, *words: str) -> list[dict[str, Any]]:
    found = json.loads(host.rackless("exec", "--", "kubectl", *words, "-o", "json").stdout)
    return list(found["items"]) if "items" in found else [found]
