"""What is served, told to clients: the legacy lists and the aggregated form, from the registry."""

from __future__ import annotations

from typing import Any

from rackless.api.kinds.kind import Kind, Version
from rackless.api.objects.registry import Registry
from rackless.api.status import Json

VERSION: Json = {
    "major": "1",
    "minor": "32",
    "gitVersion": "v1.32.0+rackless",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}


def core_versions(address: str) -> Json:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(registry: Registry) -> Json:
    groups = [group(registry, name) for name in sorted(registry.groups()) if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(registry: Registry, name: str) -> Json:
    versions = [{"groupVersion": f"{name}/{v}", "version": v} for v in registry.groups()[name]]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _subresources(kind: Kind, version: Version) -> list[tuple[str, str, str, str, tuple[str, ...]]]:
    """(name, group, version, kind, verbs) of each."""
    found: list[tuple[str, str, str, str, tuple[str, ...]]] = []
    if version.status:
        found.append(("status", "", "", kind.kind, ("get", "patch", "update")))
    if version.scale:
        found.append(("scale", "autoscaling", "v1", "Scale", ("get", "patch", "update")))
    for name, verbs in kind.extra_subresources.items():
        if name == "token":
            found.append((name, "authentication.k8s.io", "v1", "TokenRequest", verbs))
        else:
            found.append((name, "", "", kind.kind, verbs))
    return found


def resource_list(registry: Registry, group_name: str, version_name: str) -> Json | None:
    served = registry.resources(group_name, version_name)
    if not served:
        return None
    resources: list[Json] = []
    for kind, version in served:
        own: Json = {
            "name": kind.plural,
            "singularName": kind.singular_name,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": list(kind.verbs),
        }
        if kind.short_names:
            own["shortNames"] = list(kind.short_names)
        if kind.categories:
            own["categories"] = list(kind.categories)
        resources.append(own)
        for name, sub_group, sub_version, sub_kind, verbs in _subresources(kind, version):
            sub: Json = {
                "name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced, "kind": sub_kind,
                "verbs": list(verbs),
            }  # fmt: skip
            if sub_group:
                sub |= {"group": sub_group, "version": sub_version}
            resources.append(sub)
    group_version = f"{group_name}/{version_name}" if group_name else version_name
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


def aggregated(registry: Registry, core: bool, version: str) -> Json:
    """`APIGroupDiscoveryList`: everything in one answer, at /api for the core group and at /apis for the others."""
    groups = registry.groups()
    items = []
    for name in sorted(groups):
        if (name == "") is not core:
            continue
        versions = []
        for each in groups[name]:
            resources = [_aggregated(kind, v, name, each) for kind, v in registry.resources(name, each)]
            versions.append({"version": each, "resources": resources, "freshness": "Current"})
        metadata: Json = {"creationTimestamp": None}
        if name:
            metadata["name"] = name
        items.append({"metadata": metadata, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}", "metadata": {}, "items": items,
    }  # fmt: skip


def _aggregated(kind: Kind, version: Version, group_name: str, version_name: str) -> Json:
    def response(g: str, v: str, k: str) -> dict[str, Any]:
        return {"group": g, "version": v, "kind": k}

    found: Json = {
        "resource": kind.plural,
        "responseKind": response(group_name, version_name, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular_name,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        found["shortNames"] = list(kind.short_names)
    if kind.categories:
        found["categories"] = list(kind.categories)
    subresources = [
        {"subresource": name, "responseKind": response(g or group_name, v or version_name, k), "verbs": list(verbs)}
        for name, g, v, k, verbs in _subresources(kind, version)
    ]
    if subresources:
        found["subresources"] = subresources
    return found
