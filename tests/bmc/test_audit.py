"""Every change is written down, with who and what became of it, and without secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rackless.bmc.core.faults import BmcFault, Trouble
from tests.bmc.conftest import ADMIN, VIEWER, Files, MakeRack

SYSTEM = "/redfish/v1/Systems/1"
INSERT = f"{SYSTEM}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
SECRETS = (ADMIN.password, "h1dden", "t0ken", "n3w-password")


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


async def test_changes_are_written_down_with_client_user_and_outcome(make_rack: MakeRack, tmp_path: Path) -> None:
    file = tmp_path / "logs/audit.jsonl"
    rack = await make_rack(audit=file)
    assert await rack.power() == "Off"
    assert await rack.reset("On") == 204
    assert await rack.reset("Banana") == 400
    await rack.ask("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideTarget": "Pxe"}}, as_=VIEWER)
    await rack.ask("PATCH", SYSTEM, {"AssetTag": "x"}, as_=None)
    found = lines(file)
    assert [(line["user"], line["outcome"], line["ok"]) for line in found] == [
        ("admin", "204", True),
        ("admin", "400", False),
        ("viewer", "403", False),
        (None, "401", False),
    ]
    assert found[0]["details"] == {"ResetType": "On"}
    assert {line["server"] for line in found} == {"server-0"}
    assert {line["client"] for line in found} == {"127.0.0.1"}
    assert found[0]["bmc"] == rack.addresses[0]
    assert file.stat().st_mode & 0o777 == 0o600


async def test_no_secret_is_written_down(make_rack: MakeRack, tmp_path: Path, files: Files) -> None:
    file = tmp_path / "audit.jsonl"
    rack = await make_rack(audit=file)
    files.contents["a.iso"] = b"iso"
    host = files.url.removeprefix("http://")
    await rack.ask("POST", "/redfish/v1/SessionService/Sessions", {"UserName": "admin", "Password": ADMIN.password})
    await rack.ask("POST", INSERT, {"Image": f"http://u:h1dden@{host}/a.iso?sig=t0ken", "Password": "h1dden"})
    await rack.ask("PATCH", "/redfish/v1/AccountService/Accounts/1", {"Password": "n3w-password"})
    text = file.read_text()
    assert not [secret for secret in SECRETS if secret in text]
    login, insert, account = lines(file)
    assert login["user"] == "admin"
    assert insert["details"] == {"Image": f"{files.url}/a.iso"}
    assert account["action"] == "PATCH /redfish/v1/AccountService/Accounts/1"


async def test_a_request_that_was_dropped_is_told_as_such(make_rack: MakeRack, tmp_path: Path) -> None:
    rack = await make_rack(audit=tmp_path / "audit.jsonl")
    rack.fleet.faults.add(BmcFault(Trouble.DROP, count=1))
    with pytest.raises(aiohttp.ClientError):
        await rack.reset("On")
    assert [line["outcome"] for line in lines(tmp_path / "audit.jsonl")] == ["dropped"]
