"""The scale subresource: three numbers of an object under one name."""

from __future__ import annotations

from typing import Any

from rackless.api import status
from rackless.api.kinds.kind import Scale
from rackless.api.objects.operations import ObjectTarget
from rackless.api.status import Json, bad_request


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def read_scale(obj: Json, scale: Scale) -> Json:
    metadata = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    shown: Json = {"replicas": _at(obj, scale.status_path) or 0}
    if scale.selector_path and (selector := _at(obj, scale.selector_path)):
        shown["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {"replicas": _at(obj, scale.spec_path) or 0},
        "status": shown,
    }


def write_scale(obj: Json, scale: Scale, body: Any, target: ObjectTarget) -> Json:
    """The object with the number of replicas of a Scale."""
    if not isinstance(body, dict) or body.get("kind", "Scale") != "Scale":
        raise bad_request("the object provided is unrecognized (must be of type Scale)")
    metadata, spec = ({} if body.get(name) is None else body[name] for name in ("metadata", "spec"))
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise bad_request("metadata and spec of a Scale must be objects")
    if metadata.get("name") not in (None, "", target.name):
        raise bad_request("the name of the object does not match the name on the URL")
    seen = metadata.get("resourceVersion")
    if seen and seen != obj["metadata"]["resourceVersion"]:
        raise status.conflict(target.kind.plural, target.kind.group, target.name)
    replicas = spec.get("replicas", 0)
    if type(replicas) is not int or replicas < 0 or replicas > 2**31 - 1:
        cause = status.invalid_value("spec.replicas", replicas, "should be a non-negative integer")
        raise status.invalid("Scale", "autoscaling", target.name, [cause])
    place = obj
    for name in scale.spec_path[:-1]:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            cause = status.invalid_value(".".join(scale.spec_path), name, "is no object that could hold replicas")
            raise status.invalid(target.kind.kind, target.kind.group, target.name, [cause])
    place[scale.spec_path[-1]] = replicas
    return obj
