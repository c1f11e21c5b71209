"""The roles and bindings that every API has from the start."""

from __future__ import annotations

from typing import Any

from rackless.api.kinds.empty import EMPTY
from rackless.api.status import Json


def _rule(verbs: str, groups: str, resources: str, **more: Any) -> Json:
    return {
        "verbs": verbs.split(), "apiGroups": [group.replace("core", "") for group in groups.split()],
        "resources": resources.split(), **more,
    }  # fmt: skip


def _urls(*paths: str) -> Json:
    return {"verbs": ["get"], "nonResourceURLs": list(paths)}


_READ, _WRITE = "get list watch", "create delete deletecollection patch update"
_CONTENT = "configmaps secrets serviceaccounts events"
_OURS = "metal3.io machine.openshift.io"
_EMPTY = [_rule(_READ, kind.group or "core", kind.plural) for kind in EMPTY if kind.namespaced]
DEFAULT_ROLES: dict[str, list[Json]] = {
    "cluster-admin": [_rule("*", "*", "*"), {"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "admin": [
        _rule(f"{_READ} {_WRITE}", "core events.k8s.io coordination.k8s.io", f"{_CONTENT} leases"),
        *_EMPTY,
        _rule(f"{_READ} {_WRITE}", _OURS, "*"),
        _rule(f"{_READ} {_WRITE}", "rbac.authorization.k8s.io", "roles rolebindings"),
        _rule("get list watch", "core", "namespaces"),
    ],
    "edit": [
        _rule(f"{_READ} {_WRITE}", "core events.k8s.io coordination.k8s.io", f"{_CONTENT} leases"),
        *_EMPTY,
        _rule(f"{_READ} {_WRITE}", _OURS, "*"),
        _rule("get list watch", "core", "namespaces"),
    ],
    "view": [
        _rule(_READ, "core events.k8s.io coordination.k8s.io", "configmaps serviceaccounts events leases namespaces"),
        *_EMPTY,
        _rule(_READ, _OURS, "*"),
    ],
    "system:public-info-viewer": [_urls("/healthz", "/livez", "/readyz", "/version", "/version/")],
    "system:discovery": [
        _urls("/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz",
        "/version", "/version/")
    ],
    "system:basic-user": [
        _rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        _rule("create", "authentication.k8s.io", "selfsubjectreviews"),
    ],
    "system:auth-delegator": [
        _rule("create", "authentication.k8s.io", "tokenreviews"),
        _rule("create", "authorization.k8s.io", "subjectaccessreviews"),
    ],
    "system:node-bootstrapper": [
        _rule("create get list watch", "certificates.k8s.io", "certificatesigningrequests")
    ],
    # Bound to nobody: each node has what is its own from the node authorizer (`nodes`).
    "system:node": [
        _rule("create get list watch update patch", "core", "nodes nodes/status"),
        _rule("create patch update", "core events.k8s.io", "events"),
        _rule("create delete get patch update", "coordination.k8s.io", "leases"),
        _rule("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
        _rule("create", "authentication.k8s.io", "tokenreviews"),
        _rule("create", "authorization.k8s.io", "subjectaccessreviews localsubjectaccessreviews"),
    ],
    "system:monitoring": [_urls("/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/readyz", "/readyz/*")],
}  # fmt: skip
DEFAULT_BINDINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "cluster-admin": ("cluster-admin", ("system:masters",)),
    "system:public-info-viewer": ("system:public-info-viewer", ("system:authenticated", "system:unauthenticated")),
    "system:discovery": ("system:discovery", ("system:authenticated",)),
    "system:basic-user": ("system:basic-user", ("system:authenticated",)),
    "system:monitoring": ("system:monitoring", ("system:monitoring",)),
    "system:node-bootstrapper": ("system:node-bootstrapper", ("system:bootstrappers",)),
}
