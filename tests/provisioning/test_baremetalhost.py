import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackless.drivers.fake.provisioner import INVENTORY
from rackless.ports.provisioner import ErrorKind, Image
from rackless.provisioning.baremetalhost import (
    Operational,
    Span,
    State,
    Status,
    baremetalhost,
    read,
    secret,
    secret_text,
    status_record,
)
from rackless.provisioning.hardware import hardware

IMAGE = Image("http://192.0.2.1/node.qcow2", "ab" * 32)
STATUS = Status(
    state=State.PROVISIONED,
    operational=Operational.ERROR,
    id="a-node",
    error_type=ErrorKind.POWER,
    error_message="no answer",
    error_count=2,
    provisioning_fail_count=1,
    powered_on=True,
    image=IMAGE,
    boot_mode="UEFI",
    hardware=hardware(INVENTORY, "02:00:00:00:00:01"),
    history={"register": Span("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"), "inspect": Span("2026-01-01T00:00:01Z")},
    good_credentials="7",
    last_updated="2026-01-01T00:00:02Z",
)


def stored(record: dict[str, Any], **more: Any) -> dict[str, Any]:
    own = {"uid": "uid-1", "resourceVersion": "1", "generation": 1}
    return {**record, "metadata": {**record["metadata"], **own}, **more}


def test_a_status_reads_as_it_was_written() -> None:
    record = stored(baremetalhost("ctrl-0", "redfish-virtualmedia://192.0.2.1", "bmc", "02:00:00:00:00:01"))
    assert read({**record, "status": json.loads(json.dumps(status_record(STATUS, "bmc")))}).status == STATUS


def test_what_is_wanted_of_a_host_reads_as_it_was_asked_for() -> None:
    record = baremetalhost("ctrl-0", "redfish-virtualmedia://192.0.2.1", "bmc", "02:00:00:00:00:0A", IMAGE, "ignition")
    spec = read(stored(record)).spec
    assert (spec.bmc_address, spec.credentials_name) == ("redfish-virtualmedia://192.0.2.1", "bmc")
    assert (spec.boot_mac, spec.image, spec.user_data_name, spec.online) == (
        "02:00:00:00:00:0a",
        IMAGE,
        "ignition",
        True,
    )


def test_a_host_with_hardly_anything_said_reads_too() -> None:
    host = read(stored({"metadata": {"name": "lone"}, "spec": {"online": True, "bmc": None, "image": None}}))
    assert not host.spec.managed and host.spec.image is None and host.status == Status()


def test_secrets_carry_text_and_refuse_what_is_not() -> None:
    record = secret("bmc", {"username": "admin", "value": "ünlü".encode()})
    assert secret_text(record, "username") == "admin"
    assert secret_text(record, "userData", "value") == "ünlü"
    assert secret_text(record, "password") is None
    record["data"]["username"] = "not base64!"
    with pytest.raises(ValueError, match="username of secret bmc is not text"):
        secret_text(record, "username")


def test_hardware_is_told_in_metal3s_words() -> None:
    found = hardware(INVENTORY, "02:00:00:00:00:01")
    assert found["cpu"] == {
        "arch": "x86_64",
        "count": 2,
        "model": "Nehalem",
        "clockMegahertz": 2400,
        "flags": ["sse2"],
    }
    assert found["nics"][0]["pxe"] and found["storage"][0]["type"] == "SSD"


@pytest.mark.parametrize(
    "inventory",
    [
        {},
        {"cpu": "many", "memory": None, "interfaces": "eth0", "disks": [1, None, {"size": "big", "name": ["x"]}]},
        {"memory": {"physical_mb": -5, "total": float("inf")}, "cpu": {"flags": [1, {}], "count": "1e400"}},
        {"hostname": "x" * 10_000, "system_vendor": {"firmware": []}},
        {"cpu": {"flags": 5}},
        {"cpu": {"flags": "sse2"}, "hostname": "half a character: \ud800"},
        {"cpu": {"flags": {"a": 1}, "model_name": ["x"]}, "interfaces": {"a": 1}, "disks": 7},
    ],
)
def test_an_inventory_of_nonsense_is_hardware_without_it(inventory: dict[str, Any]) -> None:
    found = hardware(inventory)
    assert found["ramMebibytes"] == 0 and found["cpu"]["count"] == 0 and found["cpu"]["flags"] == []
    assert len(found["hostname"]) <= 256
    json.dumps(found, ensure_ascii=False).encode()


def test_an_inventory_is_kept_as_far_as_an_annotation_may_be_long() -> None:
    long = "x" * 10_000
    nics = [{"name": long, "mac_address": "02:00:00:00:00:01", "vendor": long, "ipv6_address": long}] * 10_000
    disks = [dict.fromkeys(("name", "by_path", "vendor", "model", "serial", "hctl", "wwn"), long)] * 10_000
    found = hardware(
        {"cpu": {"flags": [f"{number}{long}" for number in range(10_000)]}, "interfaces": nics, "disks": disks}
    )
    assert (len(found["nics"]), len(found["storage"]), len(found["cpu"]["flags"])) == (64, 64, 512)
    assert len(json.dumps(found)) < 256 << 10
    assert len(hardware({"interfaces": nics[:64]})["nics"]) == 64


def test_records_fit_metal3s_own_definition() -> None:
    folder = Path(__file__).parents[2].parent / "shared/data/crds"
    files = [*folder.rglob("*baremetalhosts*.yaml")] if folder.exists() else []
    if not files:
        pytest.skip(f"Metal3's definitions are not in {folder}")
    schema = yaml.safe_load(files[0].read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    record = baremetalhost("ctrl-0", "redfish-virtualmedia://192.0.2.1", "bmc", "02:00:00:00:00:01", IMAGE, "ignition")
    assert not list(problems(schema, {**record, "status": status_record(STATUS, "bmc")}, ""))
    assert not list(problems(schema, {**record, "status": status_record(Status())}, ""))


def problems(schema: dict[str, Any], value: Any, path: str) -> Any:
    """As much of a structural schema as is needed to see a wrong name, type or word."""
    kinds: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "boolean": bool,
        "number": (int, float),
    }
    if schema.get("nullable") and value is None:
        return
    if not isinstance(value, kinds[schema["type"]]):
        yield f"{path}: {value!r} is no {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is not one of {schema['enum']}"
    if isinstance(value, dict) and path != ".metadata":
        known = schema.get("properties")
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{path}.{name} is missing"
        for name, part in value.items():
            if known is not None and name not in known:
                yield f"{path}.{name} is unknown"
            elif known is not None:
                yield from problems(known[name], part, f"{path}.{name}")
    if isinstance(value, list):
        for number, part in enumerate(value):
            yield from problems(schema["items"], part, f"{path}[{number}]")


def test_the_profile_names_the_root_disk_unless_hints_do() -> None:
    record: dict[str, Any] = {
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "generation": 1},
        "spec": {"online": True, "hardwareProfile": "libvirt"},
    }
    assert read(record).spec.root_device == {"deviceName": "/dev/vda"}
    record["spec"]["rootDeviceHints"] = {"model": "QEMU"}
    assert read(record).spec.root_device == {"model": "QEMU"}
    for profile in ("unknown", "empty", ""):
        record["spec"] = {"online": True, "hardwareProfile": profile}
        assert read(record).spec.root_device == {}


@pytest.mark.parametrize(("written", "state"), [("ready", State.AVAILABLE), ("match profile", State.PREPARING)])
def test_states_of_older_metal3s_are_read_as_what_they_are_called_now(written: str, state: State) -> None:
    metadata = {"name": "a", "uid": "u", "resourceVersion": "1", "generation": 1}
    assert read({"metadata": metadata, "status": {"provisioning": {"state": written}}}).status.state is state
