"""HostFirmwareSettings in virtual time: made, judged, given to the firmware when the host is prepared, and never otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rackless.drivers.fake.provisioner import Fault
from rackless.ports.provisioner import ErrorKind, Failed
from rackless.ports.resources import Record, Refused
from rackless.provisioning.baremetalhost import KIND, PAUSED, State
from rackless.provisioning.firmware import SCHEMA, SETTINGS, condition, settings_status, to_give, wrong
from tests.provisioning.site import Site

BIOS: Mapping[str, Mapping[str, Any]] = {
    "ProcTurboMode": {
        "value": "Enabled",
        "attribute_type": "Enumeration",
        "allowable_values": ["Enabled", "Disabled"],
        "read_only": False,
    },
    "ProcCoreCount": {"value": "2", "attribute_type": "Integer", "read_only": True},
    "BootDelay": {"value": "5", "attribute_type": "Integer", "lower_bound": 0, "upper_bound": 10},
    "AssetTag": {"value": "", "attribute_type": "String", "min_length": 1, "max_length": 3},
    "QuietBoot": {"value": "False", "attribute_type": "Boolean"},
    "AdminPassword": {"value": "hunter2", "attribute_type": "Password"},
}


def site() -> Site:
    made = Site()
    made.provisioner.bios = BIOS
    return made


async def wish(of: Site, name: str, **settings: str | int) -> None:
    await of.resources.patch(SETTINGS, name, {"spec": {"settings": settings}})


async def settings_of(of: Site, name: str) -> Record:
    record = await of.resources.get(SETTINGS, name)
    assert record is not None
    return record


async def until_settings(of: Site, name: str, type_: str, status: str) -> Record:
    async def look() -> Record:
        async for event in of.resources.watch(SETTINGS):
            record = event.record
            if record["metadata"]["name"] != name or event.type == "DELETED":
                continue
            said = condition(record, type_)
            if (said.get("status"), said.get("observedGeneration")) == (status, record["metadata"]["generation"]):
                return record
        raise AssertionError

    return await of.clock.run(look(), within=100_000)


async def events_of(of: Site, kind: str) -> list[tuple[str, str]]:
    return [
        (event["type"], event["reason"])
        for event in await of.resources.list("Event")
        if event["involvedObject"]["kind"] == kind
    ]


async def test_every_host_gets_its_settings_and_hosts_of_a_model_share_a_schema() -> None:
    at = site()
    await at.add("a", "b", image=None)
    async with at.controlled():
        await at.until_state("a", "b", state=State.AVAILABLE)
        record = await until_settings(at, "a", "Valid", "True")
        await until_settings(at, "b", "Valid", "True")
    assert record["status"]["settings"]["ProcTurboMode"] == "Enabled"
    assert "AdminPassword" not in record["status"]["settings"], "passwords are not shown"
    owner = record["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == (KIND, "a")
    (schema,) = await at.resources.list(SCHEMA)
    assert record["status"]["schema"] == {"name": schema["metadata"]["name"], "namespace": "metal3"}
    assert schema["spec"]["schema"]["BootDelay"] == {"attribute_type": "Integer", "lower_bound": 0, "upper_bound": 10}
    assert "AdminPassword" not in schema["spec"]["schema"]
    assert condition(record, "ChangeDetected")["status"] == "False"
    assert "configure" not in at.work("a")


async def test_hosts_that_come_at_the_same_time_write_their_schema_once_unless_it_fails() -> None:
    at = site()
    create, refused = at.resources.create, [Refused("not now")]

    async def slow(record: Record) -> Record:
        if record["kind"] == SCHEMA:
            await at.clock.sleep(5)
            at.resources.calls["asked"] += 1
            if refused:
                raise refused.pop()
        return await create(record)

    at.resources.create = slow  # type: ignore[method-assign]
    names = [f"host-{number}" for number in range(20)]
    await at.add(*names, image=None)
    async with at.controlled():
        for name in names:
            await until_settings(at, name, "Valid", "True")
    assert len(await at.resources.list(SCHEMA)) == 1
    assert at.resources.calls["asked"] == 2, "and the one that was refused"


async def test_a_bmc_that_shows_no_settings_has_no_record_and_is_asked_once() -> None:
    at = Site()
    asked: list[str] = []
    tell = at.provisioner.firmware

    async def firmware(host: Any) -> Any:
        asked.append(host.name)
        return await tell(host)

    at.provisioner.firmware = firmware  # type: ignore[method-assign]
    await at.add("a")
    async with at.controlled():
        await at.until_state("a")
    assert await at.resources.list(SETTINGS) == [] and asked == ["a"]


async def test_a_wish_takes_an_available_host_back_to_be_prepared_once() -> None:
    at = site()
    await at.add("a", image=None)
    async with at.controlled():
        await at.until_state("a", state=State.AVAILABLE)
        await until_settings(at, "a", "Valid", "True")
        await wish(at, "a", ProcTurboMode="Disabled", BootDelay=7)
        await at.until("a", lambda host: host.status.state is State.PREPARING)
        await at.until_state("a", state=State.AVAILABLE)
        record = await until_settings(at, "a", "ChangeDetected", "False")
        await at.clock.run(at.clock.sleep(900))
    assert record["status"]["settings"]["ProcTurboMode"] == "Disabled"
    assert record["status"]["settings"]["BootDelay"] == "7"
    assert at.provisioner.hosts["a"].settings == {"ProcTurboMode": "Disabled", "BootDelay": "7"}
    assert at.work("a").count("configure") == 1 and at.work("a").count("prepare") == 2
    told = await events_of(at, SETTINGS)
    assert ("Normal", "ChangeDetected") in told and ("Normal", "SettingsApplied") in told


async def test_settings_that_were_there_before_the_host_are_given_when_it_is_first_prepared() -> None:
    at = site()
    await at.resources.apply({
        "apiVersion": "metal3.io/v1alpha1", "kind": SETTINGS, "metadata": {"name": "a"},
        "spec": {"settings": {"ProcTurboMode": "Disabled"}},
    })  # fmt: skip
    await at.add("a")
    async with at.controlled():
        await at.until_state("a")
    assert at.work("a") == ["register", "inspect", "configure", "prepare", "provision"]


async def test_a_provisioned_host_keeps_its_settings_until_it_is_given_back() -> None:
    at = site()
    await at.add("a")
    async with at.controlled():
        await at.until_state("a")
        await wish(at, "a", ProcTurboMode="Disabled")
        await until_settings(at, "a", "ChangeDetected", "True")
        await at.clock.run(at.clock.sleep(900))
        assert "configure" not in at.work("a")
        await at.change("a", image=None)
        await at.until("a", lambda host: host.status.state is State.PREPARING)
        await until_settings(at, "a", "ChangeDetected", "False")
    assert at.work("a").count("configure") == 1


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("ProcTurboMode", "Sometimes", "can be Enabled, Disabled"),
        ("ProcCoreCount", "4", "can only be read"),
        ("BootDelay", "11", "can be 0 to 10"),
        ("BootDelay", "-1", "can be 0 to 10"),
        ("BootDelay", "soon", "is no number"),
        ("AssetTag", "", "0 characters"),
        ("AssetTag", "long", "can have 1 to 3"),
        ("QuietBoot", "perhaps", "true or false"),
        ("AdminPassword", "x", "is a password"),
        ("NoSuchThing", "x", "has no setting NoSuchThing"),
    ],
)
def test_what_the_schema_does_not_allow_is_said(name: str, value: str, why: str) -> None:
    assert why in wrong(name, value, BIOS)


@pytest.mark.parametrize(
    ("name", "value"),
    [("ProcTurboMode", "Disabled"), ("BootDelay", "10"), ("AssetTag", "abc"), ("QuietBoot", "TRUE")],
)
def test_what_the_schema_allows_is_not_complained_of(name: str, value: str) -> None:
    assert wrong(name, value, BIOS) == ""


async def test_a_wish_that_is_not_allowed_changes_nothing_until_it_is_mended() -> None:
    at = site()
    await at.add("a", image=None)
    async with at.controlled():
        await at.until_state("a", state=State.AVAILABLE)
        await wish(at, "a", ProcTurboMode="Sometimes")
        record = await until_settings(at, "a", "Valid", "False")
        assert condition(record, "Valid")["reason"] == "ConfigurationError"
        assert "can be Enabled, Disabled" in condition(record, "Valid")["message"]
        await at.clock.run(at.clock.sleep(900))
        assert "configure" not in at.work("a")
        await wish(at, "a", ProcTurboMode="Disabled")
        await until_settings(at, "a", "ChangeDetected", "False")
    assert at.work("a").count("configure") == 1
    assert ("Warning", "ValidationFailed") in await events_of(at, SETTINGS)


async def test_wishes_for_a_bmc_that_shows_no_settings_are_called_invalid() -> None:
    at = Site()
    await at.resources.apply({
        "apiVersion": "metal3.io/v1alpha1", "kind": SETTINGS, "metadata": {"name": "a"},
        "spec": {"settings": {"ProcTurboMode": "Disabled"}},
    })  # fmt: skip
    await at.add("a", image=None)
    async with at.controlled():
        record = await until_settings(at, "a", "Valid", "False")
        await at.until_state("a", state=State.AVAILABLE)
    assert "shows no settings" in condition(record, "Valid")["message"]
    assert "configure" not in at.work("a")


async def test_settings_that_the_firmware_does_not_take_are_an_error_of_preparing_that_is_tried_again() -> None:
    at = site()
    await at.add("a", image=None)
    at.provisioner.faults.append(Fault("configure", "a", "Attributes are not updated"))
    async with at.controlled():
        await at.until_state("a", state=State.AVAILABLE)
        await wish(at, "a", ProcTurboMode="Disabled")
        failed = await at.until("a", lambda host: host.status.error_type is ErrorKind.PREPARATION)
        assert failed.status.error_message == "Attributes are not updated"
        await at.until("a", lambda host: host.status.error_type is None)
        await until_settings(at, "a", "ChangeDetected", "False")
    assert at.work("a").count("configure") == 2


async def test_a_controller_that_is_killed_after_it_gave_the_settings_gives_them_once() -> None:
    at = site()
    await at.add("a", image=None)
    async with at.controlled():
        await at.until_state("a", state=State.AVAILABLE)
        await wish(at, "a", ProcTurboMode="Disabled")
        await at.until("a", lambda host: host.status.state is State.PREPARING)
        while "prepare" not in at.work("a")[at.work("a").index("configure") :] if "configure" in at.work("a") else True:
            await at.clock.run(at.clock.sleep(1))
    async with at.controlled():
        await until_settings(at, "a", "ChangeDetected", "False")
        await at.until_state("a", state=State.AVAILABLE)
    assert at.work("a").count("configure") == 1


async def test_settings_that_somebody_deletes_come_back_and_those_of_a_paused_host_do_not() -> None:
    at = site()
    await at.add("a", image=None)
    async with at.controlled():
        await at.until_state("a", state=State.AVAILABLE)
        await until_settings(at, "a", "Valid", "True")
        await at.resources.delete(SETTINGS, "a")
        await until_settings(at, "a", "Valid", "True")
        await at.annotate("a", {PAUSED: ""})
        await at.resources.delete(SETTINGS, "a")
        await at.clock.run(at.clock.sleep(900))
    assert await at.resources.list(SETTINGS) == []


async def test_an_engine_that_is_busy_is_asked_again() -> None:
    at = site()
    await at.add("a", image=None)
    async with at.controlled():
        await at.until("a", lambda host: host.status.state is State.INSPECTING)
        at.provisioner.busy = 5
        await until_settings(at, "a", "Valid", "True")


async def test_settings_that_cannot_be_read_are_told_once_a_minute_and_hold_nobody_up() -> None:
    at = site()
    tell, broken = at.provisioner.firmware, [True]

    async def firmware(host: Any) -> Any:
        return Failed(ErrorKind.REGISTRATION, "no such driver") if broken else await tell(host)

    at.provisioner.firmware = firmware  # type: ignore[method-assign]
    await at.resources.apply({
        "apiVersion": "metal3.io/v1alpha1", "kind": SETTINGS, "metadata": {"name": "a"}, "spec": {"settings": {}},
    })  # fmt: skip
    await at.add("a", image=None)
    async with at.controlled():
        await at.until_state("a", state=State.AVAILABLE)
        broken.clear()
        await until_settings(at, "a", "Valid", "True")
        assert ("Warning", "SettingsUnreadable") in await events_of(at, SETTINGS)


def test_a_status_that_says_nothing_new_is_the_one_that_is_there() -> None:
    record: Record = {"metadata": {"name": "a", "uid": "u", "generation": 2}, "spec": {"settings": {"BootDelay": 5}}}
    schema: Record = {"metadata": {"name": "schema-1", "namespace": "metal3"}}
    status = settings_status(record, BIOS, schema, "then")
    assert settings_status({**record, "status": status}, BIOS, schema, "later") is status
    other = {**record, "metadata": {**record["metadata"], "generation": 3}, "spec": {"settings": {"BootDelay": 6}}}
    after = settings_status({**other, "status": status}, BIOS, schema, "later")
    assert condition({"status": after}, "Valid")["lastTransitionTime"] == "then"
    assert condition({"status": after}, "ChangeDetected")["lastTransitionTime"] == "later"
    assert to_give({**other, "status": after}) == ("u/3", {"BootDelay": "6"})
    assert to_give({**other, "status": status}) == ("", {}), "nobody has looked at this wish yet"
    going = {**other, "metadata": {**other["metadata"], "deletionTimestamp": "now"}, "status": after}
    assert to_give(going) == ("", {}) == to_give(None)
