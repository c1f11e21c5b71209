"""How OpenAPI describes one kind: the schema of its objects and of its lists, for version 2 and version 3."""

from __future__ import annotations

from typing import Any

from rackless.api.encoding import encode
from rackless.api.kinds.kind import Kind, Version
from rackless.api.schema.openapi_proto import encoded_schema
from rackless.api.schema.structural import WalkReport
from rackless.api.status import Json

META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_PACKAGES = {
    "": "io.k8s.api.core",
    "apps": "io.k8s.api.apps",
    "autoscaling": "io.k8s.api.autoscaling",
    "batch": "io.k8s.api.batch",
    "networking.k8s.io": "io.k8s.api.networking",
    "events.k8s.io": "io.k8s.api.events",
    "coordination.k8s.io": "io.k8s.api.coordination",
    "certificates.k8s.io": "io.k8s.api.certificates",
    "rbac.authorization.k8s.io": "io.k8s.api.rbac",
    "authorization.k8s.io": "io.k8s.api.authorization",
    "authentication.k8s.io": "io.k8s.api.authentication",
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
}
LIST_SCHEMA: Json = {
    "type": "object",
    "description": "ListMeta describes metadata that synthetic resources must have.",
    "properties": {
        "continue": {"type": "string"}, "remainingItemCount": {"type": "integer", "format": "int64"},
        "resourceVersion": {"type": "string"}, "selfLink": {"type": "string"},
    },
}  # fmt: skip
_API_VERSION = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert "
    "recognized schemas "
    "to the latest internal value, and may reject unrecognized values."
)
_KIND = "Kind is a string value representing the REST resource this object represents. In CamelCase."


def model_name(kind: Kind, version: str) -> str:
    package = _PACKAGES.get(kind.group) or ".".join(reversed(kind.group.split(".")))
    return f"{package}.{version}.{kind.kind}"


def without_null(schema: Any) -> Any:
    """Built-in schemas say `nullable` for the walk's sake; the documents of the real server do not."""
    if isinstance(schema, dict):
        return {key: without_null(value) for key, value in schema.items() if key != "nullable"}
    return [without_null(each) for each in schema] if isinstance(schema, list) else schema


def for_v2(schema: Any) -> Any:
    """OpenAPI v2 has no anyOf, oneOf, not and nullable; what is loose becomes untyped."""
    if isinstance(schema, list):
        return [for_v2(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"description": schema.get("description", ""), "x-kubernetes-int-or-string": True}
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return {
            "type": "object",
            "description": schema.get("description", ""),
            "x-kubernetes-preserve-unknown-fields": True,
        }
    dropped = ("anyOf", "oneOf", "allOf", "not", "nullable", "default", "x-kubernetes-validations")
    found: Json = {}
    for key, value in schema.items():
        if key == "properties":
            found[key] = {name: for_v2(each) for name, each in (value or {}).items()}
        elif key not in dropped:
            found[key] = for_v2(value)
    return found


def render_model(kind: Kind, version: Version, reference: str, v2: bool) -> Json:
    schema = version.schema if kind.custom else without_null(version.schema)
    if v2:
        schema = for_v2(schema) if not schema.get("x-kubernetes-preserve-unknown-fields") else {"type": "object"}
    properties = {
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        **{name: each for name, each in (schema.get("properties") or {}).items() if name not in ("apiVersion", "kind")},
    }
    link = {"$ref": reference + META}
    properties["metadata"] = (
        {**link, "description": "Standard object's metadata."} if v2
        else {"allOf": [link], "default": {}, "description": "Standard object's metadata."}
    )  # fmt: skip
    return {
        **schema,
        "type": "object",
        "properties": properties,
        "x-kubernetes-group-version-kind": [{"group": kind.group, "version": version.name, "kind": kind.kind}],
    }


def render_list_model(kind: Kind, version: Version, reference: str) -> Json:
    return {
        "type": "object",
        "description": f"{kind.list_name} is a list of {kind.kind}",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": _API_VERSION},
            "kind": {"type": "string", "description": _KIND},
            "metadata": {"$ref": reference + LIST_META},
            "items": {"type": "array", "items": {"$ref": reference + model_name(kind, version.name)}},
        },
        "x-kubernetes-group-version-kind": [{"group": kind.group, "version": version.name, "kind": kind.list_name}],
    }


def try_model(kind: Kind, version: Version) -> None:
    """Compile and describe a version in every form; raises whatever fails."""
    version.walk({"apiVersion": kind.api_version(version.name), "kind": kind.kind, "metadata": {}}, WalkReport())
    _ = version.rules
    encode(render_model(kind, version, "#/components/schemas/", False))
    encoded_schema(render_model(kind, version, "#/definitions/", True))
