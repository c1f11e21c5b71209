"""Redfish clients written by others: Ansible's modules and DMTF's own utilities, against BMCs with TLS."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.adversary.bmc_host import Host, bmc_host
from tests.bmc.conftest import ADMIN, authority  # noqa: F401 - a fixture
from tests.real.strangers import ANSIBLE, UTILITIES, environment, file_server

pytestmark = pytest.mark.real

PLAYBOOK = Path(__file__).parent / "playbooks" / "redfish.yaml"
FILES = {"boot.iso": b"an image" * 1000, "bios-2.14.3.bin": b"firmware", "bmc-7.0.1.bin": b"firmware"}
Authority = Callable[[list[str]], tuple[ssl.SSLContext, Path]]


@pytest.fixture
def bmc(authority: Authority) -> Iterator[Host]:  # noqa: F811
    _, certificate = authority(["127.77.0.1"])
    with bmc_host(1, tls=certificate.parent) as host:
        yield host


def run(*argv: str, **environment: str) -> str:
    found = subprocess.run(
        argv,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
        timeout=900,
    )
    assert found.returncode == 0, found.stdout
    return found.stdout


def test_a_playbook_for_metal_works(bmc: Host, tmp_path: Path) -> None:
    programs = environment("ansible", ANSIBLE)
    with file_server(FILES) as files:
        given = {
            "bmc": f"{bmc.addresses[0]}:{bmc.port}", "username": ADMIN.username, "password": ADMIN.password,
            "ipmi_port": bmc.ipmi_port, "files": files,
            "ansible_python_interpreter": str(programs / "python"),
        }  # fmt: skip
        output = run(
            str(programs / "ansible-playbook"), "-i", "localhost,", "-c", "local", str(PLAYBOOK), "-e", json.dumps(given),
            ANSIBLE_HOME=str(tmp_path), ANSIBLE_LOCALHOST_WARNING="False", ANSIBLE_NOCOLOR="1",
        )  # fmt: skip
    assert "failed=0" in output
    assert not bmc.tell().notes


UTILITY_CALLS: dict[str, list[list[str]]] = {
    "rf_sys_inventory.py": [[]],
    "rf_firmware_inventory.py": [[]],
    "rf_sensor_list.py": [[]],
    "rf_logs.py": [["--system", "1"]],
    "rf_bios_settings.py": [[], ["-a", "NumLock", "Off"]],
    "rf_boot_override.py": [["--info"], ["--target", "Pxe"], ["--target", "None"]],
    "rf_power_reset.py": [["--info"], ["-t", "On"], ["-t", "ForceOff"]],
    "rf_accounts.py": [[], ["--add", "bob", "bobs-password", "Operator"], ["--setrole", "bob", "ReadOnly"], ["--delete", "bob"]],
    "rf_virtual_media.py": [["info"], ["insert", "--image", "FILES/boot.iso"], ["eject", "--id", "Cd"]],
    "rf_event_service.py": [["info"], ["subscribe", "--dest", "https://events.invalid/"]],
    "rf_update.py": [["-i", "FILES/bios-2.14.3.bin"]],
    "rf_manager_config.py": [["info"], ["getnet"], ["getprotocol"]],
}  # fmt: skip


@pytest.mark.parametrize("utility", UTILITY_CALLS)
def test_dmtfs_utilities_work(bmc: Host, utility: str) -> None:
    programs = environment("redfish-utilities", UTILITIES)
    with file_server(FILES) as files:
        for call in UTILITY_CALLS[utility]:
            login = ["-u", ADMIN.username, "-p", ADMIN.password, "-r", f"https://{bmc.addresses[0]}:{bmc.port}"]
            run(
                str(programs / "python"),
                str(programs / utility),
                *login,
                *(one.replace("FILES", files) for one in call),
            )
    assert not bmc.tell().notes
