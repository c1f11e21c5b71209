"""Servers that boot over the network, every part the real one: firmware, DHCP, TFTP, iPXE, HTTP, Ironic, IPMI and Redfish."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from rackless.drivers.computer import LinuxComputer
from rackless.lab.network_boot import find_loaders
from rackless.plan.addressing import plan_lab
from rackless.spec.load import parse
from tests.real.conftest import PretendHost, leaked_secrets
from tests.real.guest import Guest

pytestmark = pytest.mark.real

LAB = """\
servers:
  new: {bmc: redfish}
  old: {bmc: ipmi, firmware: bios}
"""
STRANGER = "06:00:00:00:00:01"
ARCHITECTURE, IPXE = 93, 175
BIOS, UEFI = b"\0\0", b"\0\7"
SCRIPT = "http://172.22.0.1:6180/boot.ipxe"


def check_what_firmware_is_told(host: PretendHost, mac: str) -> None:
    """The firmware of a server that is off, spoken for by a guest with its MAC; a stranger's gets nothing."""
    loaders = find_loaders(LinuxComputer())
    with Guest(host.pin(), "provisioning", mac) as guest:
        for options, file in (
            ({ARCHITECTURE: BIOS}, loaders.bios),
            ({ARCHITECTURE: UEFI}, loaders.uefi),
            ({ARCHITECTURE: BIOS, IPXE: b"\x01\x01\x01"}, SCRIPT),
            ({ARCHITECTURE: UEFI, IPXE: b"\x01\x01\x01"}, SCRIPT),
        ):
            lease = guest.dhcp(options=options)
            assert lease is not None
            assert (lease["address"], lease["next"], lease["file"]) == ("172.22.0.20", "172.22.0.1", file)
            assert (lease["router"], lease["dns"], lease["routes"]) == (None, None, [])
        guest.run("ip", "address", "add", "172.22.0.20/24", "dev", "eth0")
        for file in (loaders.bios, loaders.uefi):
            expected = hashlib.sha256((loaders.folder / file).read_bytes()).hexdigest()
            assert guest.tftp("172.22.0.1", file) == expected
    with Guest(host.pin(), "provisioning", STRANGER) as guest:
        assert guest.dhcp(patience=2.5, options={ARCHITECTURE: UEFI}) is None


def test_a_uefi_server_over_redfish_and_a_bios_server_over_ipmi_boot_by_ipxe_and_become_nodes(
    host: PretendHost,
) -> None:
    before = host.snapshot()
    (host.folder / "lab.yaml").write_text(LAB)
    new, old = plan_lab(parse(LAB, "lab")).servers

    host.rackless("up", "--until", "engine")
    check_what_firmware_is_told(host, new.boot_nic.mac)

    host.rackless("up")
    servers = {server["name"]: server for server in host.status()["servers"]}
    assert {name: server["host"] for name, server in servers.items()} == dict.fromkeys(servers, "provisioned")

    # how Ironic drove them: by the address of each, and from the NIC on the provisioning network
    for planned, mode in ((new, "UEFI"), (old, "legacy")):
        record = json.loads(host.rackless("host", "show", planned.name, "--json").stdout)
        assert record["spec"]["bmc"]["address"] == planned.bmc_url
        assert record["spec"]["bootMACAddress"] == planned.boot_nic.mac
        assert record["spec"].get("bootMode", "UEFI") == mode

    # UEFI fetched iPXE by TFTP; a BIOS of QEMU has it in its network card
    log = (host.folder / "state/lab/logs/network-boot.log").read_text()
    assert f"{find_loaders(LinuxComputer()).uefi} to {new.boot_nic.address}" in log
    assert f"DHCPACK(provisioning) {old.boot_nic.address} {old.boot_nic.mac}" in log

    # as seen from inside the nodes
    for planned, firmware in ((new, "uefi"), (old, "bios")):
        inside = host.rackless(
            "ssh", planned.name, "--", "hostname; test -d /sys/firmware/efi && echo uefi || echo bios"
        ).stdout.split()
        assert inside == [planned.name, firmware]

    assert leaked_secrets(host.folder / "state" / "lab") == []
    Path(host.folder / "lab.yaml").unlink()
    host.rackless("destroy", "--yes")
    assert host.snapshot() == before
