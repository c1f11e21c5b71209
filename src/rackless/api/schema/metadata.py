"""The shape of ObjectMeta, the same for every kind."""

from __future__ import annotations

from rackless.api.schema.structural import WalkReport, compile_schema
from rackless.api.status import Json

_TEXT = {"type": "string"}
_TIME = {"type": "string", "format": "date-time", "nullable": True}
_WORDS = {"type": "object", "additionalProperties": _TEXT, "nullable": True}

OBJECT_META: Json = {
    "type": "object",
    "description": "Standard object's metadata.",
    "properties": {
        "name": _TEXT,
        "generateName": _TEXT,
        "namespace": _TEXT,
        "selfLink": _TEXT,
        "uid": _TEXT,
        "resourceVersion": _TEXT,
        "generation": {"type": "integer", "format": "int64"},
        "creationTimestamp": _TIME,
        "deletionTimestamp": _TIME,
        "deletionGracePeriodSeconds": {"type": "integer", "format": "int64", "nullable": True},
        "labels": _WORDS,
        "annotations": _WORDS,
        "finalizers": {
            "type": "array",
            "items": _TEXT,
            "nullable": True,
            "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge",
        },
        "ownerReferences": {
            "type": "array",
            "nullable": True,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "uid",
            "items": {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "properties": {
                    "apiVersion": _TEXT,
                    "kind": _TEXT,
                    "name": _TEXT,
                    "uid": _TEXT,
                    "controller": {"type": "boolean", "nullable": True},
                    "blockOwnerDeletion": {"type": "boolean", "nullable": True},
                },
            },
        },
        "managedFields": {
            "type": "array",
            "nullable": True,
            "x-kubernetes-list-type": "atomic",
            "items": {
                "type": "object",
                "properties": {
                    "manager": _TEXT,
                    "operation": _TEXT,
                    "apiVersion": _TEXT,
                    "time": _TIME,
                    "fieldsType": _TEXT,
                    "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "nullable": True},
                    "subresource": _TEXT,
                },
            },
        },
    },
}
_walk = compile_schema(OBJECT_META)


def walk_metadata(metadata: Json, report: WalkReport) -> None:
    """Prune and check metadata in place; empty maps and lists go, as they do when the real server encodes them."""
    causes, unknown = len(report.causes), len(report.unknown)
    _walk(metadata, report)
    if not isinstance(metadata, dict):
        report.within("metadata", causes, unknown)
        return
    if len(report.causes) != causes or len(report.unknown) != unknown:
        report.within("metadata", causes, unknown)
    empty = [name for name, value in metadata.items() if value is None or value in ({}, [], "")]
    for name in empty:
        del metadata[name]
