"""What Ironic does to a host beside installing it: settings of its firmware, an image in its drive, events of its BMC.

Each call reads the node and changes at most one thing, as in `provisioner`. What was begun is noted in the node's `extra`, so
that the next caller, also in another process, knows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackless.drivers.ironic.client import IronicClient, IronicFailed, IronicRefused, Json
from rackless.drivers.ironic.node import LATER, SOON
from rackless.ports.provisioner import Again, Done, ErrorKind, EventReceiver, Failed, Result

_TOLD = (
    "attribute_type", "allowable_values", "lower_bound", "upper_bound", "min_length", "max_length", "read_only", "unique",
)  # fmt: skip
_CONFIGURED = "firmware"
"""In `extra`: the firmware was given settings, and the server runs without an agent since."""
_MEDIA = "media"
"""In `extra`: the image that we put into the drive."""


def outdated(node: Json) -> bool:
    """Whether an earlier version made this node without its BIOS interface, and it can be changed now."""
    changeable = node["provision_state"] in ("enroll", "manageable", "available")
    return changeable and node["driver"] == "redfish" and node.get("bios_interface") == "no-bios"


def settings_of(found: list[Json]) -> dict[str, dict[str, Any]]:
    """By name: the value as text, and what the BMC's registry says of it."""
    return {
        str(each["name"]): {
            "value": "" if each.get("value") is None else str(each["value"]),
            **{name: each[name] for name in _TOLD if each.get(name) is not None},
        }
        for each in found
        if each.get("name")
    }


def differing(found: list[Json], wanted: Mapping[str, str]) -> dict[str, str]:
    """The wanted settings whose current value differs. Ironic keeps all values as text, and writes a switch as Python does:
    True."""
    now = settings_of(found)

    def same(name: str, value: str) -> bool:
        if name not in now:
            return False
        if now[name].get("attribute_type") == "Boolean":
            return bool(now[name]["value"].lower() == value.lower())
        return bool(now[name]["value"] == value)

    return {name: value for name, value in wanted.items() if not same(name, value)}


async def configure(ironic: IronicClient, node: Json, wanted: Mapping[str, str]) -> Result | None:
    """None when the firmware has these settings and the server is as it was before; else what is being done about it.

    Ironic writes them by Redfish and starts the server, without an agent, for its firmware to read them. The server is switched
    off afterwards: one that is on shortly after an inspection is taken for one whose agent listens.
    """
    if node["provision_state"] not in ("available", "manageable"):
        return None
    if wanted and (other := differing(await ironic.bios(node["uuid"]), wanted)):
        if node["provision_state"] == "available":
            await ironic.provision(node["uuid"], "manage")
            return Again(SOON, "giving the firmware its settings")
        await ironic.patch_node(node["uuid"], {f"extra/{_CONFIGURED}": True})
        settings = [{"name": name, "value": value} for name, value in sorted(other.items())]
        step = {"interface": "bios", "step": "apply_configuration", "args": {"settings": settings}}
        await ironic.provision(node["uuid"], "clean", clean_steps=[step])
        return Again(LATER, "giving the firmware its settings")
    if _CONFIGURED not in node["extra"]:
        return None
    if node["target_power_state"]:
        return Again(SOON, "switching off")
    if node["power_state"] != "power off":
        await ironic.power(node["uuid"], "power off")
        return Again(SOON, "switching off")
    await ironic.patch_node(node["uuid"], {f"extra/{_CONFIGURED}": None})
    return None


async def have_media(ironic: IronicClient, node: Json, url: str | None, *, restart: bool) -> Result:
    if node["provision_state"] == "active" and (node["instance_info"] or {}).get("boot_iso"):
        return Failed(ErrorKind.POWER, "the host runs from a live ISO, which is in its only drive")
    if node.get("reservation"):
        return Again(SOON, "Ironic is at something else with it", busy=True)
    inserted = any(drive.get("inserted") and _takes_cds(drive) for drive in await ironic.drives(node["uuid"]))
    ours = node["extra"].get(_MEDIA)
    if url is None:
        if inserted:
            await ironic.eject(node["uuid"])
            return Again(SOON, "taking the image out")
        if ours is not None:
            await ironic.patch_node(node["uuid"], {f"extra/{_MEDIA}": None})
        return Done()
    if inserted and ours == url:
        return Done()
    if inserted:
        await ironic.eject(node["uuid"])
        return Again(SOON, "taking another image out")
    if ours == url and node["last_error"] and not restart:
        return Failed(ErrorKind.POWER, str(node["last_error"]))
    if ours != url:
        await ironic.patch_node(node["uuid"], {f"extra/{_MEDIA}": url})
    await ironic.insert(node["uuid"], url)
    return Again(SOON, "putting the image in")


def about_media(error: str) -> bool:
    """Whether an error of a node is one of its drive: its power is not concerned."""
    return "ttach device" in error


def _takes_cds(drive: Json) -> bool:
    kinds = drive.get("media_types")
    return not kinds or bool({"CD", "DVD"} & set(kinds))


async def subscribe(ironic: IronicClient, node: Json, receiver: EventReceiver) -> Result:
    headers = [{name: value} for name, value in receiver.headers.items()]
    body = {"Destination": receiver.destination, "Context": receiver.context, "HttpHeaders": headers}
    try:
        made = await ironic.passthru("POST", node["uuid"], "create_subscription", body)
    except IronicFailed as error:  # the BMC's refusal is an error of Ironic's own; it may quote the headers
        return Failed(ErrorKind.REGISTRATION, _without(str(error), receiver))
    if not made.get("Id"):
        return Failed(ErrorKind.REGISTRATION, "the BMC made a subscription and did not say which")
    return Done({"id": str(made["Id"])})


async def unsubscribe(ironic: IronicClient, node: Json, id: str) -> Result:
    try:
        await ironic.passthru("DELETE", node["uuid"], "delete_subscription", {"id": id})
    except IronicFailed as error:
        return Failed(ErrorKind.REGISTRATION, str(error))
    except IronicRefused as error:
        if error.status != 404:
            raise
    return Done()


def _without(text: str, receiver: EventReceiver) -> str:
    for value in receiver.headers.values():
        text = text.replace(value, "…") if value else text
    return text
