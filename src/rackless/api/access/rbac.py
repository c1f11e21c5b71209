"""What they may do: RBAC over the stored roles and bindings, read once and again when one of them changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rackless.api.encoding import decode
from rackless.api.kinds.access import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from rackless.api.kinds.kind import Caller, Kind
from rackless.api.status import Json
from rackless.api.stores.port import Change, Store

_PREFIXES = tuple(kind.bucket + "/" for kind in (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING))


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is asked for: a verb on a resource, or on a path that is none."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


def covers(rule: Json, asked: Attributes) -> bool:
    verbs = rule.get("verbs") or ()
    if "*" not in verbs and asked.verb not in verbs:
        return False
    if asked.path:
        return any(
            url == "*" or url == asked.path or (url.endswith("*") and asked.path.startswith(url[:-1]))
            for url in rule.get("nonResourceURLs") or ()
        )
    groups = rule.get("apiGroups") or ()
    if "*" not in groups and asked.group not in groups:
        return False
    resources = rule.get("resources") or ()
    full = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    if not ("*" in resources or full in resources or (asked.subresource and f"*/{asked.subresource}" in resources)):
        return False
    names = rule.get("resourceNames") or ()
    return not names or asked.name in names


def _is_subject(subject: Json, caller: Caller, namespace: str) -> bool:
    match subject.get("kind"):
        case "User":
            return subject.get("name") == caller.name
        case "Group":
            return subject.get("name") in caller.groups
        case "ServiceAccount":
            return caller.name == f"system:serviceaccount:{subject.get('namespace') or namespace}:{subject.get('name')}"
    return False


class Authorizer:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[str, list[Json]] | None = None
        store.subscribe(self._changed)

    def _changed(self, changes: Sequence[Change]) -> None:
        if any(change.key.startswith(_PREFIXES) for change in changes):
            self._read = None

    def _all(self, kind: Kind) -> list[Json]:
        if self._read is None:
            self._read = {}
        found = self._read.get(kind.bucket)
        if found is None:
            found = self._read[kind.bucket] = [decode(entry.data) for entry in self._store.entries(kind.bucket)]
        return found

    def rules_of(self, reference: Json, namespace: str) -> Sequence[Json]:
        kind, where = (ROLE, namespace) if reference.get("kind") == "Role" else (CLUSTER_ROLE, "")
        for role in self._all(kind):
            if role["metadata"]["name"] == reference.get("name") and role["metadata"].get("namespace", "") == where:
                return role.get("rules") or ()
        return ()

    def rules(self, caller: Caller, namespace: str) -> Iterator[Json]:
        """Every rule that holds for the caller, cluster-wide and in the namespace."""
        for binding in self._all(CLUSTER_ROLE_BINDING):
            if any(_is_subject(subject, caller, "") for subject in binding.get("subjects") or ()):
                yield from self.rules_of(binding["roleRef"], "")
        if not namespace:
            return
        for binding in self._all(ROLE_BINDING):
            if binding["metadata"]["namespace"] == namespace and any(
                _is_subject(subject, caller, namespace) for subject in binding.get("subjects") or ()
            ):
                yield from self.rules_of(binding["roleRef"], namespace)

    def allows(self, caller: Caller, asked: Attributes) -> bool:
        if "system:masters" in caller.groups:
            return True
        return any(covers(rule, asked) for rule in self.rules(caller, asked.namespace))


def refusal(caller: Caller, asked: Attributes) -> str:
    """The sentence after "is forbidden: "."""
    if asked.path:
        return f'User "{caller.name}" cannot {asked.verb} path "{asked.path}"'
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    return f'User "{caller.name}" cannot {asked.verb} resource "{resource}" in API group "{asked.group}" {where}'


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
DEFAULT_ROLES: dict[str, list[Json]] = {
    "cluster-admin": [_rule("*", "*", "*"), {"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "admin": [
        _rule(f"{_READ} {_WRITE}", "core events.k8s.io coordination.k8s.io", f"{_CONTENT} leases"),
        _rule(f"{_READ} {_WRITE}", _OURS, "*"),
        _rule(f"{_READ} {_WRITE}", "rbac.authorization.k8s.io", "roles rolebindings"),
        _rule("get list watch", "core", "namespaces"),
    ],
    "edit": [
        _rule(f"{_READ} {_WRITE}", "core events.k8s.io coordination.k8s.io", f"{_CONTENT} leases"),
        _rule(f"{_READ} {_WRITE}", _OURS, "*"),
        _rule("get list watch", "core", "namespaces"),
    ],
    "view": [
        _rule(_READ, "core events.k8s.io coordination.k8s.io", "configmaps serviceaccounts events leases namespaces"),
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
    "system:node": [
        _rule("create get list watch update patch", "core", "nodes nodes/status"),
        _rule("create patch update", "core events.k8s.io", "events"),
        _rule("create delete get patch update", "coordination.k8s.io", "leases"),
        _rule("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
        _rule("get list watch", "core", "configmaps"),
        _rule("create", "authentication.k8s.io", "tokenreviews"),
        _rule("create", "authorization.k8s.io", "subjectaccessreviews"),
    ],
}  # fmt: skip
DEFAULT_BINDINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "cluster-admin": ("cluster-admin", ("system:masters",)),
    "system:public-info-viewer": ("system:public-info-viewer", ("system:authenticated", "system:unauthenticated")),
    "system:discovery": ("system:discovery", ("system:authenticated",)),
    "system:basic-user": ("system:basic-user", ("system:authenticated",)),
    "system:node": ("system:node", ("system:nodes",)),
    "system:node-bootstrapper": ("system:node-bootstrapper", ("system:bootstrappers",)),
}
