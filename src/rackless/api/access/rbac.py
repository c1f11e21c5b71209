"""Authorization by RBAC over the stored roles and bindings, which are read again only when one of them changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rackless.api.access import nodes
from rackless.api.access.attributes import Attributes
from rackless.api.encoding import decode
from rackless.api.kinds.access import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from rackless.api.kinds.kind import Caller, Kind
from rackless.api.selectors import LabelSelector, Requirement
from rackless.api.status import Json
from rackless.api.stores.port import Store, StoredChange

_PREFIXES = tuple(kind.bucket + "/" for kind in (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING))


MASTERS = "system:masters"
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


def covers(rule: Json, asked: Attributes) -> bool:
    verbs = rule.get("verbs") or ()
    if "*" not in verbs and asked.verb not in verbs:
        return False
    if asked.path:
        return any(
            url == asked.path or (url.endswith("*") and asked.path.startswith(url.rstrip("*")))
            for url in rule.get("nonResourceURLs") or ()
        )
    groups = rule.get("apiGroups") or ()
    if "*" not in groups and asked.group not in groups:
        return False
    resources = rule.get("resources") or ()
    whole = asked.subresource and f"*/{asked.subresource}" in resources
    if "*" not in resources and asked.full not in resources and not whole:
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


def _selector(selector: Json) -> LabelSelector:
    exact = [Requirement(key, "in", frozenset([value])) for key, value in (selector.get("matchLabels") or {}).items()]
    sets = [
        Requirement(each["key"], _OPERATORS[each["operator"]], frozenset(each.get("values") or ()))
        for each in selector.get("matchExpressions") or ()
    ]
    return LabelSelector((*exact, *sets))


class Authorizer:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[str, list[Json]] | None = None
        store.subscribe(self._changed)

    def _changed(self, changes: Sequence[StoredChange]) -> None:
        if any(change.key.startswith(_PREFIXES) for change in changes):
            self._read = None

    def _all(self, kind: Kind) -> list[Json]:
        if self._read is None:
            self._read = {}
        found = self._read.get(kind.bucket)
        if found is None:
            found = self._read[kind.bucket] = [decode(entry.data) for entry in self._store.entries(kind.bucket)]
        return found

    def rules_of(self, reference: Json, namespace: str) -> Sequence[Json] | None:
        """The rules of the role that a binding names; None when there is no such role."""
        kind, where = (ROLE, namespace) if reference.get("kind") == "Role" else (CLUSTER_ROLE, "")
        for role in self._all(kind):
            if role["metadata"]["name"] == reference.get("name") and role["metadata"].get("namespace", "") == where:
                return [*(role.get("rules") or ()), *self._gathered(role)]
        return None

    def _gathered(self, role: Json) -> Iterator[Json]:
        """The rules that an aggregated role has from the roles its selectors name."""
        selectors = [_selector(each) for each in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()]
        for other in self._all(CLUSTER_ROLE) if selectors else ():
            labels = other["metadata"].get("labels")
            if other is not role and any(selector.matches(labels) for selector in selectors):
                yield from other.get("rules") or ()

    def rules(self, caller: Caller, namespace: str) -> Iterator[Json]:
        """Every rule that holds for the caller, cluster-wide and in the namespace."""
        for binding in self._all(CLUSTER_ROLE_BINDING):
            if any(_is_subject(subject, caller, "") for subject in binding.get("subjects") or ()):
                yield from self.rules_of(binding["roleRef"], "") or ()
        if not namespace:
            return
        for binding in self._all(ROLE_BINDING):
            if binding["metadata"]["namespace"] == namespace and any(
                _is_subject(subject, caller, namespace) for subject in binding.get("subjects") or ()
            ):
                yield from self.rules_of(binding["roleRef"], namespace) or ()

    def allows(self, caller: Caller, asked: Attributes) -> bool:
        if MASTERS in caller.groups or nodes.allows(caller, asked):
            return True
        return any(covers(rule, asked) for rule in self.rules(caller, asked.namespace))


def refusal(caller: Caller, asked: Attributes) -> str:
    """The sentence after "is forbidden: "."""
    if asked.path:
        return f'User "{caller.name}" cannot {asked.verb} path "{asked.path}"'
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    return f'User "{caller.name}" cannot {asked.verb} resource "{asked.full}" in API group "{asked.group}" {where}'
