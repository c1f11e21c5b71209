"""What a new store needs before anybody asks: the system namespaces, the default roles and their bindings."""

from __future__ import annotations

from contextlib import suppress

from rackless.api.access.rbac import DEFAULT_BINDINGS, DEFAULT_ROLES
from rackless.api.core import Context
from rackless.api.kinds.access import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from rackless.api.kinds.core import NAMESPACE
from rackless.api.kinds.kind import Caller, Kind
from rackless.api.operations import Objects, now
from rackless.api.status import Json, Refused

SYSTEM = Caller("system:apiserver", ("system:masters",))
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


async def ensure_defaults(objects: Objects) -> None:
    """Made when absent and left alone afterwards: who changes a default role means it."""
    wanted: list[tuple[Kind, str, Json]] = [(NAMESPACE, name, {}) for name in _NAMESPACES]
    wanted += [(CLUSTER_ROLE, name, {"rules": rules}) for name, rules in DEFAULT_ROLES.items()]
    for name, (role, groups) in DEFAULT_BINDINGS.items():
        subjects = [{"kind": "Group", "name": group} for group in groups]
        reference = {"kind": "ClusterRole", "name": role}
        wanted.append((CLUSTER_ROLE_BINDING, name, {"roleRef": reference, "subjects": subjects}))
    for kind, name, content in wanted:
        if objects.store.get(kind.key("", name)):
            continue
        labels = {"kubernetes.io/bootstrapping": "rbac-defaults"} if kind is not NAMESPACE else {}
        body = {"metadata": {"name": name, "labels": labels}, **content}
        with suppress(Refused):  # another server on the same store was first
            await objects.create(kind, kind.storage, "", body, Context(SYSTEM, now()), dry=False)
