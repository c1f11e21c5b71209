"""BIOS settings of a host: the wanted ones (HostFirmwareSettings), the current ones, and the allowed values (FirmwareSchema). Pure.

What the engine tells of the settings becomes the status of the host's HostFirmwareSettings and a FirmwareSchema, which hosts
of one model share. Wanted settings that the schema allows and that differ are applied when the host is prepared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import API_VERSION, Host
from rackless.provisioning.baremetalhost import KIND as HOST

SETTINGS = "HostFirmwareSettings"
SCHEMA = "FirmwareSchema"
CHANGE_DETECTED, VALID = "ChangeDetected", "Valid"
Found = Mapping[str, Mapping[str, Any]]
"""As `Provisioner.firmware` tells it."""


def settings_record(host: Host, namespace: str) -> Record:
    """A host's settings, of which none is wanted yet; they go when the host goes."""
    owner = {"apiVersion": API_VERSION, "kind": HOST, "name": host.name, "uid": host.uid, "controller": True}
    return {
        "apiVersion": API_VERSION,
        "kind": SETTINGS,
        "metadata": {"name": host.name, "namespace": namespace, "ownerReferences": [owner]},
        "spec": {"settings": {}},
    }


def schema_record(found: Found, host: Host, namespace: str) -> Record:
    """Which settings there are and which values they take, by a name that is the same for hosts with the same."""
    schema = {
        name: {field: value for field, value in told.items() if field != "value"}
        for name, told in found.items()
        if not secret(name)
    }
    vendor = (host.status.hardware or {}).get("systemVendor") or {}
    digest = hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()
    return {
        "apiVersion": API_VERSION,
        "kind": SCHEMA,
        "metadata": {"name": f"schema-{digest[:8]}", "namespace": namespace},
        "spec": {
            "hardwareVendor": str(vendor.get("manufacturer") or ""),
            "hardwareModel": str(vendor.get("productName") or ""),
            "schema": schema,
        },
    }


def settings_status(record: Record, found: Found, schema: Record, now: str) -> Record:
    """The status of a HostFirmwareSettings; the one it has when nothing is new."""
    wanted, before = _wanted(record), record.get("status") or {}
    problems = [problem for name, value in sorted(wanted.items()) if (problem := wrong(name, value, found))]
    if not found and wanted:
        problems = ["the host's BMC shows no settings of its firmware"]
    changed = sorted(name for name, value in wanted.items() if not _same(value, found.get(name)))
    conditions = [
        _condition(record, before, CHANGE_DETECTED, bool(changed), ", ".join(changed), now),
        _condition(record, before, VALID, not problems, "; ".join(problems), now),
    ]
    status: Record = {
        "conditions": conditions,
        "schema": {"name": schema["metadata"]["name"], "namespace": schema["metadata"]["namespace"]},
        "settings": {name: str(told.get("value", "")) for name, told in found.items() if not secret(name)},
    }
    if {**before, "lastUpdated": ""} == {**status, "lastUpdated": ""}:
        return before
    return {**status, "lastUpdated": now}


def to_give(record: Record | None) -> tuple[str, dict[str, str]]:
    """UID and generation of the HostFirmwareSettings, and its settings that are allowed and differ from the current ones; empty
    when there are none."""
    if record is None or record["metadata"].get("deletionTimestamp"):
        return "", {}
    generation = record["metadata"].get("generation")
    for type_ in (CHANGE_DETECTED, VALID):
        said = condition(record, type_)
        if said.get("status") != "True" or said.get("observedGeneration") != generation:
            return "", {}
    return f"{record['metadata']['uid']}/{generation}", _wanted(record)


def wrong(name: str, value: str, found: Found) -> str:
    """Why a setting cannot have this value; empty when it can."""
    if secret(name):
        return f"{name} is a password, which is not set this way"
    if name not in found:
        return f"the firmware has no setting {name}"
    told = found[name]
    if told.get("read_only"):
        return f"{name} can only be read"
    match told.get("attribute_type"):
        case "Enumeration" if value not in (allowed := told.get("allowable_values") or [value]):
            return f"{name} is {value}, and can be {', '.join(map(str, allowed))}"
        case "Integer":
            return _wrong_number(name, value, told)
        case "Boolean" if value.lower() not in ("true", "false"):
            return f"{name} is {value}, and can be true or false"
        case "String":
            least, most = told.get("min_length"), told.get("max_length")
            if (least is not None and len(value) < least) or (most is not None and len(value) > most):
                return f"{name} has {len(value)} characters, and can have {least or 0} to {most or 'any number'}"
    return ""


def _wrong_number(name: str, value: str, told: Mapping[str, Any]) -> str:
    least, most = told.get("lower_bound"), told.get("upper_bound")
    try:
        number = int(value)
    except ValueError:
        return f"{name} is {value}, which is no number"
    if (least is not None and number < least) or (most is not None and number > most):
        return f"{name} is {value}, and can be {'any' if least is None else least} to {'any' if most is None else most}"
    return ""


def secret(name: str) -> bool:
    """Passwords of the firmware are neither shown nor set."""
    return "password" in name.lower()


def condition(record: Record, type_: str) -> Mapping[str, Any]:
    conditions = (record.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == type_), {})


def _wanted(record: Record) -> dict[str, str]:
    return {name: _text(value) for name, value in ((record.get("spec") or {}).get("settings") or {}).items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _same(value: str, told: Mapping[str, Any] | None) -> bool:
    if told is None:
        return False
    now = str(told.get("value", ""))
    return now.lower() == value.lower() if told.get("attribute_type") == "Boolean" else now == value


def _condition(record: Record, before: Record, type_: str, truth: bool, message: str, now: str) -> Record:
    status = "True" if truth else "False"
    was = condition({"status": before}, type_)
    since = was.get("lastTransitionTime") if was.get("status") == status else None
    bad = type_ == VALID and not truth
    return {
        "type": type_,
        "status": status,
        "reason": "ConfigurationError" if bad else "Success",
        "message": message,
        "observedGeneration": record["metadata"].get("generation") or 0,
        "lastTransitionTime": since or now,
    }
