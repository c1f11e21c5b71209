"""What a BareMetalHost may ask for, by its schema, and no controller here does.

The embedded API refuses it when it is written. Another API does not: there the host controller tells it as the host's error,
instead of passing it over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from rackless.api.status import Cause, forbidden_field, invalid_value

Spec = Mapping[str, Any]
PROFILES = ("", "default", "unknown", "empty", "libvirt", "dell", "dell-raid", "openstack")


def unheeded(spec: Spec, before: Spec) -> list[Cause]:
    """What is asked for in vain. What stood in `before` already is passed over: such a host may still be changed otherwise."""
    found = []
    if spec.get("firmware") and spec["firmware"] != before.get("firmware"):
        found.append(forbidden_field("spec.firmware", "firmware settings are set with HostFirmwareSettings"))
    if spec.get("networkInterfaces") and spec["networkInterfaces"] != before.get("networkInterfaces"):
        found.append(forbidden_field("spec.networkInterfaces", "switches are not configured here"))
    if spec.get("inspectionMode") == "fast" and before.get("inspectionMode") != "fast":
        found.append(forbidden_field("spec.inspectionMode", "hosts are inspected by the agent: use agent, or disabled"))
    if spec.get("taints") and spec["taints"] != before.get("taints"):
        found.append(
            forbidden_field("spec.taints", "hosts have none here: write them into the Machine, its Node gets those")
        )
    if (profile := spec.get("hardwareProfile") or "") not in (*PROFILES, before.get("hardwareProfile")):
        found.append(invalid_value("spec.hardwareProfile", profile, f"must be one of {', '.join(PROFILES[1:])}"))
    if _volumes(spec) and _volumes(spec) != _volumes(before):
        found.append(forbidden_field("spec.raid", "RAID volumes are not set up here: leave them out"))
    found += _image(spec.get("image") or {}, before.get("image") or {})
    if spec.get("disablePowerOff") and not before.get("disablePowerOff"):
        why = "hosts are switched off here: to boot its agent from virtual media, Ironic switches every host off first"
        found.append(forbidden_field("spec.disablePowerOff", why))
    return found


def _volumes(spec: Spec) -> list[Any]:
    raid = spec.get("raid") or {}
    return [volume for kind in ("hardwareRAIDVolumes", "softwareRAIDVolumes") for volume in raid.get(kind) or ()]


def _image(image: Spec, before: Spec) -> list[Cause]:
    found = []
    if urlsplit(image.get("url") or "").scheme == "oci" and image.get("url") != before.get("url"):
        found.append(forbidden_field("spec.image.url", "images are not fetched from registries here: use an http URL"))
    if image.get("ociAuthSecretName") and not before.get("ociAuthSecretName"):
        found.append(forbidden_field("spec.image.ociAuthSecretName", "images are not fetched from registries here"))
    if image.get("format") in ("vdi", "vmdk") and image.get("format") != before.get("format"):
        found.append(forbidden_field("spec.image.format", "Ironic writes no such images here: make it qcow2 or raw"))
    return found
