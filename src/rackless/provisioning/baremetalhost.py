"""BareMetalHost records (metal3.io/v1alpha1) as typed values, and back. Pure; who keeps the records is not known here.

The spec says what is wanted of a host, the status how it is; both can be moved to a cluster's API unchanged.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from rackless.ports.provisioner import ErrorKind, Image
from rackless.ports.resources import Record

KIND = "BareMetalHost"
HARDWARE_DATA = "HardwareData"
"""The kind of the object with the inspected hardware; it has the host's name."""
API_VERSION = "metal3.io/v1alpha1"
FINALIZER = "baremetalhost.metal3.io"
PAUSED = "baremetalhost.metal3.io/paused"
METAL = "rackless.test/metal"
"""The label of hosts that are no servers of the lab."""
NOT_TAKEN = "rackless-not-taken"
"""The value of the pause annotation on a real server (`metal:`) until a person lets the lab use it."""
INSPECT = "inspect.metal3.io"
REBOOT = "reboot.metal3.io"
"""Reboot annotation. Alone: power cycle. With `/` and a name: off until its writer removes the annotation."""
RETRY = "rackless.test/retry"
"""Annotation: retry a failed step at once, with its failures forgotten; removed when the step begins."""
CLEAN = "rackless.test/clean"
"""Annotation: clean an available host once more; removed when cleaning begins."""
DEADLINES = "rackless.test/deadlines"
"""Annotation: how long phases may take, as `inspecting=45m,provisioning=2h`."""
BY_HAND = "rackless.test/by-hand"
"""Annotation: a person chose this host's image; `up` does not change it."""


PROFILES: Mapping[str, Mapping[str, Any]] = {
    "libvirt": {"deviceName": "/dev/vda"},
    "openstack": {"deviceName": "/dev/vdb"},
    "dell": {"hctl": "0:0:0:0"},
    "dell-raid": {"hctl": "0:2:0:0"},
}
"""The root disk by `hardwareProfile`, where no hints say it; with others the engine chooses."""


class State(StrEnum):
    """Provisioning states, in Metal3's words."""

    NONE = ""
    UNMANAGED = "unmanaged"
    REGISTERING = "registering"
    INSPECTING = "inspecting"
    PREPARING = "preparing"
    AVAILABLE = "available"
    PROVISIONING = "provisioning"
    PROVISIONED = "provisioned"
    EXTERNALLY_PROVISIONED = "externally provisioned"
    DEPROVISIONING = "deprovisioning"
    POWERING_OFF = "powering off before delete"
    DELETING = "deleting"


OLDER: Mapping[str, State] = {"ready": State.AVAILABLE, "match profile": State.PREPARING}
"""What older Metal3s wrote, which a host that comes from there still has."""


class BadRecord(ValueError):
    """A record that is no BareMetalHost, or one of a newer kind than we know."""


class Operational(StrEnum):
    NONE = ""
    OK = "OK"
    DISCOVERED = "discovered"
    ERROR = "error"
    DETACHED = "detached"
    """Ironic does not know the host, and its power is not managed."""


@dataclass(frozen=True, slots=True)
class Spec:
    online: bool = False
    bmc_address: str = ""
    credentials_name: str = ""
    verify_certificate: bool = True
    boot_mac: str = ""
    boot_mode: str = "UEFI"
    root_device: Mapping[str, Any] = field(default_factory=dict)
    image: Image | None = None
    user_data_name: str = ""
    meta_data_name: str = ""
    network_data_name: str = ""
    inspect: bool = True
    clean: bool = True
    externally_provisioned: bool = False
    architecture: str = ""
    agent_network_name: str = ""
    """The Secret with the addresses of the deploy ramdisk (`preprovisioningNetworkDataName`), where DHCP gives none."""

    @property
    def managed(self) -> bool:
        return bool(self.bmc_address or self.credentials_name)


@dataclass(frozen=True, slots=True)
class Span:
    """When an operation began and ended, in the record's own words."""

    start: str | None = None
    end: str | None = None


PROGRESSING = "Progressing"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a host, as Metal3 has them, for `kubectl wait` and for programs."""

    type: str
    true: bool
    reason: str
    since: str


@dataclass(frozen=True, slots=True)
class Status:
    state: State = State.NONE
    operational: Operational = Operational.NONE
    id: str = ""
    error_type: ErrorKind | None = None
    error_message: str = ""
    error_count: int = 0
    provisioning_fail_count: int = 0
    powered_on: bool = False
    image: Image | None = None
    """The image that is on the disk, or on its way there."""
    boot_mode: str = ""
    hardware: Mapping[str, Any] | None = None
    history: Mapping[str, Span] = field(default_factory=dict)
    good_credentials: str = ""
    """The version of the credentials with which the BMC was last reached."""
    last_updated: str = ""
    conditions: tuple[Condition, ...] = ()
    doing: str = ""
    """What is being done in this state, how far that is and since when: the message of the condition Progressing."""


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    uid: str
    resource_version: str
    generation: int
    annotations: Mapping[str, str]
    finalizers: tuple[str, ...]
    deleting: bool
    spec: Spec
    status: Status


@dataclass(frozen=True, slots=True)
class System:
    """The system that a person wants on a host: an image, and its user data."""

    image: Image
    user_data: str = field(default="", repr=False)


def own_user_data(host: str) -> str:
    """The Secret with what a person wants their own image to be told."""
    return f"{host}-own-user-data"


def baremetalhost(
    name: str,
    bmc_address: str,
    credentials_name: str,
    boot_mac: str,
    image: Image | None = None,
    user_data_name: str = "",
    online: bool = True,
    boot_mode: str = "",
    root_device: Mapping[str, Any] | None = None,
) -> Record:
    """A host as it is wanted, ready to be applied."""
    spec: Record = {
        "online": online,
        "bmc": {"address": bmc_address, "credentialsName": credentials_name},
        "bootMACAddress": boot_mac,
    }
    if boot_mode:
        spec["bootMode"] = boot_mode
    if root_device:
        spec["rootDeviceHints"] = dict(root_device)
    if image is not None:
        spec["image"] = image_record(image)
    if user_data_name:
        spec["userData"] = {"name": user_data_name}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def strange_host(name: str, bmc_address: str, boot_mac: str, boot_mode: str = "", *, verify: bool = True) -> Record:
    """A real server that may be in use: it is paused, and nothing is done with it until a person removes the pause. Its BMC login
    is in a Secret of its own."""
    record = baremetalhost(name, bmc_address, strangers_secret(name), boot_mac, online=False, boot_mode=boot_mode)
    if not verify:
        record["spec"]["bmc"]["disableCertificateVerification"] = True
    record["metadata"] |= {"annotations": {PAUSED: NOT_TAKEN}, "labels": {METAL: ""}}
    return record


def strangers_secret(name: str) -> str:
    return f"{name}-bmc-credentials"


def hardware_data(host: Host, hardware: Mapping[str, Any]) -> Record:
    """The HardwareData object of a host; it is deleted with the host."""
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": host.name, "uid": host.uid, "controller": True}
    return {
        "apiVersion": API_VERSION,
        "kind": HARDWARE_DATA,
        "metadata": {"name": host.name, "ownerReferences": [owner]},
        "spec": {"hardware": dict(hardware)},
    }


def secret(name: str, data: Mapping[str, str | bytes]) -> Record:
    """A Secret with these values, encoded as Kubernetes wants them."""
    raw = {key: value.encode() if isinstance(value, str) else value for key, value in data.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "type": "Opaque",
        "data": {key: base64.b64encode(value).decode() for key, value in raw.items()},
    }


def secret_text(record: Record, *keys: str) -> str | None:
    """The first of these keys that the secret has, as text. Raises ValueError when it is not text in base64."""
    data = record.get("data") or {}
    for key in keys:
        if key in data:
            try:
                return base64.b64decode(data[key], validate=True).decode()
            except (binascii.Error, UnicodeDecodeError, TypeError) as error:
                raise ValueError(f"{key} of secret {record['metadata']['name']} is not text in base64") from error
    return None


def secrets_of(record: Record) -> list[str]:
    """The Secrets a host names, as `namespace/name`."""
    spec, own = record.get("spec") or {}, record["metadata"].get("namespace") or ""
    named = [(own, (spec.get("bmc") or {}).get("credentialsName"))]
    for field_ in ("userData", "metaData", "networkData"):
        reference = spec.get(field_) or {}
        named.append((reference.get("namespace") or own, reference.get("name")))
    named.append((own, spec.get("preprovisioningNetworkDataName")))
    return [f"{namespace}/{name}" for namespace, name in named if name]


def read(record: Record) -> Host:
    """Raises BadRecord."""
    try:
        return _read(record)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadRecord(f"{type(error).__name__}: {error}") from error


def _read(record: Record) -> Host:
    metadata = record["metadata"]
    return Host(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=metadata["generation"],
        annotations=metadata.get("annotations") or {},
        finalizers=tuple(metadata.get("finalizers") or ()),
        deleting=bool(metadata.get("deletionTimestamp")),
        spec=_read_spec(record.get("spec") or {}),
        status=_read_status(record.get("status") or {}),
    )


def _read_spec(spec: Record) -> Spec:
    bmc = spec.get("bmc") or {}
    return Spec(
        online=bool(spec.get("online", False)),
        bmc_address=bmc.get("address") or "",
        credentials_name=bmc.get("credentialsName") or "",
        verify_certificate=not bmc.get("disableCertificateVerification", False),
        boot_mac=(spec.get("bootMACAddress") or "").lower(),
        boot_mode=spec.get("bootMode") or "UEFI",
        root_device=dict(spec.get("rootDeviceHints") or PROFILES.get(spec.get("hardwareProfile") or "") or {}),
        image=_read_system(spec),
        user_data_name=(spec.get("userData") or {}).get("name") or "",
        meta_data_name=(spec.get("metaData") or {}).get("name") or "",
        network_data_name=(spec.get("networkData") or {}).get("name") or "",
        architecture=spec.get("architecture") or "",
        agent_network_name=spec.get("preprovisioningNetworkDataName") or "",
        inspect=spec.get("inspectionMode") != "disabled",
        clean=spec.get("automatedCleaningMode") != "disabled",
        externally_provisioned=bool(spec.get("externallyProvisioned", False)),
    )


def _read_status(status: Record) -> Status:
    provisioning = status.get("provisioning") or {}
    error = status.get("errorType")
    return Status(
        state=OLDER.get(written := provisioning.get("state") or "") or State(written),
        operational=Operational(status.get("operationalStatus") or ""),
        id=provisioning.get("ID") or "",
        error_type=ErrorKind(error) if error else None,
        error_message=status.get("errorMessage") or "",
        error_count=status.get("errorCount") or 0,
        provisioning_fail_count=status.get("provisioningFailCount") or 0,
        powered_on=bool(status.get("poweredOn")),
        image=_read_system(provisioning),
        boot_mode=provisioning.get("bootMode") or "",
        hardware=status.get("hardware"),
        history={
            name: Span(span.get("start"), span.get("end"))
            for name, span in (status.get("operationHistory") or {}).items()
        },
        good_credentials=(status.get("goodCredentials") or {}).get("credentialsVersion") or "",
        last_updated=status.get("lastUpdated") or "",
        conditions=tuple(
            Condition(
                each.get("type") or "",
                each.get("status") == "True",
                each.get("reason") or "",
                each.get("lastTransitionTime") or "",
            )
            for each in status.get("conditions") or ()
        ),
        doing=next(
            (
                each.get("message") or ""
                for each in status.get("conditions") or ()
                if (each.get("type"), each.get("status")) == (PROGRESSING, "True")
            ),
            "",
        ),
    )


def status_record(status: Status, credentials_name: str = "") -> Record:
    """The status as it stands in the record."""
    record: Record = {
        "operationalStatus": status.operational.value,
        "errorMessage": status.error_message,
        "errorCount": status.error_count,
        "provisioningFailCount": status.provisioning_fail_count,
        "poweredOn": status.powered_on,
        "provisioning": {"state": status.state.value, "ID": status.id},
        "operationHistory": {
            name: {"start": span.start, "end": span.end} for name, span in status.history.items()
        },
    }  # fmt: skip
    optional: Record = {
        "conditions": [_condition_record(each, status) for each in status.conditions] or None,
        "errorType": status.error_type.value if status.error_type else None,
        "hardware": dict(status.hardware) if status.hardware is not None else None,
        "lastUpdated": status.last_updated or None,
        "goodCredentials": {
            "credentials": {"name": credentials_name},
            "credentialsVersion": status.good_credentials,
        }
        if status.good_credentials
        else None,
    }
    record.update({name: value for name, value in optional.items() if value is not None})
    if status.image is not None and status.image.url:
        record["provisioning"]["image"] = image_record(status.image)
    if status.image is not None and status.image.method:
        record["provisioning"]["customDeploy"] = {"method": status.image.method}
    if status.boot_mode:
        record["provisioning"]["bootMode"] = status.boot_mode
    return record


def _condition_record(condition: Condition, status: Status) -> Record:
    said = status.doing if condition.type == PROGRESSING else ""
    return {
        "type": condition.type,
        "status": "True" if condition.true else "False",
        "reason": condition.reason,
        "message": said if condition.true else status.error_message[:1024],
        "lastTransitionTime": condition.since,
    }


def _read_system(part: Record) -> Image | None:
    """What is to be, or is, on the disk: an image, or what a step of the agent's own puts there, or both."""
    image, method = _read_image(part.get("image")), (part.get("customDeploy") or {}).get("method") or ""
    if not method:
        return image
    return replace(image, method=method) if image is not None else Image("", "", method=method)


def _read_image(image: Record | None) -> Image | None:
    if not image or not image.get("url"):
        return None
    return Image(
        url=image["url"],
        checksum=image.get("checksum") or "",
        checksum_type=image.get("checksumType") or "auto",
        format=image.get("format") or "qcow2",
    )


def image_record(image: Image) -> Record:
    return {
        "url": image.url,
        "checksum": image.checksum,
        "checksumType": image.checksum_type,
        "format": image.format,
    }
