"""Real guests and their BMCs: what an override boots from, once; and a libvirtd that goes away meanwhile."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.libvirt.binding import libvirt
from rackless.drivers.libvirt.firmware_xml import OVMF
from tests.real import bootable, redfish_client
from tests.real.private_libvirtd import PrivateLibvirtd, private_libvirtd

pytestmark = pytest.mark.real

PATIENCE = 180.0  # emulated, on a machine with other work


@dataclass
class Box:
    """One server somebody defined without us, with the BMC `rackless bmc serve` gives it."""

    daemon: PrivateLibvirtd
    console: Path
    url: str
    system: str

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return redfish_client.ask(f"{self.url}{path}", method, body)

    def get(self, path: str = "") -> Any:
        status, value = self.ask("GET", f"{self.system}{path}")
        assert status == 200
        return value

    def reset(self, kind: str) -> None:
        status, _ = self.ask("POST", f"{self.system}/Actions/ComputerSystem.Reset", {"ResetType": kind})
        assert status == 204

    def boot_once_from_cd(self) -> None:
        wish = {"BootSourceOverrideTarget": "Cd", "BootSourceOverrideEnabled": "Once"}
        assert self.ask("PATCH", self.system, {"Boot": wish})[0] == 200

    def text(self) -> str:
        return self.console.read_text(errors="replace") if self.console.exists() else ""

    def definition(self) -> str:
        connection = libvirt().open(self.daemon.uri("qemu:///system"))
        try:
            return str(connection.lookupByName("box").XMLDesc(libvirt().VIR_DOMAIN_XML_INACTIVE))
        finally:
            connection.close()

    def words(self) -> list[str]:
        """What the guests said so far, in order."""
        text = self.text()
        found = [(at, word) for word in ("FROMISO", "FROMDISK") for at in _places(text, word)]
        return [word for _, word in sorted(found)]


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.1)


def _xml(folder: Path, disk: Path, console: Path, *, uefi: bool) -> str:
    """By kinds of devices, as older tools define them; with BIOS also without a CD drive."""
    code, variables = next(pair for pair in OVMF if Path(pair[0]).exists())
    loader = (
        f"<loader readonly='yes' type='pflash'>{code}</loader><nvram template='{variables}'>{folder}/vars.fd</nvram>"
    )
    drive = "<disk type='file' device='cdrom'><target dev='sdb' bus='sata'/><readonly/></disk>" if uefi else ""
    return f"""<domain type='qemu'><name>box</name><memory unit='MiB'>128</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='{"q35" if uefi else "pc"}'>hvm</type>{loader if uefi else ""}<boot dev='hd'/></os>
<features><acpi/></features><on_reboot>restart</on_reboot>
<devices><emulator>{shutil.which("qemu-system-x86_64")}</emulator>
<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{disk}'/>
<target dev='{"sda" if uefi else "hda"}' bus='{"sata" if uefi else "ide"}'/></disk>{drive}
<serial type='file'><source path='{console}' append='on'/></serial><memballoon model='none'/></devices></domain>"""


@pytest.fixture(params=["uefi", "bios"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Box]:
    uefi = request.param == "uefi"
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    if uefi and shutil.which("grub-mkstandalone") is None:
        pytest.skip("the EFI program is made by grub-mkstandalone, which is not here")
    (tmp_path / "password").write_text("real")
    console = tmp_path / "console"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    disk = bootable.disk(tmp_path, "FROMDISK", uefi=uefi)
    with private_libvirtd(tmp_path / "libvirtd") as daemon:
        uri = daemon.uri("qemu:///system")
        connection = libvirt().open(uri)
        domain = connection.defineXML(_xml(tmp_path, disk, console, uefi=uefi))
        id = domain.UUIDString()
        connection.close()
        serving = subprocess.Popen(
            [sys.executable, "-m", "rackless", "bmc", "serve", "--uri", uri, "--http", "--redfish-port", str(port),
             "--password-file", str(tmp_path / "password"), "--state", str(tmp_path / "state"), "--json"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert serving.stdout is not None
            assert json.loads(serving.stdout.readline())["uuid"] == id
            yield Box(daemon, console, f"http://127.0.0.1:{port}", f"/redfish/v1/Systems/{id}")
        finally:
            serving.terminate()
            serving.communicate()
            with suppress(libvirt().libvirtError):
                libvirt().open(uri).lookupByName("box").destroy()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "www"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_guest_boots_from_an_inserted_image_once_and_then_from_disk(box: Box, files: str, tmp_path: Path) -> None:
    uefi = box.get()["Boot"]["BootSourceOverrideMode"] == "UEFI"
    image = bootable.iso(tmp_path, "FROMISO", uefi=uefi)
    image.rename(tmp_path / "www/boot.iso")
    insert = f"{box.system}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
    assert box.ask("POST", insert, {"Image": f"{files}/boot.iso"})[0] == 204
    definition = box.definition()
    box.boot_once_from_cd()

    box.reset("On")
    assert box.get()["Boot"]["BootSourceOverrideEnabled"] == "Disabled"
    # the CD restarts the computer by itself; it is still in the drive, and the disk's turn has come
    until(lambda: len(box.words()) > 1)
    assert box.words() == ["FROMISO", "FROMDISK"]
    assert box.get("/VirtualMedia/Cd")["Inserted"] is True

    # an override that is set while the guest runs counts for its next start
    box.boot_once_from_cd()
    box.reset("ForceRestart")
    until(lambda: len(box.words()) > 3)
    assert box.words() == ["FROMISO", "FROMDISK"] * 2

    box.reset("ForceOff")
    box.reset("On")
    until(lambda: len(box.words()) > 4)
    assert box.words()[4:] == ["FROMDISK"]
    assert box.definition() == definition, "nothing of how it was started is left in the definition"


@pytest.mark.parametrize("box", ["bios"], indirect=True)
def test_while_libvirtd_restarts_nothing_wrong_is_said(box: Box) -> None:
    box.reset("On")
    until(lambda: box.words() == ["FROMDISK"])
    said: list[tuple[int, str]] = []
    stopping = threading.Event()

    def watch() -> None:
        while not stopping.is_set():
            status, value = box.ask("GET", box.system)
            said.append((status, value["PowerState"] if value else ""))
            time.sleep(0.005)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    box.daemon.process.send_signal(signal.SIGKILL)
    box.daemon.process.wait()
    until(lambda: (503, "") in said)
    box.daemon.restart()
    until(lambda: said[-1] == (200, "On"))
    stopping.set()
    watching.join()
    assert set(said) == {(200, "On"), (503, "")}
    box.reset("ForceOff")
    assert box.get()["PowerState"] == "Off"
    assert box.words() == ["FROMDISK"]


@pytest.mark.parametrize("box", ["uefi"], indirect=True)
def test_the_set_up_screen_is_shown_once_and_secure_boot_refuses_what_is_not_signed(box: Box) -> None:
    boot = {"BootSourceOverrideTarget": "BiosSetup", "BootSourceOverrideEnabled": "Once"}
    assert box.ask("PATCH", box.system, {"Boot": boot})[0] == 200
    box.reset("On")
    until(lambda: "Boot Manager" in box.text() and "Boot Maintenance" in box.text())
    assert box.words() == []
    box.reset("ForceRestart")
    until(lambda: box.words() == ["FROMDISK"])

    assert box.ask("PATCH", f"{box.system}/SecureBoot", {"SecureBootEnable": True})[0] == 200
    assert box.get("/SecureBoot")["SecureBootCurrentBoot"] == "Disabled"
    box.reset("ForceRestart")
    assert box.get("/SecureBoot")["SecureBootCurrentBoot"] == "Enabled"
    until(lambda: "Access Denied" in box.text() or "Security Violation" in box.text())
    assert box.words() == ["FROMDISK"]

    assert box.ask("PATCH", f"{box.system}/Bios/Settings", {"Attributes": {"SecureBoot": "Disabled"}})[0] == 200
    box.reset("ForceRestart")
    until(lambda: len(box.words()) > 1)
    assert box.get("/Bios")["Attributes"]["SecureBoot"] == "Disabled"
