"""What is asked of Ironic beside a host's way: settings of its firmware, an image in its drive, events of its BMC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rackless.drivers.ironic.extras import differing
from rackless.drivers.ironic.provisioner import UNKNOWN, IronicProvisioner
from rackless.ports.provisioner import Again, Done, ErrorKind, EventReceiver, Failed

from .ironic_standin import IronicStandIn
from .test_provisioner import HOST, KNOWN

TURBO: dict[str, Any] = {
    "name": "ProcTurboMode",
    "value": "Enabled",
    "attribute_type": "Enumeration",
    "allowable_values": ["Enabled", "Disabled"],
    "lower_bound": None,
    "read_only": False,
    "links": [],
}
WANTED = {"ProcTurboMode": "Disabled"}
ISO = "http://192.0.2.1/data.iso"
RECEIVER = EventReceiver("http://192.0.2.1/events", "lab", {"X-Token": "a secret word"})
APPLY = {
    "interface": "bios",
    "step": "apply_configuration",
    "args": {"settings": [{"name": "ProcTurboMode", "value": "Disabled"}]},
}


@pytest.fixture
async def api() -> AsyncIterator[IronicStandIn]:
    api = IronicStandIn(bios=[dict(TURBO)])
    async with api.serving() as url:
        api.url = url
        yield api


@pytest.fixture
async def ironic(api: IronicStandIn) -> AsyncIterator[IronicProvisioner]:
    async with IronicProvisioner(api.url, "admin", "secret", None) as provisioner:
        yield provisioner


async def test_the_settings_are_told_with_what_they_may_be(api: IronicStandIn, ironic: IronicProvisioner) -> None:
    api.put(**KNOWN)
    api.bios.append({"name": "Cores", "value": None})
    found = await ironic.firmware(HOST)
    assert found == Done(
        {
            "ProcTurboMode": {
                "value": "Enabled",
                "attribute_type": "Enumeration",
                "allowable_values": ["Enabled", "Disabled"],
                "read_only": False,
            },
            "Cores": {"value": ""},
        }
    )


def test_values_are_compared_as_ironic_keeps_them() -> None:
    found = [{"name": "Cores", "value": "2"}, {"name": "Fast", "value": "True", "attribute_type": "Boolean"}]
    assert differing(found, {"Cores": "2", "Fast": "true"}) == {}
    assert differing(found, {"Cores": "3", "Fast": "false", "Other": ""}) == {
        "Cores": "3",
        "Fast": "false",
        "Other": "",
    }


async def test_settings_are_given_by_a_clean_step_and_the_server_is_off_before_it_is_cleaned(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    api.put(provision_state="available", **KNOWN)
    assert isinstance(await ironic.prepare(HOST, WANTED), Again)
    assert api.asked == ["PUT provision manage"]

    api.put(provision_state="manageable")
    assert isinstance(await ironic.prepare(HOST, WANTED), Again)
    assert api.asked[1:] == ["PATCH extra/firmware", "PUT provision clean"]
    assert api.bodies[-1] == {"target": "clean", "clean_steps": [APPLY]}

    for state in ("cleaning", "clean wait"):
        api.put(provision_state=state, clean_step=APPLY)
        assert await ironic.prepare(HOST, WANTED) == Again(
            0.5 if state == "cleaning" else 0.75, "apply configuration", agent=state == "clean wait"
        )
    api.bios[0]["value"] = "Disabled"
    api.put(provision_state="manageable", power_state="power on", clean_step={})
    assert isinstance(await ironic.prepare(HOST, WANTED), Again)
    assert api.asked[3:] == ["PUT power power off"]
    api.put(target_power_state="power off")
    assert isinstance(await ironic.prepare(HOST, WANTED), Again)
    assert len(api.asked) == 4
    api.put(power_state="power off", target_power_state=None)
    assert isinstance(await ironic.prepare(HOST, WANTED), Again)
    assert api.asked[4:] == ["PATCH extra/firmware", "PUT provision provide"]
    assert api.node and "firmware" not in api.node["extra"] and api.node["extra"]["uid"] == HOST.uid
    api.put(provision_state="available")
    assert await ironic.prepare(HOST, WANTED) == Done()
    assert len(api.asked) == 6


async def test_settings_that_are_not_taken_are_an_error_of_preparing_and_are_given_again(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    api.put(provision_state="clean failed", last_error="Attributes are not updated", maintenance=True, **KNOWN)
    failed = await ironic.prepare(HOST, WANTED)
    assert isinstance(failed, Failed) and failed.kind is ErrorKind.PREPARATION and "not updated" in failed.message
    assert isinstance(await ironic.prepare(HOST, WANTED, restart=True), Again)
    assert api.asked == ["DELETE maintenance", "PUT provision manage"]


async def test_nobody_asks_for_the_settings_of_a_host_that_wants_none(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    api.put(provision_state="manageable", **KNOWN)
    assert isinstance(await ironic.prepare(HOST), Again)
    assert api.asked == ["PUT provision provide"]


@pytest.mark.parametrize(
    ("state", "driver", "interface", "told"),
    [
        ("manageable", "redfish", "no-bios", True),
        ("available", "redfish", "no-bios", True),
        ("active", "redfish", "no-bios", False),
        ("available", "redfish", "redfish", False),
        ("available", "ipmi", "no-bios", False),
    ],
)
async def test_a_node_of_an_earlier_version_is_told_how_to_reach_its_firmware(
    api: IronicStandIn, ironic: IronicProvisioner, state: str, driver: str, interface: str, told: bool
) -> None:
    api.put(provision_state=state, driver=driver, bios_interface=interface, **KNOWN)
    assert isinstance(await ironic.register(HOST), Done)
    assert api.asked == (["PATCH bios_interface vendor_interface"] if told else [])


async def test_an_image_is_put_in_and_taken_out(api: IronicStandIn, ironic: IronicProvisioner) -> None:
    api.put(provision_state="active", **KNOWN)
    assert isinstance(await ironic.media(HOST, ISO), Again)
    assert api.asked == ["PATCH extra/media", "POST vmedia"]
    assert api.bodies[-1] == {"device_type": "cdrom", "image_url": ISO}
    api.put(reservation="a conductor")
    waiting = await ironic.media(HOST, ISO)
    assert isinstance(waiting, Again) and waiting.busy
    api.put(reservation=None)
    api.drive = "http://192.0.2.1/ironic's-own-copy.iso"
    assert await ironic.media(HOST, ISO) == Done()
    assert isinstance(await ironic.media(HOST, None), Again)
    assert api.asked[2:] == ["DELETE vmedia cdrom"]
    api.drive = None
    assert await ironic.media(HOST, None) == Done() == await ironic.media(HOST, None)
    assert api.asked[3:] == ["PATCH extra/media"]


async def test_another_image_is_taken_out_first(api: IronicStandIn, ironic: IronicProvisioner) -> None:
    api.put(provision_state="active", extra={**KNOWN["extra"], "media": "http://192.0.2.1/other.iso"})
    api.drive = "something"
    assert isinstance(await ironic.media(HOST, ISO), Again)
    assert api.asked == ["DELETE vmedia cdrom"]


async def test_an_image_that_could_not_be_had_is_told_and_tried_again_and_is_no_error_of_the_power(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    error = "Could not attach device cdrom to node node-1: 404"
    api.put(provision_state="active", extra={**KNOWN["extra"], "media": ISO}, last_error=error)
    assert await ironic.media(HOST, ISO) == Failed(ErrorKind.POWER, error)
    assert isinstance(await ironic.media(HOST, ISO, restart=True), Again)
    assert api.asked == ["POST vmedia"]
    assert isinstance(await ironic.power(HOST, True), Again)
    assert api.asked[1:] == ["PUT power power on"]


async def test_a_host_that_runs_from_a_live_iso_has_no_drive_to_spare(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    api.put(provision_state="active", instance_info={"boot_iso": "http://192.0.2.1/live.iso"}, **KNOWN)
    failed = await ironic.media(HOST, ISO)
    assert isinstance(failed, Failed) and "live ISO" in failed.message and api.asked == []


async def test_a_subscription_is_made_and_ended(api: IronicStandIn, ironic: IronicProvisioner) -> None:
    api.put(provision_state="active", **KNOWN)
    assert await ironic.subscribe(HOST, RECEIVER) == Done({"id": "1"})
    assert api.bodies[-1] == {
        "Destination": "http://192.0.2.1/events",
        "Context": "lab",
        "HttpHeaders": [{"X-Token": "a secret word"}],
    }
    assert await ironic.unsubscribe(HOST, "1") == Done()
    assert await ironic.unsubscribe(HOST, "99") == Done(), "what the BMC does not have has ended"
    assert api.asked == ["POST create_subscription", "DELETE delete_subscription", "DELETE delete_subscription"]


async def test_a_bmc_that_refuses_a_subscription_is_told_without_what_is_secret(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    api.put(provision_state="active", **KNOWN)
    api.answer = (500, "Failed to create subscription. Payload: a secret word. Error: no")
    failed = await ironic.subscribe(HOST, RECEIVER)
    assert isinstance(failed, Failed) and "Failed to create" in failed.message and "secret" not in failed.message
    assert isinstance(await ironic.unsubscribe(HOST, "1"), Failed)
    api.answer = (409, "locked")
    assert await ironic.subscribe(HOST, RECEIVER) == Again(0.5, busy=True)
    api.answer = (400, "not supported")
    refused = await ironic.unsubscribe(HOST, "1")
    assert isinstance(refused, Failed) and "not supported" in refused.message


async def test_a_host_that_ironic_does_not_know_is_not_made_known_by_the_way(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    assert await ironic.firmware(HOST) == UNKNOWN == await ironic.media(HOST, ISO)
    assert await ironic.subscribe(HOST, RECEIVER) == UNKNOWN == await ironic.unsubscribe(HOST, "1")
    assert api.asked == []
