"""An installer switches all its servers on at once: real guests start in turn, and a turn outlives the process that promised it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.libvirt.binding import libvirt
from tests.real import bootable
from tests.real.private_libvirtd import private_libvirtd

pytestmark = [pytest.mark.real, pytest.mark.alone]  # a server has eight seconds to start before the next one's turn

COUNT, LIMIT = 5, 2
AUTH = "Basic " + b64encode(b"admin:real").decode()
XML = """<domain type='qemu'><name>box-{number}</name><memory unit='MiB'>32</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type><boot dev='hd'/></os>
<devices><emulator>{emulator}</emulator><disk type='file' device='disk'><driver name='qemu' type='raw'/>
<source file='{disk}'/><target dev='hda' bus='ide'/><shareable/></disk>
<controller type='usb' model='none'/><memballoon model='none'/></devices></domain>"""


class Fleet:
    """`rackless bmc serve` for these domains; it can be killed and started again."""

    def __init__(self, folder: Path, uri: str) -> None:
        self._folder, self._uri = folder, uri
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.systems: list[dict[str, Any]] = []
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rackless", "bmc", "serve", "--uri", self._uri, "--http", "--json",
             "--redfish-port", str(self.port), "--ipmi-base-port", str(self.port), "--max-starting", str(LIMIT),
             "--password-file", str(self._folder / "password"), "--state", str(self._folder / "state")],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.systems = [json.loads(self.process.stdout.readline()) for _ in range(COUNT)]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def ask(self, url: str, body: Any = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(url, data, {"Authorization": AUTH, "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def switch_all_on(self) -> None:
        def on(system: dict[str, Any]) -> None:
            self.ask(f"{system['redfish']}/Actions/ComputerSystem.Reset", {"ResetType": "On"})

        with ThreadPoolExecutor(COUNT) as pool:
            list(pool.map(on, self.systems))

    def power(self) -> Counter[str]:
        with ThreadPoolExecutor(COUNT) as pool:
            return Counter(pool.map(lambda system: self.ask(system["redfish"])["PowerState"], self.systems))

    def ipmi_power(self) -> set[str]:
        """All at once, like the requests before: a slot is kept for eight seconds only."""
        with ThreadPoolExecutor(COUNT) as pool:
            return set(pool.map(lambda system: self._ipmitool(system["ipmi_port"]), self.systems))

    def _ipmitool(self, port: int) -> str:
        where = ["-H", "127.0.0.1", "-p", str(port), "-U", "admin", "-P", "real", "-C", "17"]
        done = subprocess.run(
            ["ipmitool", "-I", "lanplus", *where, "power", "status"], capture_output=True, text=True, timeout=30
        )
        return done.stdout.strip() or done.stderr


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[tuple[Fleet, Any]]:
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    if shutil.which("ipmitool") is None:
        pytest.skip("ipmitool is not here")
    (tmp_path / "password").write_text("real")
    disk = bootable.disk(tmp_path, "HERE", uefi=False)
    with private_libvirtd(tmp_path / "libvirtd") as daemon:
        uri = daemon.uri("qemu:///system")
        connection = libvirt().open(uri)
        for number in range(COUNT):
            connection.defineXML(XML.format(number=number, emulator=shutil.which("qemu-system-x86_64"), disk=disk))
        fleet = Fleet(tmp_path, uri)
        try:
            yield fleet, connection
        finally:
            fleet.kill()
            for domain in connection.listAllDomains():
                with suppress(libvirt().libvirtError):
                    domain.destroy()
            connection.close()


def running(connection: Any) -> int:
    return len(connection.listAllDomains(libvirt().VIR_CONNECT_LIST_DOMAINS_ACTIVE))


def test_servers_start_in_turn_and_a_promised_start_outlives_its_process(fleet: tuple[Fleet, Any]) -> None:
    bmcs, connection = fleet
    bmcs.switch_all_on()
    assert running(connection) == LIMIT
    assert bmcs.power() == {"On": LIMIT, "PoweringOn": COUNT - LIMIT}
    assert bmcs.ipmi_power() == {"Chassis Power is on"}

    bmcs.kill()  # before any of them had its turn: nobody asks for them again
    before = running(connection)
    bmcs.start()
    assert before < COUNT
    end = time.monotonic() + 180
    while (found := bmcs.power()) != {"On": COUNT}:
        assert time.monotonic() < end, found
        time.sleep(0.2)
    assert running(connection) == COUNT
