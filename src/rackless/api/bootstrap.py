"""What a new store needs before anybody asks: the system namespaces, the default roles and their bindings."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress

from rackless.api.access.rbac import DEFAULT_BINDINGS, DEFAULT_ROLES
from rackless.api.core import Context
from rackless.api.encoding import decode, encode
from rackless.api.kinds.access import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from rackless.api.kinds.core import NAMESPACE
from rackless.api.kinds.custom import CRD
from rackless.api.kinds.kind import Caller, Kind
from rackless.api.operations import Objects, Target, now
from rackless.api.patches.merge import merge
from rackless.api.status import Json, Refused

SYSTEM = Caller("system:apiserver", ("system:masters",))
_MARK = "rackless.io/definition"
_MANAGED_BY = "app.kubernetes.io/managed-by"
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


async def ensure_defaults(objects: Objects) -> None:
    """Made when absent and left alone afterwards: who changes a default role means it."""
    wanted: list[tuple[Kind, str, Json]] = [(NAMESPACE, name, {}) for name in _NAMESPACES]
    wanted += [(CLUSTER_ROLE, name, {"rules": rules}) for name, rules in DEFAULT_ROLES.items()]
    for name, (role, groups) in DEFAULT_BINDINGS.items():
        subjects = [{"kind": "Group", "name": group} for group in groups]
        reference = {"kind": "ClusterRole", "name": role}
        wanted.append((CLUSTER_ROLE_BINDING, name, {"roleRef": reference, "subjects": subjects}))
    await asyncio.gather(*(_ensure(objects, kind, name, content) for kind, name, content in wanted))


async def _ensure(objects: Objects, kind: Kind, name: str, content: Json) -> None:
    if objects.store.get(kind.key("", name)):
        return
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"} if kind is not NAMESPACE else {}
    body = {"metadata": {"name": name, "labels": labels}, **content}
    with suppress(Refused):  # another server on the same store was first
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
    with suppress(Refused):  # another server on the same store was first
        if entry is None:
            await objects.create(CRD, CRD.storage, "", body, context, dry=False)
        elif (decode(entry.data)["metadata"].get("labels") or {}).get(_MANAGED_BY) == "rackless":
            target = Target(CRD, CRD.storage, "", name)
            await objects.patch(
                target,
                lambda old: merge(old, {"metadata": {"annotations": {_MARK: mark}}}) | {"spec": body["spec"]},
                context,
                dry=False,
            )
