"""RBAC kinds, Lease, and the reviews that are only ever asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rackless.api.kinds.kind import Column, Kind, Version, Writing
from rackless.api.kinds.shapes import ANY, INT, TEXT, TIME, items, mapping, obj, root
from rackless.api.kinds.tables import AGE, NAME
from rackless.api.names import path_segment_problem
from rackless.api.status import Cause, Json, invalid_value, required, unsupported

RBAC = "rbac.authorization.k8s.io"
_TEXTS = items(TEXT, atomic=True)
_RULES = items(
    obj("verbs", verbs=_TEXTS, apiGroups=_TEXTS, resources=_TEXTS, resourceNames=_TEXTS, nonResourceURLs=_TEXTS),
    atomic=True,
)
_SELECTOR = obj(
    matchLabels=mapping(TEXT),
    matchExpressions=items(obj("key operator", key=TEXT, operator=TEXT, values=_TEXTS), atomic=True),
)  # fmt: skip
_AGGREGATION = obj(clusterRoleSelectors=items(_SELECTOR, atomic=True))
_SUBJECTS = items(obj("kind name", kind=TEXT, apiGroup=TEXT, name=TEXT, namespace=TEXT), atomic=True)
_ROLE_REF = obj("kind name", apiGroup=TEXT, kind=TEXT, name=TEXT)
_CREATED_AT = Column("Created At", lambda o: o["metadata"]["creationTimestamp"], description=AGE.description)


def _rule_problems(writing: Writing) -> list[Cause]:
    found: list[Cause] = []
    for index, rule in enumerate(writing.new.get("rules") or ()):
        at = f"rules[{index}]"
        if not rule.get("verbs"):
            found.append(required(f"{at}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if writing.new["kind"] == "Role":
                found.append(
                    invalid_value(
                        f"{at}.nonResourceURLs",
                        rule["nonResourceURLs"],
                        "namespaced rules cannot apply to non-resource URLs",
                    )
                )
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                why = "rules cannot apply to both regular resources and non-resource URLs"
                found.append(invalid_value(f"{at}.nonResourceURLs", rule["nonResourceURLs"], why))
        elif not rule.get("apiGroups"):
            found.append(required(f"{at}.apiGroups", "resource rules must supply at least one api group"))
        elif not rule.get("resources"):
            found.append(required(f"{at}.resources", "resource rules must supply at least one resource"))
    found.extend(_selector_problems(writing.new.get("aggregationRule")))
    return found


def _selector_problems(aggregation: Json | None) -> Iterator[Cause]:
    at = "aggregationRule.clusterRoleSelectors"
    if aggregation is None:
        return
    selectors = aggregation.get("clusterRoleSelectors") or []
    if not selectors:
        yield required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(selectors):
        for number, each in enumerate(selector.get("matchExpressions") or ()):
            where = f"{at}[{index}].matchExpressions[{number}]"
            if each["operator"] not in ("In", "NotIn", "Exists", "DoesNotExist"):
                yield invalid_value(f"{where}.operator", each["operator"], "not a valid selector operator")
            elif bool(each.get("values")) is not each["operator"].endswith("In"):
                yield invalid_value(f"{where}.values", each["operator"], "must be specified for In and NotIn only")


def _prepare_binding(writing: Writing) -> None:
    role = writing.new.get("roleRef")
    if isinstance(role, dict) and not role.get("apiGroup"):
        role["apiGroup"] = RBAC
    for subject in writing.new.get("subjects") or ():
        if isinstance(subject, dict) and not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = RBAC


def _binding_problems(writing: Writing) -> list[Cause]:
    found: list[Cause] = []
    new, old = writing.new, writing.old
    role = new.get("roleRef") or {}
    if role.get("kind") not in ("Role", "ClusterRole") or (
        new["kind"] == "ClusterRoleBinding" and role.get("kind") == "Role"
    ):
        found.append(
            unsupported(
                "roleRef.kind",
                role.get("kind", ""),
                ["ClusterRole"] if new["kind"] == "ClusterRoleBinding" else ["Role", "ClusterRole"],
            )
        )
    if role.get("apiGroup") != RBAC:
        found.append(unsupported("roleRef.apiGroup", role.get("apiGroup", ""), [RBAC]))
    if not role.get("name"):
        found.append(required("roleRef.name"))
    if old and old.get("roleRef") != role:
        found.append(invalid_value("roleRef", role, "cannot change roleRef"))
    for index, subject in enumerate(new.get("subjects") or ()):
        at = f"subjects[{index}]"
        if not subject.get("name"):
            found.append(required(f"{at}.name"))
        if subject.get("kind") not in ("User", "Group", "ServiceAccount"):
            found.append(unsupported(f"{at}.kind", subject.get("kind", ""), ["ServiceAccount", "User", "Group"]))
        elif (subject.get("apiGroup") or "") != ("" if subject["kind"] == "ServiceAccount" else RBAC):
            group = "" if subject["kind"] == "ServiceAccount" else RBAC
            found.append(unsupported(f"{at}.apiGroup", subject.get("apiGroup"), [group]))
        elif (
            subject["kind"] == "ServiceAccount" and not subject.get("namespace") and new["kind"] == "ClusterRoleBinding"
        ):
            found.append(required(f"{at}.namespace"))
    return found


def _subjects(kind: str) -> Any:
    def names(binding: Json) -> str:
        return ", ".join(
            f"{s['namespace']}/{s['name']}" if kind == "ServiceAccount" and s.get("namespace") else s["name"]
            for s in binding.get("subjects") or ()
            if s.get("kind") == kind
        )

    return names


_BINDING_COLUMNS = (
    NAME,
    Column("Role", lambda o: f"{o['roleRef']['kind']}/{o['roleRef']['name']}"),
    AGE,
    Column("Users", _subjects("User"), priority=1),
    Column("Groups", _subjects("Group"), priority=1),
    Column("ServiceAccounts", _subjects("ServiceAccount"), priority=1),
)


def _role(plural: str, kind: str, namespaced: bool) -> Kind:
    properties: Json = {"rules": _RULES}
    if not namespaced:
        properties["aggregationRule"] = _AGGREGATION
    schema = root(f"{kind} is a logical grouping of PolicyRules.", **properties)
    return Kind(
        RBAC, plural, kind, (Version("v1", schema, (NAME, _CREATED_AT)),), namespaced=namespaced,
        unconditional_update=True, create_on_update=True, name_problem=path_segment_problem, problems=_rule_problems,
    )  # fmt: skip


def _binding(plural: str, kind: str, namespaced: bool) -> Kind:
    schema = root(
        f"{kind} references a role, but does not contain it.", "roleRef", subjects=_SUBJECTS, roleRef=_ROLE_REF
    )
    return Kind(
        RBAC, plural, kind, (Version("v1", schema, _BINDING_COLUMNS),), namespaced=namespaced,
        unconditional_update=True, create_on_update=True, name_problem=path_segment_problem, prepare=_prepare_binding,
        problems=_binding_problems,
    )  # fmt: skip


ROLE = _role("roles", "Role", True)
CLUSTER_ROLE = _role("clusterroles", "ClusterRole", False)
ROLE_BINDING = _binding("rolebindings", "RoleBinding", True)
CLUSTER_ROLE_BINDING = _binding("clusterrolebindings", "ClusterRoleBinding", False)


LEASE = Kind(
    "coordination.k8s.io", "leases", "Lease",
    (
        Version(
            "v1",
            root(
                "Lease defines a lease concept.",
                spec=obj(
                    holderIdentity={**TEXT, "nullable": True}, leaseDurationSeconds={**INT, "nullable": True,
                    "minimum": 1},
                    acquireTime=TIME, renewTime=TIME, leaseTransitions={**INT, "nullable": True, "minimum": 0},
                    strategy=TEXT, preferredHolder=TEXT,
                ),
            ),
            (NAME, Column("Holder", lambda o: (o.get("spec") or {}).get("holderIdentity") or ""), AGE),
        ),
    ),
    create_on_update=True,
)  # fmt: skip


def _review(group: str, plural: str, kind: str, namespaced: bool = False) -> Kind:
    schema = root(f"{kind} is answered at once and never stored.", spec=ANY, status=ANY)
    return Kind(group, plural, kind, (Version("v1", schema),), namespaced=namespaced, verbs=("create",))


AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
REVIEWS = (
    _review(AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _review(AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview"),
    _review(AUTHORIZATION, "localsubjectaccessreviews", "LocalSubjectAccessReview", True),
    _review(AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _review(AUTHENTICATION, "tokenreviews", "TokenReview"),
    _review(AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview"),
)
ACCESS = (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING, LEASE)
