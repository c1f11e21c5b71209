"""RBAC kinds, CertificateSigningRequest and Lease, and the reviews that are only ever asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackless.api.kinds.kind import Column, Kind, Version, Writing
from rackless.api.kinds.shapes import ANY, BYTES, CONDITIONS, INT, TEXT, TIME, items, mapping, obj, root
from rackless.api.names import path_segment_problem
from rackless.api.status import Cause, Json, forbidden_field, invalid_value, required, unsupported
from rackless.api.tables import AGE, NAME, duration

RBAC = "rbac.authorization.k8s.io"
_TEXTS = items(TEXT, atomic=True)
_RULES = items(
    obj("verbs", "", verbs=_TEXTS, apiGroups=_TEXTS, resources=_TEXTS, resourceNames=_TEXTS, nonResourceURLs=_TEXTS),
    atomic=True,
)
_SUBJECTS = items(obj("kind name", "", kind=TEXT, apiGroup=TEXT, name=TEXT, namespace=TEXT), atomic=True)
_ROLE_REF = obj("kind name", "", apiGroup=TEXT, kind=TEXT, name=TEXT)
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
        elif not rule.get("apiGroups"):
            found.append(required(f"{at}.apiGroups", "resource rules must supply at least one api group"))
        elif not rule.get("resources"):
            found.append(required(f"{at}.resources", "resource rules must supply at least one resource"))
    return found


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
        properties["aggregationRule"] = ANY
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


# -- CertificateSigningRequest ---------------------------------------------------------------------------------------


def _prepare_request(writing: Writing) -> None:
    """Who asks is the server's to say; the request itself never changes; approval and signing each touch their part."""
    new, old = writing.new, writing.old
    if old is None:
        spec = new.get("spec")
        if isinstance(spec, dict):
            for owned in ("username", "uid", "groups", "extra"):
                spec.pop(owned, None)
            spec |= writing.caller.info()
            spec.setdefault("usages", ["digital signature", "key encipherment"])
        return
    new["spec"] = old["spec"]
    before = old.get("status") or {}
    status = new.get("status") or {}
    if writing.subresource == "approval":
        status = {**before, "conditions": status.get("conditions") or []}
    elif writing.subresource == "status":
        decided = [c for c in before.get("conditions") or () if c.get("type") in ("Approved", "Denied")]
        others = [c for c in status.get("conditions") or () if c.get("type") not in ("Approved", "Denied")]
        status = {**status, "conditions": [*decided, *others]}
    else:
        status = before
    for condition in status.get("conditions") or ():
        condition.setdefault("lastUpdateTime", writing.now)
        if condition["lastUpdateTime"] is None:
            condition["lastUpdateTime"] = writing.now
        if not condition.get("lastTransitionTime"):
            condition["lastTransitionTime"] = writing.now
    if status:
        new["status"] = {key: value for key, value in status.items() if value not in (None, [])}


def _request_problems(writing: Writing) -> list[Cause]:
    spec = writing.new.get("spec") or {}
    found: list[Cause] = []
    if writing.old is None:
        from rackless.api.access.signing import request_problem

        if not spec.get("signerName"):
            found.append(required("spec.signerName"))
        elif "/" not in spec["signerName"]:
            found.append(
                invalid_value(
                    "spec.signerName",
                    spec["signerName"],
                    "must be a fully qualified domain and path of the form 'example.com/signer-name'",
                )
            )
        if not spec.get("usages"):
            found.append(required("spec.usages"))
        if problem := request_problem(spec.get("request", "")):
            found.append(invalid_value("spec.request", spec.get("request", "")[:60], problem))
        if isinstance(spec.get("expirationSeconds"), int) and spec["expirationSeconds"] < 600:
            found.append(
                invalid_value(
                    "spec.expirationSeconds",
                    spec["expirationSeconds"],
                    "may not specify a duration less than 600 seconds (10 minutes)",
                )
            )
    types = [c.get("type") for c in (writing.new.get("status") or {}).get("conditions") or ()]
    if "Approved" in types and "Denied" in types:
        found.append(
            invalid_value("status.conditions", "Denied", "Approved and Denied conditions are mutually exclusive")
        )
    if writing.old and writing.subresource == "approval":
        before = {c.get("type") for c in (writing.old.get("status") or {}).get("conditions") or ()}
        for kind in ("Approved", "Denied"):
            if kind in before and kind not in types:
                found.append(
                    forbidden_field("status.conditions", f"updates may not remove a condition of type {kind!r}")
                )
    return found


def _request_condition(request: Json) -> str:
    status = request.get("status") or {}
    types = [c.get("type") for c in status.get("conditions") or ()]
    words = [word for word in ("Denied", "Approved") if word in types][:1] or ["Pending"]
    if "Failed" in types:
        words.append("Failed")
    if status.get("certificate"):
        words.append("Issued")
    return ",".join(words)


def _asked_duration(request: Json) -> str:
    seconds = (request.get("spec") or {}).get("expirationSeconds")
    return duration(seconds) if isinstance(seconds, int) else "<none>"


def _signer_field(value: Mapping[str, Any]) -> dict[str, str]:
    return {"spec.signerName": (value.get("spec") or {}).get("signerName", "")}


CERTIFICATE_REQUEST = Kind(
    "certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest",
    (
        Version(
            "v1",
            root(
                "CertificateSigningRequest objects provide a mechanism to obtain x509 certificates.", "spec",
                spec=obj(
                    "request signerName", "",
                    request=BYTES, signerName=TEXT, expirationSeconds=INT, usages=items(TEXT, atomic=True),
                    username=TEXT,
                    uid=TEXT, groups=items(TEXT, atomic=True), extra=mapping(items(TEXT)),
                ),
                status=obj("", "", conditions=CONDITIONS, certificate={**BYTES, "nullable": True}),
            ),
            (
                NAME, AGE,
                Column("SignerName", lambda o: o["spec"].get("signerName")),
                Column("Requestor", lambda o: o["spec"].get("username")),
                Column("RequestedDuration", _asked_duration),
                Column("Condition", _request_condition),
            ),
            status=True,
        ),
    ),
    namespaced=False, short_names=("csr",), unconditional_update=True, prepare=_prepare_request,
    problems=_request_problems, field_names=frozenset(["spec.signerName"]), fields=_signer_field,
    extra_subresources={"approval": ("get", "patch", "update")},
)  # fmt: skip

LEASE = Kind(
    "coordination.k8s.io", "leases", "Lease",
    (
        Version(
            "v1",
            root(
                "Lease defines a lease concept.",
                spec=obj(
                    "", "",
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
ACCESS = (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING, CERTIFICATE_REQUEST, LEASE)
