"""Default objects of a new store: the system namespaces, the default roles and their bindings."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress

from rackless.api.access.default_roles import DEFAULT_BINDINGS, DEFAULT_ROLES
from rackless.api.encoding import decode, encode
from rackless.api.kinds.access import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from rackless.api.kinds.core import NAMESPACE, SERVICE_ACCOUNT
from rackless.api.kinds.custom import CRD
from rackless.api.kinds.kind import Caller, Kind
from rackless.api.objects.operations import Objects, ObjectTarget, now
from rackless.api.objects.patches.merge import merge
from rackless.api.objects.writes import Context
from rackless.api.status import Json, RequestRefused

SYSTEM = Caller("system:apiserver", ("system:masters",))
_MARK = "rackless.io/definition"
_BOOTSTRAPPED = "kubernetes.io/bootstrapping"
_MANAGED_BY = "app.kubernetes.io/managed-by"
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


async def ensure_defaults(objects: Objects) -> None:
    """Create the default objects that are absent; existing ones are left alone, also when somebody has changed them."""
    wanted: list[tuple[Kind, str, Json]] = [(NAMESPACE, name, {}) for name in _NAMESPACES]
    wanted += [(CLUSTER_ROLE, name, {"rules": rules}) for name, rules in DEFAULT_ROLES.items()]
    for name, (role, groups) in DEFAULT_BINDINGS.items():
        subjects = [{"kind": "Group", "name": group} for group in groups]
        reference = {"kind": "ClusterRole", "name": role}
        wanted.append((CLUSTER_ROLE_BINDING, name, {"roleRef": reference, "subjects": subjects}))
    await asyncio.gather(*(_ensure(objects, kind, name, content) for kind, name, content in wanted))
    namespaces = [entry.key.rpartition("/")[2] for entry in objects.store.entries(NAMESPACE.bucket)]
    await asyncio.gather(*(ensure_account(objects, name) for name in namespaces))
    await _retire_node_binding(objects)


async def _retire_node_binding(objects: Objects) -> None:
    """Stores of an earlier version bind every node to rights on all nodes and leases. The node authorizer gives each
    node its own; the binding goes, unless somebody made it theirs.
    """
    entry = objects.store.get(CLUSTER_ROLE_BINDING.key("", "system:node"))
    if entry is None:
        return
    found = decode(entry.data)
    subjects = [(each["kind"], each["name"]) for each in found.get("subjects") or ()]
    if (found["metadata"].get("labels") or {}).get(_BOOTSTRAPPED) and subjects == [("Group", "system:nodes")]:
        target = ObjectTarget(CLUSTER_ROLE_BINDING, CLUSTER_ROLE_BINDING.storage, "", "system:node")
        with suppress(RequestRefused):
            await objects.delete(target, Context(SYSTEM, now()))


async def ensure_account(objects: Objects, namespace: str) -> None:
    """Every namespace has a service account `default`; programs and people count on it."""
    if objects.store.get(SERVICE_ACCOUNT.key(namespace, "default")):
        return
    body: Json = {"metadata": {"name": "default"}}
    with suppress(RequestRefused):  # another server was first, or the namespace has begun to end
        await objects.create(
            SERVICE_ACCOUNT, SERVICE_ACCOUNT.storage, namespace, body, Context(SYSTEM, now()), dry=False
        )


async def _ensure(objects: Objects, kind: Kind, name: str, content: Json) -> None:
    if objects.store.get(kind.key("", name)):
        return
    labels = {_BOOTSTRAPPED: "rbac-defaults"} if kind is not NAMESPACE else {}
    body = {"metadata": {"name": name, "labels": labels}, **content}
    with suppress(RequestRefused):  # another server on the same store was first
        await objects.create(kind, kind.storage, "", body, Context(SYSTEM, now()), dry=False)


async def ensure_definitions(objects: Objects, definitions: Sequence[Json]) -> None:
    """Made when absent; renewed when they are still ours and differ from what this program has."""
    await asyncio.gather(*(_ensure_definition(objects, each) for each in definitions))


async def _ensure_definition(objects: Objects, wanted: Json) -> None:
    name, raw = wanted["metadata"]["name"], encode(wanted)
    mark = hashlib.sha256(raw).hexdigest()[:16]
    entry = objects.store.get(CRD.key("", name))
    if entry is not None and b'"%s":"%s"' % (_MARK.encode(), mark.encode()) in entry.data:
        return
    context = Context(SYSTEM, now())
    body = decode(raw)
    body["metadata"]["annotations"] = {_MARK: mark}
    with suppress(RequestRefused):  # another server on the same store was first
        if entry is None:
            await objects.create(CRD, CRD.storage, "", body, context, dry=False)
        elif (decode(entry.data)["metadata"].get("labels") or {}).get(_MANAGED_BY) == "rackless":
            target = ObjectTarget(CRD, CRD.storage, "", name)
            await objects.patch(
                target,
                lambda old: merge(old, {"metadata": {"annotations": {_MARK: mark}}}) | {"spec": body["spec"]},
                context,
                dry=False,
            )
