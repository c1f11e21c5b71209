import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.ironic.node import fingerprint
from rackless.drivers.ironic.provisioner import IronicProvisioner
from rackless.ports.ironic import Guest
from rackless.ports.provisioner import (
    Again,
    BmcLogin,
    ConfigDrive,
    Done,
    ErrorKind,
    Failed,
    HostAccess,
    Image,
    Result,
)

from .ironic_standin import IronicStandIn

BMC = BmcLogin("redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1", "admin", "secret")
HOST = HostAccess("ctrl-0", "uid-1", BMC, "02:00:00:00:00:01")
IMAGE = Image("http://192.0.2.1/node.qcow2", "ab" * 32)
CONFIG = ConfigDrive('{"ignition": {}}', {"role": "control-plane"})
KNOWN = {"extra": {"uid": HOST.uid, "access": fingerprint(HOST, {})}}
HELD = {"instance_info": {"image_source": IMAGE.url, "image_os_hash_value": IMAGE.checksum}}

Call = Callable[[IronicProvisioner, bool], Awaitable[Result]]
CALLS: dict[str, Call] = {
    "register": lambda ironic, restart: ironic.register(HOST, restart=restart),
    "inspect": lambda ironic, restart: ironic.inspect(HOST, restart=restart),
    "prepare": lambda ironic, restart: ironic.prepare(HOST, restart=restart),
    "provision": lambda ironic, restart: ironic.provision(HOST, IMAGE, CONFIG, restart=restart),
    "adopt": lambda ironic, restart: ironic.adopt(HOST, IMAGE, restart=restart),
    "deprovision": lambda ironic, restart: ironic.deprovision(HOST, restart=restart),
    "power on": lambda ironic, restart: ironic.power(HOST, True, restart=restart),
    "power off": lambda ironic, restart: ironic.power(HOST, False, restart=restart),
    "delete": lambda ironic, _: ironic.delete(HOST),
}
KINDS = {
    "register": ErrorKind.REGISTRATION,
    "inspect": ErrorKind.INSPECTION,
    "prepare": ErrorKind.PREPARATION,
    "provision": ErrorKind.PROVISIONING,
    "adopt": ErrorKind.ADOPTION,
    "deprovision": ErrorKind.PROVISIONING,
    "power on": ErrorKind.POWER,
}


@pytest.fixture
async def api() -> AsyncIterator[IronicStandIn]:
    api = IronicStandIn()
    async with api.serving() as url:
        api.url = url
        yield api


@pytest.fixture
async def ironic(api: IronicStandIn) -> AsyncIterator[IronicProvisioner]:
    async with IronicProvisioner(api.url, "admin", "secret", None) as provisioner:
        yield provisioner


# what is wanted, Ironic's provision state → what is said, and what is asked of Ironic
TABLE: list[tuple[str, str, type, list[str]]] = [
    ("register", "enroll", Again, ["PUT provision manage"]),
    ("register", "verifying", Again, []),
    ("register", "manageable", Done, []),
    ("register", "active", Done, []),
    ("inspect", "manageable", Again, ["PUT provision inspect"]),
    ("inspect", "available", Again, ["PUT provision manage"]),
    ("inspect", "inspecting", Again, []),
    ("inspect", "inspect wait", Again, []),
    ("inspect", "enroll", Again, ["PUT provision manage"]),
    ("prepare", "manageable", Again, ["PUT provision provide"]),
    ("prepare", "cleaning", Again, []),
    ("prepare", "clean wait", Again, []),
    ("prepare", "available", Done, []),
    ("provision", "manageable", Again, ["PUT provision provide"]),
    ("provision", "available", Again, ["PATCH instance_uuid instance_info", "PUT provision active"]),
    ("provision", "deploying", Again, []),
    ("provision", "wait call-back", Again, []),
    ("provision", "active", Again, ["PUT provision deleted"]),
    ("adopt", "enroll", Again, ["PUT provision manage"]),
    ("adopt", "available", Again, ["PUT provision manage"]),
    ("adopt", "manageable", Again, ["PATCH instance_uuid instance_info", "PUT provision adopt"]),
    ("adopt", "adopting", Again, []),
    ("adopt", "active", Done, []),
    ("deprovision", "active", Again, ["PUT provision deleted"]),
    ("deprovision", "deploy failed", Again, ["PUT provision deleted"]),
    ("deprovision", "wait call-back", Again, ["PUT provision deleted"]),
    ("deprovision", "deploying", Again, []),
    ("deprovision", "deleting", Again, []),
    ("deprovision", "manageable", Again, ["PUT provision provide"]),
    ("deprovision", "available", Done, []),
    ("power on", "active", Again, ["PUT power power on"]),
    ("power off", "active", Done, []),
    ("delete", "verifying", Again, []),
    ("delete", "inspect wait", Again, ["PUT provision abort"]),
    ("delete", "wait call-back", Again, ["PUT provision deleted"]),
    ("delete", "deploying", Again, []),
    ("delete", "available", Done, ["DELETE node"]),
    ("delete", "active", Done, ["PUT maintenance", "DELETE node"]),
]


@pytest.mark.parametrize(("what", "state", "said", "asked"), TABLE)
async def test_each_state_of_ironic_means_one_next_step(
    api: IronicStandIn, ironic: IronicProvisioner, what: str, state: str, said: type, asked: list[str]
) -> None:
    api.put(provision_state=state, **KNOWN)
    result = await CALLS[what](ironic, False)
    assert isinstance(result, said), result
    assert api.asked == asked


FAILURES = [
    ("register", "enroll", ["PUT provision manage"]),
    ("inspect", "inspect failed", ["PUT provision inspect"]),
    ("prepare", "clean failed", ["DELETE maintenance", "PUT provision manage"]),
    ("provision", "deploy failed", ["PATCH instance_uuid instance_info", "PUT provision active"]),
    ("adopt", "adopt failed", ["PATCH instance_uuid instance_info", "PUT provision adopt"]),
    ("deprovision", "clean failed", ["DELETE maintenance", "PUT provision manage"]),
    ("deprovision", "error", ["PUT provision deleted"]),
    ("power on", "active", ["PUT power power on"]),
]


@pytest.mark.parametrize(("what", "state", "again"), FAILURES)
async def test_a_failure_is_told_in_ironics_words_until_it_is_to_begin_anew(
    api: IronicStandIn, ironic: IronicProvisioner, what: str, state: str, again: list[str]
) -> None:
    maintenance = {"maintenance": True, "fault": "clean failure"} if state == "clean failed" else {}
    api.put(provision_state=state, last_error="It broke.", **KNOWN, **HELD, **maintenance)
    assert await CALLS[what](ironic, False) == Failed(KINDS[what], "It broke.")
    assert api.asked == []
    assert isinstance(await CALLS[what](ironic, True), Again)
    assert api.asked == again


@pytest.mark.parametrize("what", ["register", "inspect", "prepare", "provision", "deprovision"])
async def test_a_host_ironic_does_not_know_is_made_known_first(
    api: IronicStandIn, ironic: IronicProvisioner, what: str
) -> None:
    result = await CALLS[what](ironic, False)
    assert isinstance(result, Again) and result.busy
    assert api.asked == ["POST node", "POST port"]
    node: Any = api.bodies[0]
    assert (node["driver"], node["boot_interface"], node["deploy_interface"]) == (
        "redfish",
        "redfish-virtual-media",
        "direct",
    )
    assert node["driver_info"]["deploy_forces_oob_reboot"] is True
    assert node["properties"]["capabilities"] == "boot_mode:uefi"
    assert api.bodies[1] == {"node_uuid": "node-1", "address": HOST.boot_mac, "pxe_enabled": True}


async def test_deleting_a_host_ironic_does_not_know_is_done(ironic: IronicProvisioner) -> None:
    assert await ironic.delete(HOST) == Done()


async def test_a_mac_address_of_another_host_is_a_conflict(api: IronicStandIn, ironic: IronicProvisioner) -> None:
    api.put(name="other")
    api.ports.append({"address": HOST.boot_mac, "node_uuid": "node-1"})
    result = await ironic.register(HOST)
    assert isinstance(result, Failed)
    assert result.message == "MAC address 02:00:00:00:00:01 conflicts with existing host other"


@pytest.mark.parametrize("what", ["inspect", "prepare", "provision", "deprovision", "power on"])
@pytest.mark.parametrize("status", [409, 503])
async def test_a_busy_ironic_is_asked_again(
    api: IronicStandIn, ironic: IronicProvisioner, what: str, status: int
) -> None:
    api.put(provision_state="active" if what in ("deprovision", "power on") else "manageable", **KNOWN)
    api.answer = (status, "Node is locked")
    result = await CALLS[what](ironic, False)
    assert isinstance(result, Again) and result.busy


async def test_a_refusal_is_an_error_of_the_kind_of_what_was_wanted(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    api.put(**KNOWN)
    api.answer = (400, "That cannot be done.")
    assert await ironic.inspect(HOST) == Failed(ErrorKind.INSPECTION, "That cannot be done.")


async def test_an_ironic_that_is_away_is_waited_for() -> None:
    async with IronicProvisioner("http://127.0.0.1:1", "admin", "secret", None) as ironic:
        result = await ironic.register(HOST)
    assert isinstance(result, Again) and result.busy and "does not answer" in result.doing


async def test_inspection_is_done_when_there_is_an_inventory_and_no_new_one_is_wanted(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    api.put(**KNOWN)
    api.inventory = {"memory": {"physical_mb": 1024}}
    assert await ironic.inspect(HOST) == Done({"memory": {"physical_mb": 1024}})
    assert isinstance(await ironic.inspect(HOST, restart=True), Again)
    assert api.asked == ["PUT provision inspect"]


async def test_an_aborted_inspection_begins_again_by_itself(api: IronicStandIn, ironic: IronicProvisioner) -> None:
    api.put(provision_state="inspect failed", last_error="Inspection was aborted by request.", **KNOWN)
    assert isinstance(await ironic.inspect(HOST), Again)


async def test_the_image_and_the_config_drive_are_handed_over(api: IronicStandIn, ironic: IronicProvisioner) -> None:
    api.put(provision_state="available", **KNOWN)
    await ironic.provision(HOST, IMAGE, CONFIG)
    assert api.node and api.node["instance_uuid"] == HOST.uid
    assert api.node["instance_info"] == {
        "image_source": IMAGE.url,
        "image_type": "whole-disk",
        "image_disk_format": "qcow2",
        "capabilities": {"boot_mode": "uefi"},
        "image_os_hash_algo": "sha256",
        "image_os_hash_value": IMAGE.checksum,
    }
    drive: Any = api.bodies[-1]["configdrive"]
    assert drive["user_data"] == '{"ignition": {}}'
    assert drive["meta_data"]["local-hostname"] == "ctrl-0" and drive["meta_data"]["role"] == "control-plane"
    assert "network_data" not in drive


async def test_what_ironic_would_not_boot_is_told_before_it_is_tried(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    api.put(provision_state="available", **KNOWN)
    api.validation = {"deploy": {"result": False, "reason": "no checksum"}, "boot": {"result": True}}
    assert await ironic.provision(HOST, IMAGE, CONFIG) == Failed(ErrorKind.PROVISIONING, "deploy: no checksum")
    assert "PUT provision active" not in api.asked


async def test_an_image_that_is_already_there_is_done(api: IronicStandIn, ironic: IronicProvisioner) -> None:
    api.put(provision_state="active", **KNOWN, **HELD)
    assert await ironic.provision(HOST, IMAGE, CONFIG) == Done()
    assert api.asked == []


ANEW = [
    ("inspect", "inspect wait", ["PUT provision abort"], True),
    ("prepare", "clean wait", ["PUT provision abort"], True),
    ("prepare", "available", ["PATCH automated_clean", "PUT provision manage"], False),
]


@pytest.mark.parametrize(("what", "state", "asked", "busy"), ANEW)
async def test_what_is_to_begin_anew_is_first_brought_to_an_end(
    api: IronicStandIn, ironic: IronicProvisioner, what: str, state: str, asked: list[str], busy: bool
) -> None:
    api.put(provision_state=state, **KNOWN)
    result = await CALLS[what](ironic, True)
    assert isinstance(result, Again) and result.busy == busy
    assert api.asked == asked


async def test_a_host_that_is_not_to_be_cleaned_is_not_but_for_a_cleaning_on_demand(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    host = replace(HOST, clean=False)
    await ironic.register(host)
    assert api.bodies[0]["automated_clean"] is False
    api.put(provision_state="available", automated_clean=False, **KNOWN)
    assert isinstance(await ironic.prepare(host, restart=True), Again)
    assert api.node and api.node["automated_clean"] is True
    assert await ironic.prepare(host) == Done()  # it is available again, and as it was before
    assert api.node["automated_clean"] is False


async def test_whether_a_host_is_cleaned_when_it_is_taken_back_is_what_its_record_says_then(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    api.put(provision_state="active", automated_clean=True, **KNOWN)
    await ironic.deprovision(replace(HOST, clean=False))
    assert api.asked == ["PATCH automated_clean", "PUT provision deleted"]


LIVE = Image("http://192.0.2.1/rescue.iso", "", format="live-iso")


async def test_a_live_iso_is_booted_from_where_it_is_and_nothing_is_written(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    api.put(provision_state="available", **KNOWN)
    assert isinstance(await ironic.provision(HOST, LIVE, ConfigDrive("")), Again)
    assert api.node and api.node["deploy_interface"] == "ramdisk"
    assert api.node["instance_info"] == {"boot_iso": LIVE.url, "capabilities": {"boot_mode": "uefi"}}
    assert "configdrive" not in api.bodies[-1]
    api.put(provision_state="active")
    assert await ironic.provision(HOST, LIVE, ConfigDrive("")) == Done()


async def test_after_a_live_iso_an_image_is_written_again(api: IronicStandIn, ironic: IronicProvisioner) -> None:
    api.put(provision_state="available", deploy_interface="ramdisk", **KNOWN)
    await ironic.provision(HOST, IMAGE, CONFIG)
    assert api.node and api.node["deploy_interface"] == "direct"


async def test_new_credentials_are_sent_and_tried(api: IronicStandIn, ironic: IronicProvisioner) -> None:
    api.put(provision_state="enroll", last_error="401", extra={"uid": HOST.uid, "access": "older"})
    assert isinstance(await ironic.register(HOST), Again)
    assert api.asked == ["PATCH driver_info extra", "PUT provision manage"]


async def test_maintenance_without_a_fault_is_ended_and_a_power_failure_is_waited_out(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    api.put(maintenance=True, fault="power failure", maintenance_reason="no answer", **KNOWN)
    result = await ironic.register(HOST)
    assert isinstance(result, Again) and "no answer" in result.doing
    api.put(fault=None)
    await ironic.register(HOST)
    assert api.asked == ["DELETE maintenance"]


async def test_power_off_asks_the_system_unless_it_is_hard(api: IronicStandIn, ironic: IronicProvisioner) -> None:
    api.put(power_state="power on", provision_state="active", **KNOWN)
    await ironic.power(HOST, False)
    await ironic.power(HOST, False, hard=True)
    assert api.asked == ["PUT power soft power off", "PUT power power off"]


async def test_a_bad_address_is_a_registration_error_without_asking_ironic_for_a_node(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    access = HostAccess("ctrl-0", "uid-1", BmcLogin("ipmi://192.0.2.1", "admin", "secret"), "02:00:00:00:00:01")
    result = await ironic.register(access)
    assert isinstance(result, Failed) and result.kind is ErrorKind.REGISTRATION
    assert api.asked == []


NETWORK_BOOT = [
    ("redfish://192.0.2.1/redfish/v1/Systems/1", "redfish", "redfish", "redfish_address"),
    ("ipmi://192.0.2.1", "ipmi", "ipmitool", "ipmi_address"),
]


@pytest.mark.parametrize(("address", "driver", "tool", "told"), NETWORK_BOOT)
async def test_a_host_that_boots_over_the_network_is_enrolled_with_ipxe_and_its_boot_mac(
    api: IronicStandIn, address: str, driver: str, tool: str, told: str
) -> None:
    host = replace(HOST, bmc=replace(BMC, address=address), boot_mode="legacy")
    async with IronicProvisioner(api.url, "admin", "secret", None, network_boot=True) as ironic:
        assert isinstance(await ironic.register(host), Again)
    assert api.asked == ["POST node", "POST port"]
    node, port = api.bodies
    assert (node["driver"], node["boot_interface"], node["power_interface"]) == (driver, "ipxe", tool)
    assert told in node["driver_info"] and node["properties"]["capabilities"] == "boot_mode:bios"
    assert port == {"node_uuid": "node-1", "address": HOST.boot_mac, "pxe_enabled": True}


async def test_network_boot_is_refused_where_there_is_no_network_for_it_or_no_mac(api: IronicStandIn) -> None:
    host = replace(HOST, bmc=replace(BMC, address="redfish://192.0.2.1"))
    async with IronicProvisioner(api.url, "admin", "secret", None) as ironic:
        result = await ironic.register(host)
    assert isinstance(result, Failed) and result.kind is ErrorKind.REGISTRATION
    assert "there is none to boot from" in result.message and "redfish-virtualmedia://" in result.message
    async with IronicProvisioner(api.url, "admin", "secret", None, network_boot=True) as ironic:
        result = await ironic.register(replace(host, boot_mac=""))
    assert isinstance(result, Failed) and "needs the host's bootMACAddress" in result.message
    assert api.asked == []


async def test_a_new_scheme_changes_driver_and_boot_and_forgets_the_old_access(api: IronicStandIn) -> None:
    api.put(provision_state="enroll", driver_info={"redfish_address": "https://192.0.2.1", "kept": 1}, **KNOWN)
    host = replace(HOST, bmc=replace(BMC, address="ipmi://192.0.2.1"))
    async with IronicProvisioner(api.url, "admin", "secret", None, network_boot=True) as ironic:
        await ironic.register(host)
    assert api.node is not None
    assert (api.node["driver"], api.node["boot_interface"]) == ("ipmi", "ipxe")
    assert api.node["driver_info"]["kept"] == 1 and "redfish_address" not in api.node["driver_info"]


async def test_in_an_ironic_that_is_not_ours_nodes_have_the_labs_name_its_ramdisk_and_no_file_of_ours(
    api: IronicStandIn,
) -> None:
    guest = Guest("lab~", {"deploy_kernel": "http://192.0.2.1/kernel"})
    host = replace(HOST, bmc=replace(BMC, ca=Path("/lab/ca.crt")))
    async with IronicProvisioner(api.url, "", "", None, guest) as theirs:
        await theirs.register(host)
        node: Any = api.bodies[0]
        assert node["name"] == "lab~ctrl-0"
        assert node["driver_info"]["deploy_kernel"] == "http://192.0.2.1/kernel"
        assert node["driver_info"]["redfish_verify_ca"] is False
        assert isinstance(await theirs.register(host), Again)
        assert api.asked == ["POST node", "POST port", "PUT provision manage"]

        api.answer = (409, "Node is locked")  # Ironic is still at it
        forgetting = asyncio.create_task(theirs.forget_all())
        await asyncio.sleep(0.1)
        api.answer = None
        assert await forgetting == ["lab~ctrl-0"]
        assert api.node is None
        api.put(name="other~ctrl-0")
        assert await theirs.forget_all() == []


async def test_an_error_that_ironic_forgot_is_found_in_its_history(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    api.put(provision_state="deploy failed", last_error=None, **KNOWN, **HELD)
    result = await ironic.provision(HOST, IMAGE, CONFIG)
    assert result == Failed(ErrorKind.PROVISIONING, "Ironic says only: deploy failed")
    api.history = [
        {"created_at": "2026-01-01T00:00:02", "severity": "ERROR", "event": "The newer one."},
        {"created_at": "2026-01-01T00:00:01", "severity": "ERROR", "event": "The older one."},
        {"created_at": "2026-01-01T00:00:03", "severity": "INFO", "event": "Nothing."},
    ]
    assert await ironic.provision(HOST, IMAGE, CONFIG) == Failed(ErrorKind.PROVISIONING, "The newer one.")


NETWORK: dict[str, list[Any]] = {"links": [], "networks": [], "services": []}


async def test_addresses_of_the_agent_are_told_to_ironic_and_taken_back(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    own = replace(HOST, network=NETWORK)
    await ironic.register(own)
    assert api.node and api.node["network_data"] == NETWORK
    api.put(provision_state="manageable")
    await ironic.register(HOST)
    assert api.node and not api.node["network_data"], "DHCP again"
    api.asked.clear()
    await ironic.register(HOST)
    assert api.asked == []


async def test_addresses_of_the_agent_need_virtual_media(api: IronicStandIn) -> None:
    bmc = replace(BMC, address="ipmi://192.0.2.1")
    async with IronicProvisioner(api.url, "admin", "secret", None, network_boot=True) as ironic:
        result = await ironic.register(replace(HOST, bmc=bmc, network=NETWORK))
    assert isinstance(result, Failed) and "told by virtual media only" in result.message


async def test_nodes_that_ironic_made_for_unknown_agents_are_strangers_until_they_are_dismissed(
    api: IronicStandIn, ironic: IronicProvisioner
) -> None:
    api.put(provision_state="enroll", name="ctrl-0")
    api.inventory = {"interfaces": [{"mac_address": "02:00:00:00:00:09"}]}
    assert await ironic.strangers() == [], "one with a name is ours"
    api.put(provision_state="enroll", name=None)
    (found,) = await ironic.strangers()
    assert (found.id, found.inventory) == ("node-1", api.inventory)
    api.inventory = None
    assert await ironic.strangers() == [], "what is in it is not known yet"
    await ironic.dismiss(found)
    assert api.asked == ["DELETE node"] and await ironic.strangers() == []
    async with IronicProvisioner(api.url, "admin", "secret", None, Guest("lab~")) as guest:
        api.put(provision_state="enroll", name=None)
        api.inventory = {}
        assert await guest.strangers() == [], "in somebody else's Ironic nothing without a name is ours"
