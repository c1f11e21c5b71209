"""Records are Metal3's, word by word: what is read from one, what is written into one, and what a host's Secrets say."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.fake.resources import MemoryResources
from rackless.ports.provisioner import BmcLogin, ConfigDrive, ErrorKind, Failed, HostAccess, Image
from rackless.provisioning import baremetalhost as records
from rackless.provisioning.baremetalhost import (
    PROGRESSING,
    BadRecord,
    Condition,
    Host,
    Operational,
    Span,
    Spec,
    State,
    Status,
    read,
    secret,
    status_record,
)
from rackless.provisioning.config_drive import config_drive
from rackless.provisioning.credentials import Incomplete, host_access
from rackless.provisioning.hardware import hardware

METADATA = {"name": "a", "uid": "u", "resourceVersion": "7", "generation": 3}
MAC = "02:00:00:00:00:01"


def test_every_field_of_a_spec_is_read_under_metal3s_name() -> None:
    host = read({
        "metadata": {**METADATA, "annotations": {"x": "y"}, "finalizers": ["f"], "deletionTimestamp": "2026"},
        "spec": {
            "online": True, "bootMACAddress": "02:00:00:00:00:0A", "bootMode": "legacy",
            "bmc": {"address": "ipmi://1", "credentialsName": "c", "disableCertificateVerification": True},
            "rootDeviceHints": {"deviceName": "/dev/vda"},
            "image": {"url": "http://i", "checksum": "s", "checksumType": "md5", "format": "raw"},
            "userData": {"name": "user"}, "metaData": {"name": "meta"}, "networkData": {"name": "net"},
            "preprovisioningNetworkDataName": "agent", "architecture": "arm64",
            "inspectionMode": "disabled", "automatedCleaningMode": "disabled", "externallyProvisioned": True,
        },
    })  # fmt: skip
    spec = Spec(True, "ipmi://1", "c", False, "02:00:00:00:00:0a", "legacy", {"deviceName": "/dev/vda"},
                Image("http://i", "s", "md5", "raw"), "user", "meta", "net", False, False, True, "arm64", "agent")  # fmt: skip
    assert host == Host("a", "u", "7", 3, {"x": "y"}, ("f",), True, spec, Status())


def test_what_is_not_said_is_metal3s_default() -> None:
    host = read({"metadata": METADATA, "spec": {"image": {"url": "http://i"}}, "status": {}})
    assert host == Host("a", "u", "7", 3, {}, (), False, Spec(image=Image("http://i", "", "auto", "qcow2")), Status())
    assert host.spec == Spec(
        online=False, verify_certificate=True, boot_mode="UEFI", inspect=True, clean=True,
        externally_provisioned=False, image=host.spec.image,
    )  # fmt: skip
    assert read({"metadata": METADATA, "spec": {"image": {"checksum": "s"}}}).spec.image is None


@pytest.mark.parametrize(("address", "credentials"), [("x", ""), ("", "x")])
def test_a_host_with_an_address_or_credentials_is_to_be_managed(address: str, credentials: str) -> None:
    assert Spec(bmc_address=address, credentials_name=credentials).managed
    assert not Spec().managed


def test_a_status_is_written_under_metal3s_names_and_leaves_out_what_there_is_not() -> None:
    status = Status(State.PROVISIONED, Operational.ERROR, "id", ErrorKind.POWER, "no", 2, 1, True, Image("u", "c"),
                    "UEFI", {"hostname": "h"}, {"inspect": Span("t1", "t2")}, "9", "t3")  # fmt: skip
    assert records.status_record(status, "bmc") == {
        "operationalStatus": "error", "errorType": "power management error", "errorMessage": "no", "errorCount": 2,
        "provisioningFailCount": 1, "poweredOn": True, "hardware": {"hostname": "h"}, "lastUpdated": "t3",
        "provisioning": {
            "state": "provisioned", "ID": "id", "bootMode": "UEFI",
            "image": {"url": "u", "checksum": "c", "checksumType": "sha256", "format": "qcow2"},
        },
        "operationHistory": {"inspect": {"start": "t1", "end": "t2"}},
        "goodCredentials": {"credentials": {"name": "bmc"}, "credentialsVersion": "9"},
    }  # fmt: skip
    assert records.status_record(Status()) == {
        "operationalStatus": "", "errorMessage": "", "errorCount": 0, "provisioningFailCount": 0, "poweredOn": False,
        "provisioning": {"state": "", "ID": ""}, "operationHistory": {},
    }  # fmt: skip


def test_a_host_is_asked_for_with_just_what_was_said() -> None:
    assert records.baremetalhost("a", "ipmi://1", "c", MAC) == {
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "a"},
        "spec": {"online": True, "bmc": {"address": "ipmi://1", "credentialsName": "c"}, "bootMACAddress": MAC},
    }  # fmt: skip
    spec = records.baremetalhost("a", "x", "c", MAC, Image("u", "s"), "user", False, "legacy")["spec"]
    assert (spec["online"], spec["bootMode"], spec["userData"]) == (False, "legacy", {"name": "user"})
    assert spec["image"] == {"url": "u", "checksum": "s", "checksumType": "sha256", "format": "qcow2"}


def test_what_was_found_in_a_host_goes_with_the_host() -> None:
    host = Host("a", "u", "7", 3, {}, (), False, Spec(), Status())
    assert records.hardware_data(host, {"hostname": "h"}) == {
        "apiVersion": "metal3.io/v1alpha1", "kind": "HardwareData",
        "metadata": {"name": "a", "ownerReferences": [
            {"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "name": "a", "uid": "u", "controller": True}
        ]},
        "spec": {"hardware": {"hostname": "h"}},
    }  # fmt: skip
    assert records.own_user_data("a").startswith("a-")


def test_the_names_that_others_know_us_by_are_metal3s() -> None:
    assert (records.FINALIZER, records.PAUSED) == ("baremetalhost.metal3.io", "baremetalhost.metal3.io/paused")
    assert (records.INSPECT, records.REBOOT) == ("inspect.metal3.io", "reboot.metal3.io")
    assert len({records.RETRY, records.CLEAN, records.BY_HAND}) == 3
    assert {name.partition("/")[0] for name in (records.RETRY, records.CLEAN, records.BY_HAND)} == {"rackless.test"}
    assert [state.value for state in State] == [
        "", "unmanaged", "registering", "inspecting", "preparing", "available", "provisioning", "provisioned",
        "externally provisioned", "deprovisioning", "powering off before delete", "deleting",
    ]  # fmt: skip
    assert [state.value for state in Operational] == ["", "OK", "discovered", "error", "detached"]


@pytest.mark.parametrize("broken", [
    {"spec": {}}, {"metadata": None}, {"metadata": METADATA, "spec": [1]},
    {"metadata": METADATA, "status": {"provisioning": {"state": "flying"}}},
    {"metadata": {**METADATA, "annotations": 7, "finalizers": 7}},
])  # fmt: skip
def test_a_record_that_is_no_host_is_named_as_such(broken: dict[str, Any]) -> None:
    with pytest.raises(BadRecord):
        read(broken)


def test_a_secret_is_encoded_as_kubernetes_wants_it() -> None:
    found = secret("s", {"text": "ü", "raw": b"\xff"})
    assert found == {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque",
        "data": {"text": base64.b64encode("ü".encode()).decode(), "raw": base64.b64encode(b"\xff").decode()},
    }  # fmt: skip
    with pytest.raises(ValueError, match="raw of secret s is not text"):
        records.secret_text(found, "raw")
    assert records.secret_text({"metadata": {"name": "s"}}, "text") is None
    with pytest.raises(ValueError, match="text of secret s is not text"):
        records.secret_text({"metadata": {"name": "s"}, "data": {"text": "YWI=!!!!"}}, "text")


def managed(**spec: Any) -> Spec:
    return Spec(**{"bmc_address": "ipmi://1", "credentials_name": "bmc", "boot_mac": MAC, **spec})


def of(spec: Spec, *, deleting: bool = False) -> Host:
    return Host("a", "u", "7", 3, {}, (), deleting, spec, Status())


async def kept(*secrets: dict[str, Any]) -> MemoryResources:
    resources = MemoryResources()
    for record in secrets:
        await resources.apply(record)
    return resources


async def test_a_new_system_is_told_what_the_secrets_of_its_host_say() -> None:
    resources = await kept(
        secret("user", {"userData": "{}", "value": "other"}), secret("meta", {"metaData": "name: a"}),
        secret("net", {"value": "links: []"}),
    )  # fmt: skip
    host = of(managed(user_data_name="user", meta_data_name="meta", network_data_name="net"))
    assert await config_drive(resources, host) == ConfigDrive("{}", {"name": "a"}, {"links": []})
    assert await config_drive(resources, of(managed())) == ConfigDrive("", {}, None)


@pytest.mark.parametrize(("name", "content", "words"), [
    ("user_data_name", None, "secret s with the userData is not there"),
    ("user_data_name", {"other": "x"}, "secret s has neither userData nor value"),
    ("meta_data_name", {"metaData": "[1"}, "metaData in secret s is not YAML"),
    ("network_data_name", {"networkData": "[1]"}, "networkData in secret s is not a mapping"),
])  # fmt: skip
async def test_a_secret_that_tells_nothing_is_a_provisioning_error_by_name(
    name: str, content: dict[str, str | bytes] | None, words: str
) -> None:
    resources = await kept(*([secret("s", content)] if content else []))
    assert await config_drive(resources, of(managed(**{name: "s"}))) == Failed(ErrorKind.PROVISIONING, words)


async def test_access_is_put_together_from_the_spec_and_the_secret() -> None:
    resources = await kept(secret("bmc", {"username": " admin\n", "password": "secret\n"}))
    spec = managed(verify_certificate=False, boot_mode="legacy", root_device={"x": 1}, clean=False)
    access, version = await host_access(resources, of(spec), Path("/ca"))
    bmc = BmcLogin("ipmi://1", "admin", "secret", Path("/ca"), False)
    assert access == HostAccess("a", "u", bmc, MAC, "legacy", {"x": 1}, False)
    assert version == (await resources.get("Secret", "bmc") or {})["metadata"]["resourceVersion"]


@pytest.mark.parametrize(("spec", "content", "words"), [
    (managed(bmc_address=""), None, "spec.bmc.address is empty"),
    (managed(credentials_name=""), None, "spec.bmc.credentialsName is empty"),
    (managed(boot_mac=""), None, "spec.bootMACAddress is empty"),
    (managed(), None, "the BMC secret bmc is not there"),
    (managed(), {"username": "x", "password": " "}, "needs a username and a password"),
    (managed(), {"username": "x"}, "needs a username and a password"),
    (managed(), {"password": "x"}, "needs a username and a password"),
    (managed(), {"username": b"\xff", "password": "x"}, "username of secret bmc is not text"),
])  # fmt: skip
async def test_what_is_missing_of_an_access_is_named_unless_the_host_goes_or_has_no_bmc(
    spec: Spec, content: dict[str, str | bytes] | None, words: str
) -> None:
    resources = await kept(*([secret("bmc", content)] if content else []))
    with pytest.raises(Incomplete, match=words) as error:
        await host_access(resources, of(spec), None)
    assert error.value.failed.kind is ErrorKind.REGISTRATION
    if "not text" not in words:
        await host_access(resources, of(spec, deleting=True), None)
    assert (await host_access(resources, of(Spec()), None))[1] == ""


INVENTORY: dict[str, Any] = {
    "hostname": "h", "cpu": {"architecture": "x86_64", "count": 2, "model_name": "m", "frequency": 2400,
                             "flags": ["b", "a", 7]},
    "memory": {"total": 3 * 1024**3 + 5}, "boot": {"pxe_interface": "02:00:00:00:00:0B"},
    "interfaces": [
        {"name": "e0", "mac_address": "02:00:00:00:00:0B", "ipv4_address": "192.0.2.1", "ipv6_address": "fd00::1",
         "vendor": "v", "product": "p", "speed_mbps": 25_999},
        {"name": "e1", "mac_address": "nonsense", "ipv6_address": "fd00::2", "product": "p"},
        {"name": "e2"},
    ],
    "disks": [
        {"name": "/dev/sda", "by_path": "/dev/disk/by-path/1", "size": 7, "rotational": True, "vendor": "v",
         "model": "m", "serial": "s", "hctl": "0:0:0:0", "wwn": "w"},
        {"name": "/dev/nvme0n1", "rotational": True}, {"rotational": False},
    ],
    "system_vendor": {"manufacturer": "who", "product_name": "what", "serial_number": 5,
                      "firmware": {"vendor": "fv", "version": "fx", "build_date": "fd"}},
}  # fmt: skip


def test_every_part_of_an_inventory_finds_its_place() -> None:
    found = hardware(INVENTORY)
    assert (found["hostname"], found["ramMebibytes"]) == ("h", 3072)
    assert found["cpu"] == {"arch": "x86_64", "count": 2, "model": "m", "clockMegahertz": 2400, "flags": ["a", "b"]}
    first, second, third = found["nics"]
    assert first == {"name": "e0", "mac": "02:00:00:00:00:0b", "ip": "192.0.2.1", "model": "v p", "speedGbps": 25,
                     "pxe": True}  # fmt: skip
    assert second == {"name": "e1", "ip": "fd00::2", "model": "p", "speedGbps": 0, "pxe": False}
    assert not third["pxe"] and "mac" not in third
    assert found["storage"][0] == {
        "name": "/dev/disk/by-path/1", "alternateNames": ["/dev/sda"], "sizeBytes": 7, "rotational": True, "type": "HDD",
        "vendor": "v", "model": "m", "serialNumber": "s", "hctl": "0:0:0:0", "wwn": "w",
    }  # fmt: skip
    assert [(d["name"], d["alternateNames"], d["type"]) for d in found["storage"][1:]] == [
        ("/dev/nvme0n1", ["/dev/nvme0n1"], "NVME"), ("", [], "SSD"),
    ]  # fmt: skip
    assert found["systemVendor"] == {"manufacturer": "who", "productName": "what", "serialNumber": "5"}
    assert found["firmware"] == {"bios": {"vendor": "fv", "version": "fx", "date": "fd"}}


def test_the_nic_that_boots_is_the_one_asked_for_before_the_one_the_agent_names() -> None:
    nics = [{"mac_address": MAC}, {"mac_address": "02:00:00:00:00:02"}]
    found = hardware({"interfaces": nics, "boot": {"pxe_interface": "02:00:00:00:00:02"}}, MAC)
    assert [nic["pxe"] for nic in found["nics"]] == [True, False]
    assert not hardware({"interfaces": [{"name": "x"}]})["nics"][0]["pxe"], "no MAC at all is nobody's"


def test_numbers_and_texts_of_an_inventory_have_bounds() -> None:
    found = hardware({
        "hostname": " " + "x" * 300, "memory": {"physical_mb": 2**70, "total": 1}, "cpu": {"count": -1},
        "disks": [{"size": 2**63 - 1}, {"size": "12.9"}, {"size": 1}],
    })  # fmt: skip
    assert (found["hostname"], found["cpu"]["count"]) == ("x" * 256, 0)
    assert found["ramMebibytes"] == 2**63 - 1
    assert [disk["sizeBytes"] for disk in found["storage"]] == [2**63 - 1, 12, 1]


def test_conditions_are_read_as_they_were_written_and_only_progress_says_what_is_done() -> None:
    said = (
        Condition("Ready", True, "HostReady", "then"),
        Condition(PROGRESSING, True, "Inspecting", "now"),
        Condition("Available", False, "", ""),
    )
    status = Status(conditions=said, doing="inspecting, 40 %", error_message="x" * 2000)
    written = status_record(status)
    assert [each["message"] for each in written["conditions"]] == ["", "inspecting, 40 %", "x" * 1024]
    assert [each["status"] for each in written["conditions"]] == ["True", "True", "False"]
    assert read({"metadata": METADATA, "spec": {}, "status": written}).status.conditions == said
    assert read({"metadata": METADATA, "spec": {}, "status": written}).status.doing == "inspecting, 40 %"
    silent = {"conditions": [{"type": PROGRESSING, "status": "True"}]}
    assert read({"metadata": METADATA, "spec": {}, "status": silent}).status.doing == ""
    bare = {"conditions": [{}, {"type": "Ready", "status": "Unknown"}]}
    assert read({"metadata": METADATA, "spec": {}, "status": bare}).status.conditions == (
        Condition("", False, "", ""),
        Condition("Ready", False, "", ""),
    )


def test_the_secrets_a_host_names_are_those_of_its_bmc_and_its_first_boot() -> None:
    spec = {
        "bmc": {"credentialsName": "bmc"}, "userData": {"name": "user", "namespace": "other"},
        "metaData": {"name": "meta"}, "networkData": {"name": "net"}, "preprovisioningNetworkDataName": "agent",
    }  # fmt: skip
    assert records.secrets_of({"metadata": {"namespace": "here"}, "spec": spec}) == [
        "here/bmc", "other/user", "here/meta", "here/net", "here/agent",
    ]  # fmt: skip
    assert records.secrets_of({"metadata": {}, "spec": {"bmc": {"credentialsName": "bmc"}}}) == ["/bmc"]
    assert records.secrets_of({"metadata": {}}) == [] == records.secrets_of({"metadata": {}, "spec": {"userData": {}}})


def test_a_system_that_a_step_of_the_agent_puts_on_the_disk_is_told_and_read_again() -> None:
    for image in (
        Image("", "", "auto", "qcow2", "install_coreos"),
        Image("http://i", "s", "md5", "raw", "install_coreos"),
    ):
        status = Status(State.PROVISIONED, image=image, boot_mode="UEFI")
        record = records.status_record(status)
        assert record["provisioning"]["customDeploy"] == {"method": "install_coreos"}
        assert ("image" in record["provisioning"]) is bool(image.url)
        found = read({"metadata": METADATA, "spec": {}, "status": record}).status.image
        assert found is not None and (found.url, found.method) == (image.url, "install_coreos")
