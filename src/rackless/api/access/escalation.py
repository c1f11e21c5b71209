"""Nobody gives away more than they have: roles and bindings are checked against the rights of who writes them.

The verbs `escalate` and `bind` lift the check; `approve` on a signer is needed to approve its certificate requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rackless.api import status
from rackless.api.access.rbac import Attributes, Authorizer, covers
from rackless.api.kinds.access import CERTIFICATE_REQUEST, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, RBAC, ROLE, ROLE_BINDING
from rackless.api.kinds.kind import Caller, Kind, Writing
from rackless.api.status import Json


def _pieces(rule: Json) -> Iterator[Attributes]:
    """Everything a rule allows, one thing at a time; `*` stays a word of its own, covered only by `*`."""
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield Attributes(verb, path=path)
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                name, _, sub = resource.partition("/")
                for only in rule.get("resourceNames") or ("",):
                    yield Attributes(verb, group, name, sub, name=only)


def _held(authorizer: Authorizer, caller: Caller, namespace: str, rules: Sequence[Json]) -> bool:
    if "system:masters" in caller.groups:
        return True
    own = list(authorizer.rules(caller, namespace))
    return all(any(covers(mine, piece) for mine in own) for rule in rules for piece in _pieces(rule))


class Guard:
    """What a write needs beyond its own verb."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def __call__(self, kind: Kind, writing: Writing) -> None:
        if kind in (ROLE, CLUSTER_ROLE):
            self._role(kind, writing)
        elif kind in (ROLE_BINDING, CLUSTER_ROLE_BINDING):
            self._binding(kind, writing)
        elif kind is CERTIFICATE_REQUEST and writing.subresource == "approval":
            self._approval(writing)

    def _role(self, kind: Kind, writing: Writing) -> None:
        rules = writing.new.get("rules") or []
        metadata, caller = writing.new["metadata"], writing.caller
        namespace = metadata.get("namespace", "")
        if writing.old is not None and (writing.old.get("rules") or []) == rules:
            return
        if self._authorizer.allows(caller, Attributes("escalate", RBAC, kind.plural, "", namespace, metadata["name"])):
            return
        if not _held(self._authorizer, caller, namespace, rules):
            raise self._refusal(kind, writing)

    def _binding(self, kind: Kind, writing: Writing) -> None:
        role = writing.new.get("roleRef") or {}
        namespace, caller = writing.new["metadata"].get("namespace", ""), writing.caller
        plural = "roles" if role.get("kind") == "Role" else "clusterroles"
        if self._authorizer.allows(caller, Attributes("bind", RBAC, plural, "", namespace, str(role.get("name", "")))):
            return
        if not _held(self._authorizer, caller, namespace, self._authorizer.rules_of(role, namespace)):
            raise self._refusal(kind, writing)

    def _refusal(self, kind: Kind, writing: Writing) -> status.Refused:

        who = f'user "{writing.caller.name}" (groups={list(writing.caller.groups)})'
        why = f"{who} is attempting to grant RBAC permissions not currently held"
        return status.forbidden(kind.plural, kind.group, writing.new["metadata"]["name"], why)

    def _approval(self, writing: Writing) -> None:
        signer = (writing.new.get("spec") or {}).get("signerName", "")
        domain = signer.partition("/")[0] + "/*"
        for name in (signer, domain):
            asked = Attributes("approve", "certificates.k8s.io", "signers", "", "", name)
            if self._authorizer.allows(writing.caller, asked):
                return
        raise status.forbidden(
            CERTIFICATE_REQUEST.plural, CERTIFICATE_REQUEST.group, writing.new["metadata"]["name"],
            f'user not permitted to approve requests with signerName "{signer}"',
        )  # fmt: skip
