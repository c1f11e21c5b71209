"""The bootstrap machine on one of the servers: started from a disc in its BMC's virtual drive, by Redfish and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from rackless.installer.install_config.live.redfish import RedfishError, RedfishReader, virtual_cd

SWITCHED_WITHIN = 60.0
INSERTED_WITHIN = 300.0
"""Seconds for a BMC to fetch the disc."""
LOOK_EVERY = 1.0


def ensure(client: RedfishReader, image: str) -> bool:
    """Boot the server from this disc; False when it runs from it already. Raises RedfishError."""
    system, drive = _find(client)
    if _holds(drive[1], image) and system.get("PowerState") == "On":
        return False
    _switch(client, "ForceOff", "Off")
    if drive[1].get("Inserted"):
        _act(client, drive, "EjectMedia", {})
    _act(client, drive, "InsertMedia", {"Image": image, "Inserted": True, "WriteProtected": True})
    if not _until(lambda: _holds(client.get(drive[0]), image), INSERTED_WITHIN):
        raise RedfishError("the disc does not come into its virtual drive", "can the BMC reach the release server?")
    _boot_from(client, {"BootSourceOverrideTarget": "Cd", "BootSourceOverrideEnabled": "Continuous"})
    _switch(client, "On", "On")
    return True


def retire(client: RedfishReader, image: str) -> bool:
    """Switch it off and take the disc out; False where another one is in the drive, or none: somebody else has the server then."""
    _, drive = _find(client)
    if not _holds(drive[1], image):
        return False
    _switch(client, "ForceOff", "Off")
    _boot_from(client, {"BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled"})
    _act(client, drive, "EjectMedia", {})
    return True


def _find(client: RedfishReader) -> tuple[dict[str, Any], tuple[str, dict[str, Any]]]:
    system = client.get(client.address.path)
    drive = virtual_cd(client, system)
    if drive is None:
        raise RedfishError("it has no virtual CD with InsertMedia", "have the bootstrap machine elsewhere")
    return system, drive


def _holds(drive: dict[str, Any], image: str) -> bool:
    return bool(drive.get("Inserted")) and drive.get("Image") == image


def _boot_from(client: RedfishReader, boot: dict[str, str]) -> None:
    client.send("PATCH", client.address.path, json.dumps({"Boot": boot}))


def _switch(client: RedfishReader, how: str, wanted: str) -> None:
    path = client.address.path
    if client.get(path).get("PowerState") == wanted:
        return
    _post(client, client.get(path), path, "ComputerSystem.Reset", {"ResetType": how})
    if not _until(lambda: client.get(path).get("PowerState") == wanted, SWITCHED_WITHIN):
        raise RedfishError(f"it does not go {wanted.lower()}", "look at the server itself")


def _act(client: RedfishReader, drive: tuple[str, dict[str, Any]], what: str, body: dict[str, Any]) -> None:
    path, found = drive
    _post(client, found, path, f"VirtualMedia.{what}", body)


def _post(client: RedfishReader, thing: dict[str, Any], path: str, name: str, body: dict[str, Any]) -> None:
    actions = thing.get("Actions")
    action = actions.get(f"#{name}") if isinstance(actions, dict) else None
    target = action.get("target") if isinstance(action, dict) else None
    place = target if isinstance(target, str) and target.startswith("/") else f"{path}/Actions/{name}"
    client.send("POST", place, json.dumps(body))


def _until(seen: Callable[[], bool], within: float) -> bool:
    end = time.monotonic() + within
    while not seen():
        if time.monotonic() >= end:
            return False
        time.sleep(LOOK_EVERY)
    return True
