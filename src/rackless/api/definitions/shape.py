"""Short words for the schemas of definitions, and the definition around them."""

from __future__ import annotations

from typing import Any

from rackless.api.status import Json

_NAME = r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])"
QUALIFIED = f"^{_NAME}$"
MAC = "[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}"


def text(description: str = "", **more: Any) -> Json:
    return _described({"type": "string", **more}, description)


def whole(description: str = "", **more: Any) -> Json:
    return _described({"type": "integer", **more}, description)


def flag(description: str = "", **more: Any) -> Json:
    return _described({"type": "boolean", **more}, description)


def moment(description: str = "", **more: Any) -> Json:
    return text(description, format="date-time", **more)


def one_of(*words: str, description: str = "", **more: Any) -> Json:
    return text(description, enum=list(words), **more)


def many(each: Json, description: str = "", **more: Any) -> Json:
    return _described({"type": "array", "items": each, **more}, description)


def by_key(key: str, each: Json, description: str = "", **more: Any) -> Json:
    return many(each, description, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key], **more})


def words(description: str = "") -> Json:
    return _described({"type": "object", "additionalProperties": {"type": "string"}}, description)


def struct(needed: str = "", description: str = "", /, **fields: Json) -> Json:
    """An object; `needed` names its required fields."""
    found: Json = {"type": "object", "properties": fields}
    if needed:
        found["required"] = sorted(needed.split())
    return _described(found, description)


def free(description: str = "") -> Json:
    return _described({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, description)


def number_or_text(**more: Any) -> Json:
    return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], **more}


def atomic(schema: Json) -> Json:
    return {**schema, "x-kubernetes-map-type": "atomic"}


def _described(schema: Json, description: str) -> Json:
    return {**schema, "description": description} if description else schema


REFERENCE = atomic(
    struct(
        apiVersion=text(),
        fieldPath=text(),
        kind=text(),
        name=text(),
        namespace=text(),
        resourceVersion=text(),
        uid=text(),
    )
)
SECRET = atomic(struct("", "A secret, by name and namespace.", name=text(), namespace=text()))
TAINT = struct("effect key", effect=text(), key=text(), timeAdded=moment(), value=text())
CONDITION = struct(
    "lastTransitionTime message reason status type",
    lastTransitionTime=moment(),
    message=text(maxLength=32768),
    observedGeneration=whole(format="int64", minimum=0),
    reason=text(maxLength=1024, minLength=1, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
    status=one_of("True", "False", "Unknown"),
    type=text(maxLength=316, pattern=QUALIFIED),
)
SELECTOR = atomic(
    struct(
        matchExpressions=many(
            struct(
                "key operator",
                key=text(), operator=text(), values=many(text(), **{"x-kubernetes-list-type": "atomic"}),
            ),
            **{"x-kubernetes-list-type": "atomic"},
        ),
        matchLabels=words(),
    )
)  # fmt: skip


def column(name: str, path: str, type: str = "string", priority: int = 0) -> Json:
    found: Json = {"name": name, "jsonPath": path, "type": type}
    return {**found, "priority": priority} if priority else found


AGE = column("Age", ".metadata.creationTimestamp", "date")


def definition(
    group: str,
    version: str,
    kind: str,
    plural: str,
    description: str,
    spec: Json,
    status: Json | None = None,
    *,
    short: tuple[str, ...] = (),
    columns: tuple[Json, ...] = (),
    status_apart: bool = True,
    scale: Json | None = None,
) -> Json:
    """A CustomResourceDefinition of one version."""
    properties: Json = {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}, "spec": spec,
    }  # fmt: skip
    if status is not None:
        properties["status"] = status
    served: Json = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "description": description, "properties": properties}},
    }
    if columns:
        served["additionalPrinterColumns"] = list(columns)
    if status_apart and status is not None:
        served["subresources"] = {"status": {}}
        if scale:
            served["subresources"]["scale"] = scale
    names: Json = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    if short:
        names["shortNames"] = list(short)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "labels": {"app.kubernetes.io/managed-by": "rackless"}},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [served]},
    }
