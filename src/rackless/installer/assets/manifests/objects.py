"""Small words for objects of the API. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackless.installer.assets.documents import encoded

Json = dict[str, Any]

MACHINE_API = "openshift-machine-api"
MACHINE_CONFIG = "openshift-machine-config-operator"


def thing(
    api_version: str,
    kind: str,
    name: str,
    namespace: str = "",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **body: Any,
) -> Json:
    metadata: Json = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


def secret(name: str, namespace: str, data: Mapping[str, str], **more: Any) -> Json:
    return thing("v1", "Secret", name, namespace, data={key: encoded(text) for key, text in data.items()}, **more)


def config_map(name: str, namespace: str, data: Mapping[str, str], **more: Any) -> Json:
    return thing("v1", "ConfigMap", name, namespace, data=dict(data), **more)
