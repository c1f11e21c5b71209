"""The BMC of a lab's server: faults asked of the running lab, and the record of who did what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.real.conftest import PretendHost

pytestmark = pytest.mark.real

SYSTEM = "/redfish/v1/Systems/1"


def ask(host: PretendHost, path: str, body: Any = None) -> int:
    """The status the BMC answers with; 0 when it does not answer."""
    status = host.status()["servers"][0]
    password = (host.folder / "state/lab/secrets/bmc.password").read_text().strip()
    sending = ["-X", "POST", "-H", "Content-Type: application/json", "-d", json.dumps(body)] if body else []
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
