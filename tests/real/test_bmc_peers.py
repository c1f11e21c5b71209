"""The same domains behind sushy-tools and behind `rackless bmc serve`: where sushy-tools is right, both say the same."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.libvirt.binding import libvirt
from tests.real import redfish_client
from tests.real.private_libvirtd import private_libvirtd

pytestmark = pytest.mark.real

SUSHY = Path.home() / ".cache/rackless-tests/sushy-tools/bin/sushy-emulator"
ID = "6695eb01-f6a4-8304-79aa-97f2502e193f"
SYSTEM = f"/redfish/v1/Systems/{ID}"
XML = f"""<domain type='test'><name>twin</name><uuid>{ID}</uuid><memory unit='MiB'>2048</memory><vcpu>2</vcpu>
<os><type arch='x86_64'>hvm</type><boot dev='hd'/></os><devices>
<disk type='file' device='disk'><source file='/dev/null'/><target dev='vda' bus='virtio'/></disk>
<disk type='file' device='cdrom'><target dev='hdc' bus='ide'/><readonly/></disk>
<interface type='user'><mac address='02:00:00:00:00:01'/></interface></devices></domain>"""
NOT_OURS = {"SimpleStorage"}
"""What sushy-tools has and Redfish has deprecated."""


@dataclass
class Peer:
    url: str

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return redfish_client.ask(f"{self.url}{path}", method, body)

    def get(self, path: str) -> Any:
        status, value = self.ask("GET", path)
        assert status == 200, path
        return value


@dataclass
class Both:
    sushy: Peer
    ours: Peer
    ipmi_port: int
    domain: Any

    def __iter__(self) -> Iterator[Peer]:
        return iter((self.sushy, self.ours))


def _free_ports() -> list[int]:
    with socket.socket() as one, socket.socket() as two, socket.socket() as three:
        for probe in (one, two, three):
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in (one, two, three)]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    if not SUSHY.exists():
        pytest.skip(f"sushy-tools is not in {SUSHY.parents[1]}; `scripts/bench bmc` puts it there")
    folder = tmp_path_factory.mktemp("peers")
    (folder / "password").write_text("real")
    theirs, mine, ipmi = _free_ports()
    with private_libvirtd(folder / "libvirtd") as daemon:
        uri = daemon.uri("test:///default")
        connection = libvirt().open(uri)
        for domain in connection.listAllDomains():
            domain.destroy()
            domain.undefine()
        domain = connection.defineXML(XML)
        (folder / "sushy.conf").write_text(
            f"SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\nSUSHY_EMULATOR_LISTEN_PORT = {theirs}\n"
            f"SUSHY_EMULATOR_LIBVIRT_URI = {uri!r}\nSUSHY_EMULATOR_STATE_DIR = {str(folder)!r}\n"
        )
        programs = [
            [str(SUSHY), "--config", str(folder / "sushy.conf")],
            [sys.executable, "-m", "rackless", "bmc", "serve", "--uri", uri, "--http", "--redfish-port", str(mine),
             "--ipmi-base-port", str(ipmi), "--password-file", str(folder / "password"),
             "--state", str(folder / "state")],
        ]  # fmt: skip
        with (folder / "log").open("wb") as log:
            running = [subprocess.Popen(argv, stdout=log, stderr=log) for argv in programs]
        both = Both(Peer(f"http://127.0.0.1:{theirs}"), Peer(f"http://127.0.0.1:{mine}"), ipmi, domain)
        try:
            for peer in both:
                _await(peer)
            yield both
        finally:
            for process in running:
                process.terminate()
                process.wait()
            connection.close()


def _await(peer: Peer) -> None:
    for _ in range(1200):
        try:
            peer.get("/redfish/v1/")
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"{peer.url} does not answer")


def test_they_name_and_count_the_same(both: Both) -> None:
    members = [peer.get("/redfish/v1/Systems")["Members"] for peer in both]
    assert members[0] == members[1] == [{"@odata.id": SYSTEM}]
    systems = [peer.get(SYSTEM) for peer in both]
    for name in ("Id", "Name", "UUID", "PowerState"):
        assert systems[0][name] == systems[1][name], name
    assert [system["MemorySummary"]["TotalSystemMemoryGiB"] for system in systems] == [2, 2]
    nics = [peer.get(f"{SYSTEM}/EthernetInterfaces")["Members"] for peer in both]
    macs = [{peer.get(nic["@odata.id"])["MACAddress"] for nic in found} for peer, found in zip(both, nics, strict=True)]
    assert macs[0] == macs[1] == {"02:00:00:00:00:01"}


def test_what_works_there_is_found_here_at_the_same_place(both: Both) -> None:
    theirs = both.sushy.get(SYSTEM)
    links = {
        name: value["@odata.id"] for name, value in theirs.items() if isinstance(value, dict) and "@odata.id" in value
    }
    working = {name: uri.rstrip("/") for name, uri in links.items() if both.sushy.ask("GET", uri)[0] == 200}
    missing = {name for name, uri in working.items() if both.ours.ask("GET", uri.replace("/BIOS", "/Bios"))[0] != 200}
    assert missing <= NOT_OURS
    for kind in ("Managers", "Chassis"):
        assert both.ours.get(f"/redfish/v1/{kind}")["Members"]
    assert (
        both.ours.ask("GET", f"/redfish/v1/Managers/{ID}")[0] == both.sushy.ask("GET", f"/redfish/v1/Managers/{ID}")[0]
    )
    assert both.ours.ask("GET", f"{SYSTEM}/VirtualMedia/Cd")[0] == both.sushy.ask("GET", f"{SYSTEM}/VirtualMedia/Cd")[0]


@pytest.mark.parametrize("which", ["sushy", "ours"])
def test_power_is_the_same_to_both_whoever_switches_it(both: Both, which: str) -> None:
    actor: Peer = getattr(both, which)
    for kind, state, active in (
        ("On", "On", 1), ("ForceRestart", "On", 1), ("ForceOff", "Off", 0), ("ForceOff", "Off", 0), ("ForceOn", "On", 1),
        ("GracefulShutdown", "Off", 0),
    ):  # fmt: skip
        status, _ = actor.ask("POST", f"{SYSTEM}/Actions/ComputerSystem.Reset", {"ResetType": kind})
        assert status == 204, kind
        assert both.domain.isActive() == active, kind
        end = time.monotonic() + 60
        while (said := [peer.get(SYSTEM)["PowerState"] for peer in both]) != [state, state]:
            assert time.monotonic() < end, (kind, said)
            time.sleep(0.02)


def test_a_lasting_boot_device_is_read_back_by_who_set_it(both: Both) -> None:
    for target in ("Pxe", "Cd", "Hdd"):
        wish = {"Boot": {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": "Continuous"}}
        for peer in both:
            assert peer.ask("PATCH", SYSTEM, wish)[0] in (200, 204)
            boot = peer.get(SYSTEM)["Boot"]
            assert (boot["BootSourceOverrideTarget"], boot["BootSourceOverrideEnabled"]) == (target, "Continuous")


def test_ipmi_has_its_port_beside(both: Both) -> None:
    if shutil.which("ipmitool") is None:
        pytest.skip("ipmitool is not here")
    argv = [
        "ipmitool",
        "-I",
        "lanplus",
        "-C",
        "17",
        "-H",
        "127.0.0.1",
        "-p",
        str(both.ipmi_port),
        "-U",
        "admin",
        "-P",
        "real",
    ]
    on = subprocess.run([*argv, "power", "on"], capture_output=True, text=True, timeout=30)
    assert on.returncode == 0, on.stderr
    end = time.monotonic() + 60
    while both.domain.isActive() != 1:  # a BMC answers after a moment, also when the server takes longer
        assert time.monotonic() < end
        time.sleep(0.1)
    assert "is on" in subprocess.run([*argv, "power", "status"], capture_output=True, text=True, timeout=30).stdout
