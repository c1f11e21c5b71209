"""Privilege escalation check: a user may write roles and bindings only with rights that the user has.

The verbs `escalate` and `bind` lift the check. Deciding on a certificate request needs `approve` on its signer, answering it
`sign`. A new object needs `create`, whether POST, PUT or server-side apply makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from rackless.api import status
from rackless.api.access import nodes
from rackless.api.access.attributes import Attributes
from rackless.api.access.rbac import MASTERS, Authorizer, covers, refusal
from rackless.api.access.signing import CLIENT, names_masters
from rackless.api.kinds.access import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, RBAC, ROLE, ROLE_BINDING
from rackless.api.kinds.certificates import CERTIFICATE_REQUEST
from rackless.api.kinds.core import NAMESPACE
from rackless.api.kinds.kind import Caller, Kind, Writing
from rackless.api.offload import leave_loop
from rackless.api.status import Json

_MOST_PIECES = 10_000
"""Rules of a role that somebody other than an administrator may write or bind; the largest of kube-apiserver have some hundred."""
_MOST_LOOKS = 1_000_000
"""How often one of the caller's own rules is looked at for that: a second."""
_LOOKS_ON_LOOP = 5_000

T = TypeVar("T")


def _most(rule: Json) -> int:
    """How many pieces a rule has: things it allows, one at a time."""
    resources = (
        len(rule.get("apiGroups") or ())
        * len(rule.get("resources") or ())
        * max(1, len(rule.get("resourceNames") or ()))
    )
    return len(rule.get("verbs") or ()) * (resources + len(rule.get("nonResourceURLs") or ()))


class _TooMany(Exception):
    """More looks than anybody gets."""


class _Held:
    """What somebody holds. `*` in what is to be given stays a word of its own, covered only by `*`."""

    def __init__(self, rules: Sequence[Json]) -> None:
        self._rules = rules
        self._looks = 0

    def _look(self, rules: Sequence[Json]) -> Sequence[Json]:
        self._looks += len(rules)
        if self._looks > _LOOKS_ON_LOOP:
            leave_loop()
        if self._looks > _MOST_LOOKS:
            raise _TooMany
        return rules

    def covers(self, rules: Sequence[Json]) -> bool:
        """Whether each thing that these rules allow is allowed by one that is held."""
        try:
            return sum(map(_most, rules)) <= _MOST_PIECES and all(map(self._covers, rules))
        except _TooMany:
            return False

    def _covers(self, rule: Json) -> bool:
        return all(self._covers_verb(rule, verb) for verb in rule.get("verbs") or ())

    def _covers_verb(self, rule: Json, verb: str) -> bool:
        own = [mine for mine in self._look(self._rules) if _among(verb, mine.get("verbs"))]
        paths = (Attributes(verb, path=path) for path in rule.get("nonResourceURLs") or ())
        groups = rule.get("apiGroups") or ()
        return all(self._any(own, path) for path in paths) and all(
            self._covers_group(rule, verb, group, own) for group in groups
        )

    def _covers_group(self, rule: Json, verb: str, group: str, of_verb: Sequence[Json]) -> bool:
        own = [mine for mine in self._look(of_verb) if _among(group, mine.get("apiGroups"))]
        return all(self._any(own, piece) for piece in _pieces(rule, verb, group))

    def _any(self, own: Sequence[Json], piece: Attributes) -> bool:
        return any(covers(mine, piece) and _not_fewer(mine, piece) for mine in self._look(own))


def _among(word: str, words: Sequence[str] | None) -> bool:
    return word in (words or ()) or "*" in (words or ())


def _not_fewer(mine: Json, piece: Attributes) -> bool:
    """A rule for some names is none for all, not even where one of them is no name."""
    return bool(piece.name) or not mine.get("resourceNames")


def _pieces(rule: Json, verb: str, group: str) -> Iterator[Attributes]:
    for resource in rule.get("resources") or ():
        name, _, sub = resource.partition("/")
        for only in rule.get("resourceNames") or ("",):
            yield Attributes(verb, group, name, sub, name=only)


def _as_it_is(function: Callable[..., T]) -> Callable[..., T]:
    return function


class Guard:
    """What a write needs beyond its own verb. Called in a thread for what is heavy: what it asks the authorizer is asked on the
    loop, by way of `on_loop`."""

    def __init__(
        self, authorizer: Authorizer, on_loop: Callable[[Callable[..., Any]], Callable[..., Any]] = _as_it_is
    ) -> None:
        self._authorizer = authorizer
        self._on_loop = on_loop

    def _allows(self, caller: Caller, asked: Attributes) -> bool:
        return bool(self._on_loop(self._authorizer.allows)(caller, asked))

    def __call__(self, kind: Kind, writing: Writing) -> None:
        if writing.old is None:
            self._creation(kind, writing)
        nodes.check_write(kind, writing)
        if kind in (ROLE, CLUSTER_ROLE):
            self._role(kind, writing)
        elif kind in (ROLE_BINDING, CLUSTER_ROLE_BINDING):
            self._binding(kind, writing)
        elif kind is CERTIFICATE_REQUEST:
            self._certificate(writing)

    def _creation(self, kind: Kind, writing: Writing) -> None:
        """An update or a patch that makes a new object is a creation, too."""
        metadata, caller = writing.new["metadata"], writing.caller
        namespace = metadata["name"] if kind is NAMESPACE else metadata.get("namespace", "")
        # The name is not asked of a POST, so a rule for some names does not allow one; it was asked before we came here.
        asked = Attributes("create", kind.group, kind.plural, "", namespace, metadata["name"])
        if not self._allows(caller, asked):
            raise status.forbidden(kind.plural, kind.group, metadata["name"], refusal(caller, asked))

    def _role(self, kind: Kind, writing: Writing) -> None:
        metadata, caller = writing.new["metadata"], writing.caller
        namespace = metadata.get("namespace", "")
        new, old = (
            ((each or {}).get("rules") or [], (each or {}).get("aggregationRule"))
            for each in (writing.new, writing.old)
        )
        # By its labels other roles gather its rules: labels give away what it allows, as a rule does.
        if writing.old is not None and new == old and metadata.get("labels") == writing.old["metadata"].get("labels"):
            return
        if self._allows(caller, Attributes("escalate", RBAC, kind.plural, "", namespace, metadata["name"])):
            return
        if new[1] or old[1]:  # an aggregated role takes in future rules, too: only an administrator can hold those
            why = "must have cluster-admin privileges to use an aggregationRule"
            raise status.forbidden(kind.plural, kind.group, metadata["name"], why)
        if not self._held(caller, namespace, new[0]):
            raise self._refusal(kind, writing)

    def _binding(self, kind: Kind, writing: Writing) -> None:
        role = writing.new.get("roleRef") or {}
        namespace, caller = writing.new["metadata"].get("namespace", ""), writing.caller
        plural, name = "roles" if role.get("kind") == "Role" else "clusterroles", str(role.get("name"))
        if self._allows(caller, Attributes("bind", RBAC, plural, "", namespace, name)):
            return
        rules: Sequence[Json] | None = self._on_loop(self._authorizer.rules_of)(role, namespace)
        if rules is None:  # binding a role that does not exist yet needs the right to bind every role
            raise status.not_found(plural, RBAC, name)
        if not self._held(caller, namespace, rules):
            raise self._refusal(kind, writing)

    def _held(self, caller: Caller, namespace: str, rules: Sequence[Json]) -> bool:
        """Masters do not come here: they may bind and escalate."""
        own = self._on_loop(lambda: list(self._authorizer.rules(caller, namespace)))
        return _Held(own()).covers(rules)

    def _refusal(self, kind: Kind, writing: Writing) -> status.RequestRefused:
        who = f'user "{writing.caller.name}" (groups={list(writing.caller.groups)})'
        why = f"{who} is attempting to grant RBAC permissions not currently held"
        return status.forbidden(kind.plural, kind.group, writing.new["metadata"]["name"], why)

    def _certificate(self, writing: Writing) -> None:
        spec, old, caller = writing.new.get("spec") or {}, writing.old, writing.caller
        signer, name = str(spec.get("signerName")), writing.new["metadata"]["name"]
        kind = CERTIFICATE_REQUEST
        if old is None and names_masters(signer, spec["request"]):
            why = f"use of {CLIENT} signer with {MASTERS} group is not allowed"
            raise status.forbidden(kind.plural, kind.group, name, why)
        if writing.subresource == "approval" and not self._may("approve", signer, caller):
            why = f'user not permitted to approve requests with signerName "{signer}"'
            raise status.forbidden(kind.plural, kind.group, name, why)
        if writing.subresource == "status" and old and old.get("status") != writing.new.get("status"):
            if not self._may("sign", signer, caller):
                why = f'user not permitted to sign requests with signerName "{signer}"'
                raise status.forbidden(kind.plural, kind.group, name, why)

    def _may(self, verb: str, signer: str, caller: Caller) -> bool:
        """By the signer's name, or by its domain's with a star."""
        names = (signer, signer.partition("/")[0] + "/*")
        return any(
            self._allows(caller, Attributes(verb, "certificates.k8s.io", "signers", "", "", name)) for name in names
        )
