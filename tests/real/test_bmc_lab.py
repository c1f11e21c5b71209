"""The BMC of a lab's server: faults asked of the running lab, the record of who did what, and an image to boot from."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real import bootable
from tests.real.conftest import PretendHost

pytestmark = pytest.mark.real

SYSTEM = "/redfish/v1/Systems/1"


def ask(host: PretendHost, path: str, body: Any = None, *, method: str = "POST") -> int:
    """The status the BMC answers with; 0 when it does not answer."""
    status = host.status()["servers"][0]
    password = (host.folder / "state/lab/secrets/bmc.password").read_text().strip()
    sending = ["-X", method, "-H", "Content-Type: application/json", "-d", json.dumps(body)] if body else []
    done = host.run(
        "nsenter", f"--net={host.folder}/run/lab/net", "--", "curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}",
        "-u", f"admin:{password}", *sending, f"{status['bmc']}{path}", check=False,
    )  # fmt: skip
    return int(done.stdout)


def test_a_lab_is_asked_for_faults_shows_them_and_writes_down_who_did_what(host: PretendHost) -> None:
    (host.folder / "lab.yaml").write_text("servers: {box: {count: 1, role: spare}}\n")
    host.rackless("up", "--until", "bmc")
    reset = f"{SYSTEM}/Actions/ComputerSystem.Reset"
    assert ask(host, SYSTEM) == 200

    added = host.rackless("bmc", "fault", "add", "refuse", "--server", "box-0", "--operation", "power", "--count", "1")
    assert "refuse with 503 at power of box-0, 1 left" in added.stdout
    host.rackless("bmc", "fault", "add", "drop", "--operation", "read")
    assert [fault["trouble"] for fault in host.status()["faults"]] == ["refuse", "drop"]
    assert "drop at read of every server" in host.rackless("status").stdout
    assert host.rackless("bmc", "fault", "add", "delay", "--server", "nobody", check=False).returncode == 2

    assert ask(host, SYSTEM) == 0
    assert [ask(host, reset, {"ResetType": "ForceOff"}) for _ in range(2)] == [503, 204]
    listed = json.loads(host.rackless("bmc", "fault", "list", "--json").stdout)
    assert [(fault["trouble"], fault["happened"] > 0) for fault in listed] == [("drop", True)]
    assert "1 taken away" in host.rackless("bmc", "fault", "clear").stdout
    assert ask(host, SYSTEM) == 200

    audit = host.folder / "state/lab/logs/bmc-audit.jsonl"
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(line["server"], line["user"], line["outcome"]) for line in lines] == [
        ("box-0", None, "503"),
        ("box-0", "admin", "204"),
    ]
    assert audit.stat().st_mode & 0o777 == 0o600


def test_a_lab_s_server_boots_from_an_inserted_image_once_and_then_from_its_disk(
    host: PretendHost, tmp_path: Path
) -> None:
    if shutil.which("grub-mkstandalone") is None:
        pytest.skip("the EFI program is made by grub-mkstandalone, which is not here")
    (host.folder / "lab.yaml").write_text("servers: {box: {count: 1, role: spare}}\n")
    host.rackless("up", "--until", "bmc")
    made = tmp_path / "made"
    made.mkdir()
    disk = host.folder / "state/lab/disks/box-0.qcow2"
    raw = bootable.disk(made, "FROMDISK", uefi=True)
    host.run("qemu-img", "convert", "-n", "-f", "raw", "-O", "qcow2", str(raw), str(disk))
    image = bootable.iso(made, "FROMISO", uefi=True)
    gateway = "192.168.111.1"  # a BMC fetches nothing from a BMC
    files = subprocess.Popen(
        host.enter(
            "nsenter", f"--net={host.folder}/run/lab/net", "--", sys.executable, "-m", "http.server", "8099",
            "--bind", gateway, "--directory", str(made),
        ),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    console = host.folder / "state/lab/logs/console/box-0.log"

    def words() -> list[str]:
        text = console.read_text(errors="replace") if console.exists() else ""
        return re.findall("FROMISO|FROMDISK", text)

    def until(what: Callable[[], bool]) -> None:
        end = time.monotonic() + 240
        while not what():
            assert time.monotonic() < end, words()
            time.sleep(0.2)

    try:
        insert = f"{SYSTEM}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
        until(lambda: ask(host, insert, {"Image": f"http://{gateway}:8099/{image.name}"}) == 204)
        once = {"BootSourceOverrideTarget": "Cd", "BootSourceOverrideEnabled": "Once"}
        assert ask(host, SYSTEM, {"Boot": once}, method="PATCH") == 200
        assert ask(host, f"{SYSTEM}/Actions/ComputerSystem.Reset", {"ResetType": "On"}) == 204
        until(lambda: len(words()) > 1)  # the CD restarts the computer by itself, and stays in its drive
        assert words() == ["FROMISO", "FROMDISK"]
        assert ask(host, f"{SYSTEM}/Actions/ComputerSystem.Reset", {"ResetType": "ForceOff"}) == 204
    finally:
        files.terminate()
        files.wait()
