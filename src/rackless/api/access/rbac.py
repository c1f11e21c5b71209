"""Authorization by RBAC over the stored roles and bindings, of which each is read again only when it changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rackless.api.access import nodes
from rackless.api.access.attributes import Attributes
from rackless.api.encoding import decode
from rackless.api.kinds.access import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from rackless.api.kinds.kind import Caller
from rackless.api.selectors import LabelSelector, Requirement
from rackless.api.status import Json
from rackless.api.stores.port import Store, StoredChange

_PREFIXES = tuple(kind.bucket + "/" for kind in (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING))
_CLUSTER_ROLES = CLUSTER_ROLE.bucket + "/"


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


def _selector(selector: Json) -> LabelSelector:
    exact = [Requirement(key, "in", frozenset([value])) for key, value in (selector.get("matchLabels") or {}).items()]
    sets = [
        Requirement(each["key"], _OPERATORS[each["operator"]], frozenset(each.get("values") or ()))
        for each in selector.get("matchExpressions") or ()
    ]
    return LabelSelector((*exact, *sets))


def _whom(subject: Json, namespace: str) -> tuple[str, str]:
    """Whom a subject means, as a caller is looked up: `User` or `Group`, and its name."""
    kind, name = str(subject.get("kind")), str(subject.get("name"))
    if kind == "ServiceAccount":
        return "User", f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}"
    return kind, name


class _Bindings:
    """The bindings of one namespace, or the cluster's, by whom they are for."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], dict[str, Json]] = {}
        self._whose: dict[str, set[tuple[str, str]]] = {}

    def put(self, name: str, binding: Json, namespace: str) -> None:
        self.drop(name)
        whose = self._whose[name] = {_whom(each, namespace) for each in binding.get("subjects") or ()}
        for one in whose:
            self._of.setdefault(one, {})[name] = binding["roleRef"]

    def drop(self, name: str) -> None:
        for one in self._whose.pop(name, ()):
            bound = self._of[one]
            del bound[name]
            if not bound:
                del self._of[one]

    def roles(self, caller: Caller) -> Iterator[Json]:
        """What is bound to the caller, each role once."""
        seen = set()
        for one in (("User", caller.name), *(("Group", group) for group in caller.groups)):
            for reference in self._of.get(one, {}).values():
                named = (reference.get("kind"), reference.get("name"))
                if named not in seen:
                    seen.add(named)
                    yield reference


class _Granted:
    """All roles and bindings, as every request asks for them."""

    def __init__(self, store: Store) -> None:
        self._roles: dict[str, Json] = {}
        self._aggregated: dict[str, list[Json]] = {}
        """What aggregated roles gather; forgotten when a cluster role changes."""
        self._bindings: dict[str, _Bindings] = {}
        for kind in (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING):
            for entry in store.entries(kind.bucket):
                self.put(entry.key, decode(entry.data))

    def put(self, key: str, obj: Json | None) -> None:
        """An object as it is now; None when it is gone."""
        _, plural, namespace, name = key.split("/")
        if plural in (ROLE.plural, CLUSTER_ROLE.plural):
            self._aggregated.clear()
            if obj is None:
                self._roles.pop(key, None)
            else:
                self._roles[key] = obj
        elif obj is not None:
            self._bindings.setdefault(namespace, _Bindings()).put(name, obj, namespace)
        elif namespace in self._bindings:
            self._bindings[namespace].drop(name)

    def bound(self, caller: Caller, namespace: str) -> Iterator[Json]:
        """The roles bound to the caller in exactly this namespace, or in the cluster."""
        if (found := self._bindings.get(namespace)) is not None:
            yield from found.roles(caller)

    def rules_of(self, reference: Json, namespace: str) -> Sequence[Json] | None:
        kind = ROLE if reference.get("kind") == "Role" else CLUSTER_ROLE
        key = kind.key(namespace, str(reference.get("name")))
        role = self._roles.get(key)
        if role is None:
            return None
        own: list[Json] = role.get("rules") or []
        return [*own, *self._gathered(key, role)] if role.get("aggregationRule") else own

    def _gathered(self, key: str, role: Json) -> list[Json]:
        """The rules that an aggregated role has from the roles its selectors name."""
        found = self._aggregated.get(key)
        if found is None:
            selectors = [_selector(each) for each in role["aggregationRule"].get("clusterRoleSelectors") or ()]
            found = self._aggregated[key] = [
                rule
                for other_key, other in self._roles.items()
                if other_key.startswith(_CLUSTER_ROLES) and other_key != key
                for labels in [other["metadata"].get("labels")]
                if any(selector.matches(labels) for selector in selectors)
                for rule in other.get("rules") or ()
            ]
        return found


class Authorizer:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._granted: _Granted | None = None
        store.subscribe(self._changed)

    def _changed(self, changes: Sequence[StoredChange]) -> None:
        """One changed role or binding is one that is read: whoever has thousands of them holds up nobody by touching one."""
        if self._granted is None:
            return
        granted, self._granted = self._granted, None  # what cannot be read has all of them read again
        for change in changes:
            if change.key.startswith(_PREFIXES):
                granted.put(change.key, None if change.deleted else decode(change.data))
        self._granted = granted

    def _all(self) -> _Granted:
        if self._granted is None:
            self._granted = _Granted(self._store)
        return self._granted

    def rules_of(self, reference: Json, namespace: str) -> Sequence[Json] | None:
        """The rules of the role that a binding names; None when there is no such role."""
        return self._all().rules_of(reference, namespace)

    def rules(self, caller: Caller, namespace: str) -> Iterator[Json]:
        """Every rule that holds for the caller, cluster-wide and in the namespace."""
        granted = self._all()
        for where in ("", namespace) if namespace else ("",):
            for reference in granted.bound(caller, where):
                yield from granted.rules_of(reference, where) or ()

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
