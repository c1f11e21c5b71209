"""Short words for the schemas of built-in kinds."""

from __future__ import annotations

from typing import Any

from rackless.api.status import Json

TEXT: Json = {"type": "string"}
BOOL: Json = {"type": "boolean"}
INT: Json = {"type": "integer", "format": "int32"}
LONG: Json = {"type": "integer", "format": "int64"}
TIME: Json = {"type": "string", "format": "date-time", "nullable": True}
BYTES: Json = {"type": "string", "format": "byte"}
ANY: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "nullable": True}
QUANTITY: Json = {"x-kubernetes-int-or-string": True}


def obj(needed: str = "", description: str = "", /, **properties: Json) -> Json:
    """An object; `needed` names the required fields. A trailing `_` of a name is dropped."""
    found: Json = {
        "type": "object", "nullable": True, "properties": {name.rstrip("_"): each for name, each in properties.items()},
    }  # fmt: skip
    if needed:
        found["required"] = needed.split()
    if description:
        found["description"] = description
    return found


def root(description: str, needed: str = "", /, **properties: Json) -> Json:
    return {**obj(needed, description, **properties), "nullable": False}


def items(each: Json, *, merge_key: str = "", merge: bool = False, atomic: bool = False) -> Json:
    found: dict[str, Any] = {"type": "array", "items": {**each, "nullable": False}, "nullable": True}
    if merge_key:
        found |= {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": [merge_key],
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": merge_key,
        }
    elif merge:
        found |= {"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"}
    elif atomic:
        found["x-kubernetes-list-type"] = "atomic"
    return found


def mapping(each: Json) -> Json:
    return {"type": "object", "additionalProperties": each, "nullable": True}


CONDITIONS = items(
    obj(
        "type status",
        "",
        type=TEXT, status=TEXT, reason=TEXT, message=TEXT, lastTransitionTime=TIME, lastHeartbeatTime=TIME,
        lastUpdateTime=TIME, lastProbeTime=TIME, observedGeneration=LONG,
    ),
    merge_key="type",
)  # fmt: skip
REFERENCE = obj(
    "",
    "",
    kind=TEXT, namespace=TEXT, name=TEXT, uid=TEXT, apiVersion=TEXT, resourceVersion=TEXT, fieldPath=TEXT,
)  # fmt: skip
