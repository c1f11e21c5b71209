"""The OpenAPI documents, from the registry: schemas of every kind, and of paths what clients look for in them.

Clients use them to explain fields, to learn whether the server validates fields and knows dry run, and how lists merge.
"""

from __future__ import annotations

import hashlib
from typing import Any

from rackless.api.encoding import encode
from rackless.api.kinds.kind import Kind, Version
from rackless.api.registry import Registry
from rackless.api.schema.metadata import OBJECT_META
from rackless.api.status import Json

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_PACKAGES = {
    "": "io.k8s.api.core",
    "events.k8s.io": "io.k8s.api.events",
    "coordination.k8s.io": "io.k8s.api.coordination",
    "certificates.k8s.io": "io.k8s.api.certificates",
    "rbac.authorization.k8s.io": "io.k8s.api.rbac",
    "authorization.k8s.io": "io.k8s.api.authorization",
    "authentication.k8s.io": "io.k8s.api.authentication",
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
}
_LIST_SCHEMA: Json = {
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


def _without_null(schema: Any) -> Any:
    """Built-in schemas say `nullable` for the walk's sake; the documents of the real server do not."""
    if isinstance(schema, dict):
        return {key: _without_null(value) for key, value in schema.items() if key != "nullable"}
    return [_without_null(each) for each in schema] if isinstance(schema, list) else schema


def _for_v2(schema: Any) -> Any:
    """OpenAPI v2 has no anyOf, oneOf, not and nullable; what is loose becomes untyped."""
    if isinstance(schema, list):
        return [_for_v2(each) for each in schema]
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
            found[key] = {name: _for_v2(each) for name, each in value.items()}
        elif key not in dropped:
            found[key] = _for_v2(value)
    return found


def _model(kind: Kind, version: Version, reference: str, v2: bool) -> Json:
    schema = version.schema if kind.custom else _without_null(version.schema)
    if v2:
        schema = _for_v2(schema) if not schema.get("x-kubernetes-preserve-unknown-fields") else {"type": "object"}
    properties = {
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        **{name: each for name, each in (schema.get("properties") or {}).items() if name not in ("apiVersion", "kind")},
    }
    link = {"$ref": reference + _META}
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


def _list_model(kind: Kind, version: Version, reference: str) -> Json:
    return {
        "type": "object",
        "description": f"{kind.list_name} is a list of {kind.kind}",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": _API_VERSION},
            "kind": {"type": "string", "description": _KIND},
            "metadata": {"$ref": reference + _LIST_META},
            "items": {"type": "array", "items": {"$ref": reference + model_name(kind, version.name)}},
        },
        "x-kubernetes-group-version-kind": [{"group": kind.group, "version": version.name, "kind": kind.list_name}],
    }


def schemas(registry: Registry, group: str, version_name: str, *, v2: bool) -> Json:
    reference = "#/definitions/" if v2 else "#/components/schemas/"
    found: Json = {_META: _without_null(OBJECT_META), _LIST_META: _LIST_SCHEMA}
    if v2:
        found[_META] = _for_v2(found[_META])
    for kind, version in registry.resources(group, version_name):
        name = model_name(kind, version.name)
        found[name] = _model(kind, version, reference, v2)
        if "list" in kind.verbs:
            found[name + "List"] = _list_model(kind, version, reference)
    return found


_QUERY = {
    "get": ("pretty",),
    "list": ("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch"),
    "post": ("dryRun", "fieldManager", "fieldValidation"),
    "put": ("dryRun", "fieldManager", "fieldValidation"),
    "patch": ("dryRun", "fieldManager", "fieldValidation", "force"),
    "delete": ("dryRun", "gracePeriodSeconds", "propagationPolicy"),
}


def _operation(method: str, action: str, kind: Kind, version: Version, v2: bool) -> Json:
    queries = _QUERY["list" if action == "list" else method]
    kind_of_query = (
        {"type": "string", "uniqueItems": True} if v2 else {"schema": {"type": "string", "uniqueItems": True}}
    )
    body: Json = {
        "description": f"{action} {kind.kind}",
        "operationId": f"{action}{kind.group.title().replace('.', '')}{version.name.title()}{kind.kind}",
        "parameters": [{"name": name, "in": "query", **kind_of_query} for name in queries],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": version.name, "kind": kind.kind},
    }
    name = model_name(kind, version.name)
    if not v2:
        shown = {"schema": {"$ref": f"#/components/schemas/{name}{'List' if action == 'list' else ''}"}}
        body["responses"]["200"]["content"] = {"application/json": shown}
    return body


def _with_parameters(path: str, operations: Json, v2: bool) -> Json:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    text: Json = {"type": "string", "uniqueItems": True}
    shape: Json = text if v2 else {"schema": text}
    parameters = [{"name": name, "in": "path", "required": True, **shape} for name in names]
    return {**operations, "parameters": parameters} if parameters else operations


def paths(registry: Registry, group: str, version_name: str, *, v2: bool) -> Json:
    root = f"/apis/{group}/{version_name}" if group else f"/api/{version_name}"
    found: Json = {}
    for kind, version in registry.resources(group, version_name):
        base = f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"

        def op(method: str, action: str, k: Kind = kind, v: Version = version) -> Json:
            return _operation(method, action, k, v, v2)

        collection = {"post": op("post", "post")}
        if "list" in kind.verbs:
            collection |= {"get": op("get", "list"), "delete": op("delete", "deletecollection")}
            found[f"{base}/{{name}}"] = _with_parameters(
                f"{base}/{{name}}",
                {method: op(method, method) for method in ("get", "put", "patch", "delete")},
                v2,
            )
            if kind.namespaced:
                found[f"{root}/{kind.plural}"] = {"get": op("get", "list")}
        found[base] = _with_parameters(base, collection, v2)
    return found


def document_v3(registry: Registry, group: str, version: str) -> Json | None:
    if not registry.resources(group, version):
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.32.0+rackless"},
        "paths": paths(registry, group, version, v2=False),
        "components": {"schemas": schemas(registry, group, version, v2=False)},
    }


def index_v3(registry: Registry) -> Json:
    found = {}
    mark = hashlib.sha256(encode([registry.revision, sorted(registry.groups())])).hexdigest()[:16].upper()
    for group, versions in registry.groups().items():
        for version in versions:
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            found[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={mark}"}
    return {"paths": found}


def document_v2(registry: Registry) -> Json:
    definitions: Json = {}
    all_paths: Json = {}
    for group, versions in registry.groups().items():
        for version in versions:
            definitions |= schemas(registry, group, version, v2=True)
            all_paths |= paths(registry, group, version, v2=True)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.32.0+rackless"},
        "paths": all_paths,
        "definitions": definitions,
    }
