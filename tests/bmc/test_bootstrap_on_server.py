"""A server becomes an install's bootstrap machine, and is given back, through nothing but its BMC."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rackless.operations.bootstrap.server import ServerSetting
from tests.bmc.conftest import ADMIN, Files, Rack


async def carry_out(action: str, rack: Rack, image: str, folder: Path, password: str = ADMIN.password) -> Any:
    """As `install create cluster` does it: a process of its own."""
    bmc = f"redfish-virtualmedia+http://{rack.addresses[0]}:{rack.port}/redfish/v1/Systems/1"
    setting = folder / "setting.json"
    setting.write_text(ServerSetting(action, "worker-0", image, bmc, ADMIN.username, password).dump())
    argv = [sys.executable, "-P", "-m", "rackless.operations.bootstrap.server", str(setting)]
    done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


@pytest.fixture
def disc(files: Files) -> str:
    files.contents["bootstrap.iso"] = b"a disc"
    return f"{files.url}/bootstrap.iso"


async def drive(rack: Rack) -> Any:
    return await rack.get("/redfish/v1/Systems/1/VirtualMedia/Cd")


async def boots(rack: Rack) -> tuple[str, str, str]:
    """Whether it is on, from what it boots, and for how long that holds."""
    system = await rack.get("/redfish/v1/Systems/1")
    override = system["Boot"]
    return system["PowerState"], override["BootSourceOverrideTarget"], override["BootSourceOverrideEnabled"]


async def test_it_boots_from_the_disc_until_it_is_taken_out_again(rack: Rack, disc: str, tmp_path: Path) -> None:
    assert await carry_out("ensure", rack, disc, tmp_path) == {"changed": True}
    assert await boots(rack) == ("On", "Cd", "Continuous")
    found = await drive(rack)
    assert found["Inserted"] and found["Image"] == disc
    assert await carry_out("ensure", rack, disc, tmp_path) == {"changed": False}  # it runs, and is left alone

    assert await carry_out("retire", rack, disc, tmp_path) == {"changed": True}
    assert await boots(rack) == ("Off", "None", "Disabled")
    assert not (await drive(rack))["Inserted"]
    assert await carry_out("retire", rack, disc, tmp_path) == {"changed": False}


async def test_a_server_that_the_cluster_has_taken_over_is_not_switched_off(
    rack: Rack, disc: str, files: Files, tmp_path: Path
) -> None:
    """An install that is followed again comes here when the cluster is already installing its worker."""
    files.contents["agent.iso"] = b"Ironic's"
    assert await carry_out("ensure", rack, f"{files.url}/agent.iso", tmp_path) == {"changed": True}
    assert await carry_out("retire", rack, disc, tmp_path) == {"changed": False}
    assert await rack.power() == "On" and (await drive(rack))["Inserted"]


async def test_a_server_with_another_disc_is_started_anew_from_this_one(
    rack: Rack, disc: str, files: Files, tmp_path: Path
) -> None:
    files.contents["old.iso"] = b"an earlier install's"
    await carry_out("ensure", rack, f"{files.url}/old.iso", tmp_path)
    assert await carry_out("ensure", rack, disc, tmp_path) == {"changed": True}
    assert (await drive(rack))["Image"] == disc and await rack.power() == "On"


async def test_a_bmc_that_refuses_is_named_with_its_reason(rack: Rack, disc: str, tmp_path: Path) -> None:
    answer = await carry_out("ensure", rack, disc, tmp_path, password="a guess")
    assert answer["failed"] == "the BMC of worker-0 does not do it" and "401" in answer["why"]
    assert await rack.power() == "Off"
