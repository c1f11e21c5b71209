"""Kubernetes objects, wherever they are kept: an API server, the lab's or a cluster's, or memory in tests.

A connection has a namespace of its own, where records are that do not name another. `ALL` asks for every namespace;
kinds that have no namespace ignore it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from rackless.errors import LabError

Record = dict[str, Any]
"""`{apiVersion, kind, metadata: {name, uid, resourceVersion, generation, …}, spec, status}`."""

ALL = "*"
"""As a namespace: all of them. No namespace can be called so."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Where records of a kind are served."""

    api_version: str
    plural: str
    namespaced: bool = True


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "BareMetalHost": Kind("metal3.io/v1alpha1", "baremetalhosts"),
        "HardwareData": Kind("metal3.io/v1alpha1", "hardwaredata"),
        "HostFirmwareSettings": Kind("metal3.io/v1alpha1", "hostfirmwaresettings"),
        "FirmwareSchema": Kind("metal3.io/v1alpha1", "firmwareschemas"),
        "DataImage": Kind("metal3.io/v1alpha1", "dataimages"),
        "BMCEventSubscription": Kind("metal3.io/v1alpha1", "bmceventsubscriptions"),
        "Machine": Kind("machine.openshift.io/v1beta1", "machines"),
        "MachineSet": Kind("machine.openshift.io/v1beta1", "machinesets"),
        "MachineHealthCheck": Kind("machine.openshift.io/v1beta1", "machinehealthchecks"),
        "Provisioning": Kind("metal3.io/v1alpha1", "provisionings", namespaced=False),
        "ConfigMap": Kind("v1", "configmaps"),
        "Event": Kind("v1", "events"),
        "Lease": Kind("coordination.k8s.io/v1", "leases"),
        "Namespace": Kind("v1", "namespaces", namespaced=False),
        "Node": Kind("v1", "nodes", namespaced=False),
        "Secret": Kind("v1", "secrets"),
        "CertificateSigningRequest": Kind("certificates.k8s.io/v1", "certificatesigningrequests", namespaced=False),
    }
)
"""The kinds we speak of; a connection may be given others."""


class Key(NamedTuple):
    """Which record: enough to find it again. The namespace is empty for kinds that have none."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def key_of(record: Record) -> Key:
    metadata = record["metadata"]
    return Key(record["kind"], metadata.get("namespace") or "", metadata["name"])


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """BOOKMARK says that all that was there at the beginning has been told; its record is empty."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    record: Record


class Conflict(Exception):
    """Somebody else wrote in between: read again and decide again."""


class Refused(LabError):
    """The API refused this record; `why` is its message."""


class Reader(Protocol):
    """Reading only."""

    async def get(self, kind: str, name: str, *, namespace: str | None = None) -> Record | None: ...


class Resources(Reader, Protocol):
    """`namespace` is the connection's own when it is None; `labels` must all be there, with these values."""

    @property
    def namespace(self) -> str: ...

    async def list(
        self, kind: str, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> list[Record]: ...

    async def create(self, record: Record) -> Record:
        """A new record; Conflict when there is one of that name."""
        ...

    async def apply(self, record: Record) -> Record:
        """Create, or replace metadata and spec; status is kept. Returns what is stored now.

        Conflict when `record` names a resourceVersion and that is no longer the stored one.
        """
        ...

    async def patch(
        self,
        kind: str,
        name: str,
        change: Mapping[str, Any],
        *,
        namespace: str | None = None,
        status: bool = False,
        approval: bool = False,
        resource_version: str | None = None,
    ) -> Record:
        """Merge `change` into the record, or, with `status`, into its status subresource: None takes a field out.

        `approval` is where a CertificateSigningRequest is approved: its conditions and nothing else.

        One request. Conflict when the record is gone, or when `resource_version` is given and no longer the stored one.
        """
        ...

    async def patch_status(
        self,
        kind: str,
        name: str,
        status: Mapping[str, Any],
        *,
        namespace: str | None = None,
        resource_version: str | None = None,
    ) -> Record:
        """Replace the status; Conflict when `resource_version` is given and no longer the stored one."""
        ...

    async def delete(self, kind: str, name: str, *, namespace: str | None = None, uid: str | None = None) -> None:
        """Mark for deletion when it has finalizers, else remove; silent when it is not there, or not the one of `uid`."""
        ...

    def watch(
        self,
        kind: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        bookmarks: bool = False,
    ) -> AsyncGenerator[RecordEvent, None]:
        """What is there now as ADDED, with `bookmarks` a BOOKMARK, then every change.

        A record that loses one of `labels` is DELETED to who asked for them.
        """
        ...
