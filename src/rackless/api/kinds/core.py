"""The kinds of the core group: Namespace, Secret, ConfigMap, ServiceAccount, Node."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from rackless.api.kinds.kind import Column, Kind, Version, Writing
from rackless.api.kinds.shapes import (
    BOOL,
    BYTES,
    CONDITIONS,
    INT,
    LONG,
    QUANTITY,
    REFERENCE,
    TEXT,
    TIME,
    items,
    mapping,
    obj,
    root,
)  # fmt: skip
from rackless.api.kinds.tables import AGE, NAME
from rackless.api.names import label_problem
from rackless.api.status import Cause, Json, forbidden_field, invalid_value, required

_MOST_DATA = 1024 * 1024


# -- Namespace -------------------------------------------------------------------------------------------------------


def _prepare_namespace(writing: Writing) -> None:
    new, old = writing.new, writing.old
    new["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = new["metadata"]["name"]
    if old is None:
        new["spec"] = {"finalizers": ["kubernetes"]}
        new["status"] = {"phase": "Active"}
    elif writing.subresource != "finalize":
        new["spec"] = old.get("spec") or {}


def _phase(value: Mapping[str, Any]) -> dict[str, str]:
    return {"status.phase": str((value.get("status") or {}).get("phase", "")), "name": value["metadata"]["name"]}


NAMESPACE = Kind(
    "", "namespaces", "Namespace",
    (
        Version(
            "v1",
            root(
                "Namespace provides a scope for Names. Use of multiple namespaces is optional.",
                spec=obj("", "", finalizers=items(TEXT, atomic=True)),
                status=obj("", "", phase=TEXT, conditions=CONDITIONS),
            ),
            (NAME, Column("Status", lambda o: (o.get("status") or {}).get("phase", ""),
            description="The status of the namespace"), AGE),
            status=True,
        ),
    ),
    namespaced=False, short_names=("ns",), unconditional_update=True, name_problem=label_problem,
    prepare=_prepare_namespace, field_names=frozenset(["status.phase", "name"]), fields=_phase,
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    extra_subresources={"finalize": ("update",)}, immortal=frozenset(["default", "kube-system", "kube-public"]),
)  # fmt: skip


# -- ConfigMap and Secret --------------------------------------------------------------------------------------------


def _data_problems(new: Json, old: Json | None, fields: tuple[str, ...], what: str) -> list[Cause]:
    found: list[Cause] = []
    size = 0
    seen: set[str] = set()
    for field in fields:
        for key, value in (new.get(field) or {}).items():
            size += len(value)
            if (
                len(key) > 253
                or not key
                or not all(c.isascii() and (c.isalnum() or c in "-_.") for c in key)
                or key in (".", "..")
            ):
                found.append(
                    invalid_value(
                        f"{field}[{key}]", key,
                        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
                        "'key.name',  or "
                        "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
                    )
                )  # fmt: skip
            if key in seen:
                found.append(invalid_value(f"{field}[{key}]", key, "duplicate of key present in data"))
            seen.add(key)
    if size > _MOST_DATA:
        found.append(Cause(fields[0], "FieldValueTooLong", f"Too long: may not be more than {_MOST_DATA} bytes"))
    if old and old.get("immutable"):
        if not new.get("immutable"):
            found.append(forbidden_field("immutable", "field is immutable when `immutable` is set"))
        for field in fields:
            if (new.get(field) or {}) != (old.get(field) or {}):
                found.append(forbidden_field(field, "field is immutable when `immutable` is set"))
    return found


def _config_map_problems(writing: Writing) -> list[Cause]:
    return _data_problems(writing.new, writing.old, ("data", "binaryData"), "ConfigMap")


CONFIG_MAP = Kind(
    "", "configmaps", "ConfigMap",
    (
        Version(
            "v1",
            root("ConfigMap holds configuration data for pods to consume.", data=mapping(TEXT),
            binaryData=mapping(BYTES), immutable=BOOL),
            (NAME, Column("Data", lambda o: len(o.get("data") or {}) + len(o.get("binaryData") or {}), "integer"), AGE),
        ),
    ),
    short_names=("cm",), unconditional_update=True, problems=_config_map_problems,
)  # fmt: skip


def _prepare_secret(writing: Writing) -> None:
    """`stringData` is only a way to write; it is never stored."""
    new = writing.new
    plain = new.pop("stringData", None)
    if isinstance(plain, dict) and plain:
        data = new["data"] = dict(new.get("data") or {})
        for key, value in plain.items():
            if isinstance(value, str):
                data[key] = base64.b64encode(value.encode()).decode()
    if isinstance(new.get("data"), dict):
        new["data"] = {key: "" if value is None else value for key, value in new["data"].items()}
    new["type"] = new.get("type") or "Opaque"


_SECRET_KEYS = {
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _secret_problems(writing: Writing) -> list[Cause]:
    new, old = writing.new, writing.old
    found = _data_problems(new, old, ("data",), "Secret")
    if old and old.get("type") != new["type"]:
        found.append(invalid_value("type", new["type"], "field is immutable"))
    for key in _SECRET_KEYS.get(new["type"], ()):
        if key not in (new.get("data") or {}):
            found.append(required(f"data[{key}]"))
    if new["type"] == "kubernetes.io/service-account-token":
        if not (new["metadata"].get("annotations") or {}).get("kubernetes.io/service-account.name"):
            found.append(required("metadata.annotations[kubernetes.io/service-account.name]"))
    return found


SECRET = Kind(
    "", "secrets", "Secret",
    (
        Version(
            "v1",
            root(
                "Secret holds secret data of a certain type.",
                data=mapping({**BYTES, "nullable": True}), stringData=mapping(TEXT), type=TEXT, immutable=BOOL,
            ),
            (NAME, Column("Type", lambda o: o.get("type")), Column("Data", lambda o: len(o.get("data") or {}),
            "integer"), AGE),
        ),
    ),
    unconditional_update=True, prepare=_prepare_secret, problems=_secret_problems,
    field_names=frozenset(["type"]), fields=lambda o: {"type": o.get("type", "")},
)  # fmt: skip

SERVICE_ACCOUNT = Kind(
    "", "serviceaccounts", "ServiceAccount",
    (
        Version(
            "v1",
            root(
                "ServiceAccount binds together a name and a principal that can be authenticated and authorized.",
                secrets=items(REFERENCE, merge_key="name"),
                imagePullSecrets=items(obj("", "", name=TEXT), atomic=True),
                automountServiceAccountToken=BOOL,
            ),
            (NAME, Column("Secrets", lambda o: len(o.get("secrets") or ()), "integer"), AGE),
        ),
    ),
    short_names=("sa",), unconditional_update=True, extra_subresources={"token": ("create",)},
)  # fmt: skip


# -- Node ------------------------------------------------------------------------------------------------------------


def _node_status(node: Json) -> str:
    ready = next((c for c in (node.get("status") or {}).get("conditions") or () if c.get("type") == "Ready"), None)
    words = ["Ready" if ready.get("status") == "True" else "NotReady"] if ready else ["Unknown"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: Json) -> str:
    labels = node["metadata"].get("labels") or {}
    prefix = "node-role.kubernetes.io/"
    found = {key[len(prefix) :] for key in labels if key.startswith(prefix) and key != prefix}
    if labels.get("kubernetes.io/role"):
        found.add(labels["kubernetes.io/role"])
    return ",".join(sorted(found)) or "<none>"


def _address(kind: str) -> Any:
    def find(node: Json) -> str:
        for address in (node.get("status") or {}).get("addresses") or ():
            if address.get("type") == kind:
                return str(address.get("address"))
        return "<none>"

    return find


def _info(name: str, missing: str = "<unknown>") -> Any:
    return lambda node: ((node.get("status") or {}).get("nodeInfo") or {}).get(name) or missing


_NODE_INFO = obj(
    "", "", **{
        name: TEXT
        for name in (
            "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion",
            "kubeletVersion",
            "kubeProxyVersion", "operatingSystem", "architecture",
        )
    },
)  # fmt: skip
NODE = Kind(
    "", "nodes", "Node",
    (
        Version(
            "v1",
            root(
                "Node is a worker node in Kubernetes.",
                spec=obj(
                    "", "",
                    podCIDR=TEXT, podCIDRs=items(TEXT, merge=True), providerID=TEXT, unschedulable=BOOL,
                    externalID=TEXT,
                    taints=items(obj("key effect", "", key=TEXT, value=TEXT, effect=TEXT, timeAdded=TIME), atomic=True),
                ),
                status=obj(
                    "", "",
                    capacity=mapping(QUANTITY), allocatable=mapping(QUANTITY), phase=TEXT, conditions=CONDITIONS,
                    addresses=items(obj("type address", "", type=TEXT, address=TEXT), atomic=True) | {
                        "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "type",
                    },
                    daemonEndpoints=obj("", "", kubeletEndpoint=obj("Port", "", Port=INT)),
                    nodeInfo=_NODE_INFO,
                    images=items(obj("", "", names=items(TEXT), sizeBytes=LONG), atomic=True),
                    volumesInUse=items(TEXT), volumesAttached=items(obj("", "", name=TEXT, devicePath=TEXT)),
                ),
            ),
            (
                NAME,
                Column("Status", _node_status, description="The status of the node"),
                Column("Roles", _roles, description="The roles of the node"),
                AGE,
                Column("Version", _info("kubeletVersion", ""), description="Kubelet Version reported by the node."),
                Column("Internal-IP", _address("InternalIP"), priority=1),
                Column("External-IP", _address("ExternalIP"), priority=1),
                Column("OS-Image", _info("osImage"), priority=1),
                Column("Kernel-Version", _info("kernelVersion"), priority=1),
                Column("Container-Runtime", _info("containerRuntimeVersion"), priority=1),
            ),
            status=True,
        ),
    ),
    namespaced=False, short_names=("no",), unconditional_update=True,
    field_names=frozenset(["spec.unschedulable"]),
    fields=lambda o: {"spec.unschedulable": str(bool((o.get("spec") or {}).get("unschedulable"))).lower()},
)  # fmt: skip
CORE = (NAMESPACE, CONFIG_MAP, SECRET, SERVICE_ACCOUNT, NODE)
