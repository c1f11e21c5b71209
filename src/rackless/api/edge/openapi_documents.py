"""The OpenAPI documents, from the registry: the models of all kinds, and of paths what clients look for in them.

Clients use them to explain fields, to learn whether the server validates fields and knows dry run, and how lists merge.
"""

from __future__ import annotations

import hashlib

from rackless.api.encoding import encode
from rackless.api.kinds.kind import Kind, Version
from rackless.api.kinds.openapi_model import (
    LIST_META,
    LIST_SCHEMA,
    META,
    for_v2,
    model_name,
    render_list_model,
    render_model,
    without_null,
)
from rackless.api.objects.registry import Registry
from rackless.api.schema.metadata import OBJECT_META
from rackless.api.status import Json


def schemas(registry: Registry, group: str, version_name: str, *, v2: bool) -> Json:
    reference = "#/definitions/" if v2 else "#/components/schemas/"
    found: Json = {META: without_null(OBJECT_META), LIST_META: LIST_SCHEMA}
    if v2:
        found[META] = for_v2(found[META])
    for kind, version in registry.resources(group, version_name):
        name = model_name(kind, version.name)
        found[name] = render_model(kind, version, reference, v2)
        if "list" in kind.verbs:
            found[name + "List"] = render_list_model(kind, version, reference)
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


_ON_COLLECTIONS = (
    ("post", "create", "post"),
    ("get", "list", "list"),
    ("delete", "deletecollection", "deletecollection"),
)
_ON_ONE = (("get", "get"), ("put", "update"), ("patch", "patch"), ("delete", "delete"))


def paths(registry: Registry, group: str, version_name: str, *, v2: bool) -> Json:
    root = f"/apis/{group}/{version_name}" if group else f"/api/{version_name}"
    found: Json = {}
    for kind, version in registry.resources(group, version_name):
        base = f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"

        def op(method: str, action: str, k: Kind = kind, v: Version = version) -> Json:
            return _operation(method, action, k, v, v2)

        verbs = set(kind.verbs)
        collection = {method: op(method, action) for method, verb, action in _ON_COLLECTIONS if verb in verbs}
        if "get" in verbs:
            one = {method: op(method, method) for method, verb in _ON_ONE if verb in verbs}
            found[f"{base}/{{name}}"] = _with_parameters(f"{base}/{{name}}", one, v2)
        if "list" in verbs and kind.namespaced:
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
