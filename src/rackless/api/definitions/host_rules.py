"""What Metal3's webhook refuses of a BareMetalHost beyond its schema; here the server itself refuses it."""

from __future__ import annotations

import re
from functools import cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from rackless.api.definitions.hosts import HARDWARE, HOST_STATUS
from rackless.api.definitions.unheeded import unheeded
from rackless.api.encoding import decode
from rackless.api.kinds.kind import Writing
from rackless.api.schema.structural import Node, WalkReport, compile_schema, finished
from rackless.api.status import Cause, Json, forbidden_field, invalid_value

_SCHEMES = {
    # scheme: (needs a boot MAC, supports secure boot)
    "ipmi": (False, False),
    "libvirt": (True, False),
    "redfish": (False, True),
    "ilo5-redfish": (False, True),
    "idrac-redfish": (False, True),
    "redfish-virtualmedia": (False, True),
    "ilo5-virtualmedia": (False, True),
    "idrac-virtualmedia": (False, True),
    "redfish-uefihttp": (False, True),
}
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.IGNORECASE)
_DETACHED = "baremetalhost.metal3.io/detached"
_INSPECT = "inspect.metal3.io"
_STATUS, _DETAILS = "baremetalhost.metal3.io/status", "inspect.metal3.io/hardwaredetails"


def host_problems(writing: Writing) -> list[Cause]:
    spec = writing.new.get("spec") or {}
    found = _name(writing.new["metadata"]["name"])
    found += _bmc(spec)
    found += _raid(spec.get("raid") or {})
    found += _root_device(spec)
    found += _image(spec.get("image") or {})
    found += _annotations(writing.new["metadata"].get("annotations") or {}, spec)
    found += _brought(writing)
    found += _secrets(spec, writing.new["metadata"].get("namespace", ""))
    if spec.get("disablePowerOff") and not spec.get("online"):
        found.append(
            invalid_value(
                "spec.disablePowerOff",
                True,
                "node can't simultaneously have online set to false and have power off disabled",
            )
        )
    if not writing.subresource:
        found += unheeded(spec, (writing.old or {}).get("spec") or {})
    if writing.old is not None and not writing.subresource:
        found += _changes(writing.old, writing.new)
    return found


def _name(name: str) -> list[Cause]:
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        return [
            invalid_value(
                "metadata.name", name, "BareMetalHost resource name cannot contain characters other than [A-Za-z0-9._-]"
            )
        ]
    try:
        UUID(name)
    except ValueError:
        return []
    return [invalid_value("metadata.name", name, "BareMetalHost resource name cannot be a UUID")]


def scheme_of(address: str) -> str:
    """The driver's scheme: a bare host means IPMI, `+http` and `+https` only say how."""
    scheme, separator, _ = address.partition("://")
    return scheme.partition("+")[0] if separator else "ipmi"


def _bmc(spec: Json) -> list[Cause]:
    address = (spec.get("bmc") or {}).get("address") or ""
    if not address:
        return []
    scheme = scheme_of(address)
    if scheme not in _SCHEMES:
        return [invalid_value("spec.bmc.address", address, f"unknown BMC type '{scheme}' for address {address}")]
    try:
        parts = urlsplit(address if "://" in address else f"ipmi://{address}")
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        return [invalid_value("spec.bmc.address", address, f"failed to parse BMC address information: {error}")]
    found = []
    if not _is_host(host):
        found.append(
            invalid_value(
                "spec.bmc.address",
                address,
                "failed to parse BMC address information: hostname is neither a name nor an address",
            )
        )
    needs_mac, secure_boot = _SCHEMES[scheme]
    if not spec.get("bootMACAddress") and (needs_mac or spec.get("inspectionMode") == "disabled"):
        why = (
            f"BMC driver {scheme} requires a BootMACAddress value"
            if needs_mac
            else "bootMACAddress is required when inspection is disabled"
        )
        found.append(invalid_value("spec.bootMACAddress", "", why))
    if spec.get("bootMode") == "UEFISecureBoot" and not secure_boot:
        found.append(
            invalid_value("spec.bootMode", "UEFISecureBoot", f"BMC driver {scheme} does not support secure boot")
        )
    return found


def _is_host(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return bool(_HOST.fullmatch(host))
    return True


def _raid(raid: Json) -> list[Cause]:
    hardware, software = raid.get("hardwareRAIDVolumes") or [], raid.get("softwareRAIDVolumes") or []
    found = []
    if hardware and software:
        found.append(
            invalid_value(
                "spec.raid", "", "hardwareRAIDVolumes and softwareRAIDVolumes can not be set at the same time"
            )
        )
    for index, volume in enumerate(hardware):
        disks = volume.get("physicalDisks") or []
        at = f"spec.raid.hardwareRAIDVolumes[{index}]"
        if disks and volume.get("controller") in (None, ""):
            found.append(invalid_value(f"{at}.physicalDisks", disks, "'physicalDisks' specified without 'controller'"))
        if disks and volume.get("numberOfPhysicalDisks") not in (None, len(disks)):
            found.append(
                invalid_value(
                    f"{at}.numberOfPhysicalDisks",
                    volume["numberOfPhysicalDisks"],
                    "is not the number of 'physicalDisks'",
                )
            )
    if software and software[0].get("level") != "1":
        found.append(
            invalid_value(
                "spec.raid.softwareRAIDVolumes[0].level",
                software[0].get("level", ""),
                "the level in first volume of software raid must be RAID1",
            )
        )
    return found


def _root_device(spec: Json) -> list[Cause]:
    name = (spec.get("rootDeviceHints") or {}).get("deviceName") or ""
    at = "spec.rootDeviceHints.deviceName"
    if name and not name.startswith("/dev/"):
        return [invalid_value(at, name, "device name of root device hint must be a /dev/ path")]
    if name.startswith("/dev/disk/") and not name.startswith("/dev/disk/by-path/"):
        return [invalid_value(at, name, "must be a by-path link or a device node")]
    return []


def _image(image: Json) -> list[Cause]:
    url = image.get("url") or ""
    if not url:
        return []
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https", "file", "oci") or not (parts.netloc or parts.path):
        return [invalid_value("spec.image.url", url, f"image URL {url} is an invalid URL")]
    checksum = image.get("checksum") or ""
    if parts.scheme == "oci":
        return [forbidden_field("spec.image.checksum", "oci:// images carry their own checksum")] if checksum else []
    if not checksum and image.get("format") != "live-iso":
        return [invalid_value("spec.image.checksum", "", "the checksum of the image is required")]
    return []


def _json(annotations: Json, name: str, fields: dict[str, tuple[Any, ...]]) -> list[Cause]:
    value = annotations.get(name) or ""
    if not value:
        return []
    at = f"metadata.annotations[{name}]"
    try:
        parsed = decode(value.encode())
    except ValueError as error:
        return [invalid_value(at, value, f"failed to unmarshal the data: {error}")]
    if not isinstance(parsed, dict):
        return [invalid_value(at, value, "must be a JSON object")]
    return [
        invalid_value(at, value, f"{field} must be one of {', '.join(map(str, allowed))}")
        for field, allowed in fields.items()
        if field in parsed and parsed[field] not in allowed
    ]


def _annotations(annotations: Json, spec: Json) -> list[Cause]:
    found = _json(annotations, _STATUS, {})
    found += _json(annotations, _DETAILS, {})
    found += (
        _json(annotations, _DETACHED, {"deleteAction": ("delay", "delete")})
        if annotations.get(_DETACHED, "").startswith("{")
        else []
    )
    for name in annotations:
        if name == "reboot.metal3.io" or name.startswith("reboot.metal3.io/"):
            found += _json(annotations, name, {"mode": ("hard", "soft", ""), "force": (False,)})
    inspect = annotations.get(_INSPECT)
    if inspect not in (None, "", "disabled"):
        found.append(invalid_value(f"metadata.annotations[{_INSPECT}]", inspect, "must be empty or disabled"))
    if inspect == "disabled" and spec.get("inspectionMode") not in (None, "", "disabled"):
        found.append(
            invalid_value(
                "spec.inspectionMode", spec["inspectionMode"], f"conflicts with the annotation {_INSPECT}=disabled"
            )
        )
    return found


def _brought(writing: Writing) -> list[Cause]:
    """A status or hardware that comes in an annotation must be one that can be stored as such."""
    before = ((writing.old or {}).get("metadata") or {}).get("annotations") or {}
    found = []
    for name, schema, strict in ((_STATUS, "status", False), (_DETAILS, "hardware", True)):
        value = (writing.new["metadata"].get("annotations") or {}).get(name)
        if not value or value == before.get(name):
            continue
        try:
            parsed = decode(value.encode())
        except ValueError:
            continue  # which is told already
        report = WalkReport()
        if isinstance(parsed, dict):
            _walk(schema)(parsed, report)
        at = f"metadata.annotations[{name}]"
        # what is required and missing is filled in when it is taken over
        causes = [each for each in finished(report.causes) if each.reason != "FieldValueRequired"]
        found += [Cause(at, each.reason, f"{each.field}: {each.message}") for each in causes]
        if strict:
            found += [forbidden_field(at, f"unknown field {field}") for field in report.unknown]
    return found


@cache
def _walk(part: str) -> Node:
    return compile_schema(HOST_STATUS if part == "status" else HARDWARE)


def _secrets(spec: Json, namespace: str) -> list[Cause]:
    return [
        invalid_value(
            f"spec.{field}.namespace",
            spec[field]["namespace"],
            f"{field}: cross-namespace Secret references are not allowed",
        )
        for field in ("userData", "networkData", "metaData")
        if (spec.get(field) or {}).get("namespace") not in (None, "", namespace)
    ]


def _changes(old: Json, new: Json) -> list[Cause]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    status = old.get("status") or {}
    state = (status.get("provisioning") or {}).get("state") or ""
    found = []
    old_address = (before.get("bmc") or {}).get("address") or ""
    new_address = (after.get("bmc") or {}).get("address") or ""
    detached = status.get("operationalStatus") == "detached"
    if old_address and old_address != new_address and state not in ("", "registering") and not detached:
        found.append(
            invalid_value(
                "spec.bmc.address",
                new_address,
                "BMC address can not be changed if the BMH is not in the Registering state, or if the BMH is "
                "not detached",
            )
        )
    old_mac = before.get("bootMACAddress")
    if old_mac and (after.get("bootMACAddress") or "").lower() != old_mac.lower():
        found.append(
            invalid_value(
                "spec.bootMACAddress",
                after.get("bootMACAddress", ""),
                "bootMACAddress can not be changed once it is set",
            )
        )
    turned_on = after.get("externallyProvisioned") and not before.get("externallyProvisioned")
    if turned_on and state not in ("", "registering", "unmanaged", "inspecting", "preparing", "available", "ready"):
        found.append(invalid_value("spec.externallyProvisioned", True, "externallyProvisioned can not be changed"))
    return found
