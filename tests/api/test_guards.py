"""What the kinds of access refuse of themselves: roles, bindings, certificate requests, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rackless.api.kinds.access import (
    ACCESS,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    LEASE,
    RBAC,
    REVIEWS,
    ROLE,
    ROLE_BINDING,
)
from rackless.api.kinds.certificates import CERTIFICATE_REQUEST
from rackless.api.kinds.kind import ALL_VERBS, Caller, Kind, Writing
from rackless.api.schema.structural import WalkReport
from rackless.api.status import Json

from .test_certificates import CN, SIGN
from .test_nodes import request

BOB = Caller("bob", ("devs",))
REQUIRED, INVALID, UNSUPPORTED, FORBIDDEN = (
    f"FieldValue{word}" for word in ("Required", "Invalid", "NotSupported", "Forbidden")
)


def problems(kind: Kind, new: Json, old: Json | None = None, subresource: str = "") -> list[tuple[str, str]]:
    assert kind.problems is not None
    found = kind.problems(Writing({"kind": kind.kind, **new}, old, BOB, "now", subresource))
    return [(cause.field, cause.reason) for cause in found]


def messages(kind: Kind, new: Json, old: Json | None = None) -> str:
    assert kind.problems is not None
    return " ".join(str(cause) for cause in kind.problems(Writing({"kind": kind.kind, **new}, old, BOB, "now")))


def prepared(kind: Kind, new: Json) -> Json:
    assert kind.prepare is not None
    kind.prepare(Writing(new, None, BOB, "now"))
    return new


# -- Roles ------------------------------------------------------------------------------------------------------------

RESOURCES: Json = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
PATHS: Json = {"verbs": ["get"], "nonResourceURLs": ["/x"]}


@pytest.mark.parametrize("kind", [ROLE, CLUSTER_ROLE], ids=lambda kind: kind.kind)
@pytest.mark.parametrize(
    ("rule", "found"),
    [
        (RESOURCES, []),
        ({**RESOURCES, "resourceNames": ["a"]}, []),
        ({**RESOURCES, "verbs": []}, [("rules[0].verbs", REQUIRED)]),
        ({**RESOURCES, "verbs": None}, [("rules[0].verbs", REQUIRED)]),
        ({**RESOURCES, "apiGroups": []}, [("rules[0].apiGroups", REQUIRED)]),
        ({**RESOURCES, "resources": []}, [("rules[0].resources", REQUIRED)]),
        ({"verbs": ["get"]}, [("rules[0].apiGroups", REQUIRED)]),
    ],
)
def test_a_rule_says_what_may_be_done_with_what(kind: Kind, rule: Json, found: list[tuple[str, str]]) -> None:
    assert problems(kind, {"rules": [rule]}) == found
    if found:
        assert problems(kind, {"rules": [RESOURCES, rule]}) == [(f"rules[1]{field[8:]}", why) for field, why in found]


def test_paths_are_the_clusters_and_no_rule_is_about_both() -> None:
    both = [("rules[0].nonResourceURLs", INVALID)]
    assert problems(CLUSTER_ROLE, {"rules": [PATHS]}) == []
    assert problems(ROLE, {"rules": [PATHS]}) == both
    assert '["/x"]' in messages(ROLE, {"rules": [PATHS]}) and "namespaced" in messages(ROLE, {"rules": [PATHS]})
    for more in ({"apiGroups": [""]}, {"resources": ["pods"]}, {"resourceNames": ["a"]}):
        assert problems(CLUSTER_ROLE, {"rules": [{**PATHS, **more}]}) == both
        assert "both" in messages(CLUSTER_ROLE, {"rules": [{**PATHS, **more}]})
        assert problems(ROLE, {"rules": [{**PATHS, **more}]}) == both * 2


def test_a_role_without_rules_is_one() -> None:
    bodies: list[Json] = [{}, {"rules": None}, {"rules": []}, {"aggregationRule": None}]
    for empty in bodies:
        assert problems(CLUSTER_ROLE, empty) == []


def expression(operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": "a", "operator": operator, "values": list(values)}]}


AT = "aggregationRule.clusterRoleSelectors"


@pytest.mark.parametrize(
    ("selectors", "found"),
    [
        (None, [(AT, REQUIRED)]),
        ([], [(AT, REQUIRED)]),
        ([{"matchLabels": {"a": "b"}}], []),
        ([{"matchExpressions": None}], []),
        *(([expression(word, "x")], []) for word in ("In", "NotIn")),
        *(([expression(word)], []) for word in ("Exists", "DoesNotExist")),
        *(([expression(word)], [(f"{AT}[0].matchExpressions[0].values", INVALID)]) for word in ("In", "NotIn")),
        *(
            ([expression(word, "x")], [(f"{AT}[0].matchExpressions[0].values", INVALID)])
            for word in ("Exists", "DoesNotExist")
        ),
        ([{}, expression("Gt", "1")], [(f"{AT}[1].matchExpressions[0].operator", INVALID)]),
    ],
)
def test_an_aggregated_role_says_which_roles_it_gathers(selectors: Any, found: list[tuple[str, str]]) -> None:
    role = {"aggregationRule": {"clusterRoleSelectors": selectors}}
    assert problems(CLUSTER_ROLE, role) == found
    assert '"Gt"' in messages(CLUSTER_ROLE, {"aggregationRule": {"clusterRoleSelectors": [expression("Gt")]}})


def lists(schema: Any) -> Iterator[Json]:
    if isinstance(schema, dict):
        if schema.get("type") == "array":
            yield schema
        for inside in schema.values():
            yield from lists(inside)


@pytest.mark.parametrize("kind", [ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING], ids=lambda kind: kind.kind)
def test_who_applies_a_list_of_access_owns_all_of_it(kind: Kind) -> None:
    """As the API's own documents say: two managers of one list would give each other's rights."""
    found = list(lists(kind.versions[0].schema))
    assert found and {each.get("x-kubernetes-list-type") for each in found} == {"atomic"}


# -- Bindings ---------------------------------------------------------------------------------------------------------

REF: Json = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "r"}
ACCOUNT: Json = {"kind": "ServiceAccount", "name": "a", "namespace": "ns"}
USER: Json = {"kind": "User", "name": "u", "apiGroup": RBAC}


def binding(*subjects: Json, **ref: Any) -> Json:
    return {"roleRef": {**REF, **ref}, "subjects": list(subjects)}


@pytest.mark.parametrize(
    ("kind", "body", "found"),
    [
        (ROLE_BINDING, binding(), []),
        (ROLE_BINDING, binding(kind="Role"), []),
        (CLUSTER_ROLE_BINDING, binding(), []),
        (CLUSTER_ROLE_BINDING, binding(kind="Role"), [("roleRef.kind", UNSUPPORTED)]),
        (ROLE_BINDING, binding(kind="Roll"), [("roleRef.kind", UNSUPPORTED)]),
        (ROLE_BINDING, binding(kind=""), [("roleRef.kind", UNSUPPORTED)]),
        (ROLE_BINDING, binding(apiGroup="x"), [("roleRef.apiGroup", UNSUPPORTED)]),
        (ROLE_BINDING, binding(name=""), [("roleRef.name", REQUIRED)]),
        (
            ROLE_BINDING,
            {},
            [("roleRef.kind", UNSUPPORTED), ("roleRef.apiGroup", UNSUPPORTED), ("roleRef.name", REQUIRED)],
        ),
        (ROLE_BINDING, {"roleRef": REF, "subjects": None}, []),
        (ROLE_BINDING, binding(USER, {**USER, "kind": "Group"}, ACCOUNT), []),
        (CLUSTER_ROLE_BINDING, binding(USER, {**USER, "kind": "Group"}, ACCOUNT), []),
        (ROLE_BINDING, binding({**USER, "name": ""}), [("subjects[0].name", REQUIRED)]),
        (ROLE_BINDING, binding(USER, {**USER, "kind": "Robot"}), [("subjects[1].kind", UNSUPPORTED)]),
        (ROLE_BINDING, binding({"name": "u"}), [("subjects[0].kind", UNSUPPORTED)]),
        (ROLE_BINDING, binding({**USER, "apiGroup": ""}), [("subjects[0].apiGroup", UNSUPPORTED)]),
        (ROLE_BINDING, binding({**USER, "apiGroup": "x"}), [("subjects[0].apiGroup", UNSUPPORTED)]),
        (ROLE_BINDING, binding({**ACCOUNT, "apiGroup": RBAC}), [("subjects[0].apiGroup", UNSUPPORTED)]),
        (ROLE_BINDING, binding({**ACCOUNT, "apiGroup": ""}), []),
        (ROLE_BINDING, binding({"kind": "ServiceAccount", "name": "a"}), []),
        (CLUSTER_ROLE_BINDING, binding({"kind": "ServiceAccount", "name": "a"}), [("subjects[0].namespace", REQUIRED)]),
        (CLUSTER_ROLE_BINDING, binding(USER), []),
    ],
)
def test_a_binding_names_one_role_and_whom_it_is_for(kind: Kind, body: Json, found: list[tuple[str, str]]) -> None:
    assert problems(kind, body) == found


def test_a_binding_says_what_would_be_right() -> None:
    assert '"ClusterRole"' in messages(CLUSTER_ROLE_BINDING, binding(kind="Role")).partition("supported")[2]
    assert '"Role",' not in messages(CLUSTER_ROLE_BINDING, binding(kind="Role"))
    assert '"Role", "ClusterRole"' in messages(ROLE_BINDING, binding(kind="Roll"))
    assert 'roleRef.apiGroup: Unsupported value: "x":' in messages(ROLE_BINDING, binding(apiGroup="x"))
    assert 'subjects[0].kind: Unsupported value: "Robot":' in messages(ROLE_BINDING, binding({**USER, "kind": "Robot"}))
    assert 'subjects[0].apiGroup: Unsupported value: "x":' in messages(ROLE_BINDING, binding({**USER, "apiGroup": "x"}))
    assert '"Roll": supported values' in messages(ROLE_BINDING, binding(kind="Roll"))
    assert 'roleRef.kind: Unsupported value: ""' in messages(ROLE_BINDING, {})
    assert 'roleRef.apiGroup: Unsupported value: "":' in messages(ROLE_BINDING, {})
    assert 'kind: Unsupported value: "": supported values: "ServiceAccount", "User", "Group"' in messages(
        ROLE_BINDING, binding({"name": "u"})
    )
    assert messages(ROLE_BINDING, binding({**ACCOUNT, "apiGroup": "x"})).endswith('supported values: ""')
    assert messages(ROLE_BINDING, binding({**USER, "apiGroup": "x"})).endswith(f'supported values: "{RBAC}"')


def test_a_binding_keeps_its_role() -> None:
    assert problems(ROLE_BINDING, binding(USER), binding()) == []
    assert problems(ROLE_BINDING, binding(name="other"), binding()) == [("roleRef", INVALID)]


def test_the_group_of_a_role_and_of_people_is_filled_in() -> None:
    body = {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
        {"kind": "User", "name": "u"}, {"kind": "Group", "name": "g", "apiGroup": ""}, {"kind": "ServiceAccount", "name": "a"},
        {"kind": "User", "name": "u", "apiGroup": "x"}, "no subject",
    ]}  # fmt: skip
    found = prepared(ROLE_BINDING, body)
    assert found["roleRef"]["apiGroup"] == RBAC
    assert [subject.get("apiGroup") for subject in found["subjects"][:4]] == [RBAC, RBAC, None, "x"]
    assert prepared(ROLE_BINDING, {"roleRef": {"apiGroup": "x"}})["roleRef"] == {"apiGroup": "x"}
    for odd in ({}, {"roleRef": "x", "subjects": None}):
        assert prepared(ROLE_BINDING, dict(odd)) == odd


def test_bindings_and_roles_in_a_table() -> None:
    subjects = [
        USER,
        {**USER, "name": "v"},
        {**USER, "kind": "Group", "name": "g"},
        ACCOUNT,
        {**ACCOUNT, "namespace": ""},
    ]
    body = {**binding(*subjects), "metadata": {"name": "b", "creationTimestamp": "2024-01-01T00:00:00Z"}}
    shown = {column.name: (column.value(body), column.priority) for column in ROLE_BINDING.storage.columns}
    assert shown["Role"] == ("ClusterRole/r", 0)
    assert shown["Users"] == ("u, v", 1) and shown["Groups"] == ("g", 1) and shown["ServiceAccounts"] == ("ns/a, a", 1)
    assert next(c for c in ROLE_BINDING.storage.columns if c.name == "Users").value({"subjects": None}) == ""
    created = next(column for column in ROLE.storage.columns if column.name == "Created At")
    assert created.value(body) == "2024-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("kind", "names", "namespaced"),
    [
        (ROLE, ("roles", "Role"), True),
        (CLUSTER_ROLE, ("clusterroles", "ClusterRole"), False),
        (ROLE_BINDING, ("rolebindings", "RoleBinding"), True),
        (CLUSTER_ROLE_BINDING, ("clusterrolebindings", "ClusterRoleBinding"), False),
    ],
)
def test_kinds_of_rbac(kind: Kind, names: tuple[str, str], namespaced: bool) -> None:
    assert (kind.group, kind.plural, kind.kind) == ("rbac.authorization.k8s.io", *names)
    assert (kind.namespaced, kind.unconditional_update, kind.create_on_update) == (namespaced, True, True)
    assert kind.verbs == ALL_VERBS and kind.storage.name == "v1"
    assert kind.name_problem("system:a:b") == "" and kind.name_problem("a/b")  # names of roles have colons
    properties = kind.storage.schema["properties"]
    assert ("aggregationRule" in properties) is (kind is CLUSTER_ROLE)


def walked(kind: Kind, **content: Any) -> tuple[Json, list[str]]:
    """The object as the schema leaves it, and what the schema refuses."""
    report = WalkReport()
    body = {"apiVersion": kind.api_version("v1"), "kind": kind.kind, "metadata": {"name": "x"}, **content}
    kind.storage.walk(body, report)
    return body, [cause.field for cause in report.causes]


def test_schemas_of_rbac_know_their_fields() -> None:
    rule = {**RESOURCES, "resourceNames": ["a"], "nonResourceURLs": ["/x"]}
    labels = {"matchLabels": {"a": "b"}, **expression("In", "x")}
    kept, wrong = walked(CLUSTER_ROLE, rules=[{**rule, "other": 1}], aggregationRule={"clusterRoleSelectors": [labels]})
    assert kept["rules"] == [rule] and kept["aggregationRule"] == {"clusterRoleSelectors": [labels]} and not wrong
    assert walked(ROLE, rules=[{}])[1] == ["rules[0].verbs"]
    lacking = walked(CLUSTER_ROLE, aggregationRule={"clusterRoleSelectors": [{"matchExpressions": [{}]}]})[1]
    assert {field.rpartition(".")[2] for field in lacking} == {"key", "operator"}
    kept, wrong = walked(ROLE_BINDING, **binding({**USER, "namespace": "ns", "other": 1}))
    assert kept["subjects"] == [{**USER, "namespace": "ns"}] and kept["roleRef"] == REF and not wrong
    assert walked(ROLE_BINDING)[1] == ["roleRef"]
    assert set(walked(ROLE_BINDING, roleRef={}, subjects=[{}])[1]) == {
        "roleRef.kind", "roleRef.name", "subjects[0].kind", "subjects[0].name",
    }  # fmt: skip


def test_a_lease_is_held_by_somebody_or_nobody() -> None:
    spec = {
        "holderIdentity": "n1", "leaseDurationSeconds": 40, "leaseTransitions": 0, "strategy": "s", "preferredHolder": "p",
        "acquireTime": "2024-01-01T00:00:00.000000Z", "renewTime": "2024-01-01T00:00:00.000000Z",
    }  # fmt: skip
    kept, wrong = walked(LEASE, spec=spec)
    assert kept["spec"] == spec and not wrong
    nobody = {"holderIdentity": None, "leaseDurationSeconds": None, "leaseTransitions": None}
    assert walked(LEASE, spec=nobody)[1] == []
    assert walked(LEASE, spec={"leaseDurationSeconds": 0})[1] == ["spec.leaseDurationSeconds"]
    assert walked(LEASE, spec={"leaseDurationSeconds": 1})[1] == []
    assert walked(LEASE, spec={"leaseTransitions": -1})[1] == ["spec.leaseTransitions"]
    holder = next(column for column in LEASE.storage.columns if column.name == "Holder")
    assert [holder.value(found) for found in ({"spec": spec}, {"spec": nobody}, {})] == ["n1", "", ""]
    assert (LEASE.kind, LEASE.storage.name) == ("Lease", "v1")
    assert (LEASE.group, LEASE.plural, LEASE.create_on_update, LEASE.namespaced) == (
        "coordination.k8s.io", "leases", True, True,
    )  # fmt: skip


def test_reviews_are_asked_and_never_kept() -> None:
    assert {(kind.group, kind.plural, kind.kind, kind.namespaced) for kind in REVIEWS} == {
        ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
        ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", False),
        ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", True),
        ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False),
        ("authentication.k8s.io", "tokenreviews", "TokenReview", False),
        ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", False),
    }
    assert {kind.verbs for kind in REVIEWS} == {("create",)} and {kind.storage.name for kind in REVIEWS} == {"v1"}
    assert set(ACCESS) == {ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING, LEASE}


# -- Certificate requests ---------------------------------------------------------------------------------------------

SPEC: Json = {"request": request((CN, "bob")), "signerName": "example.com/x", "usages": [SIGN]}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (SPEC, []),
        ({**SPEC, "signerName": ""}, [("spec.signerName", REQUIRED)]),
        ({**SPEC, "signerName": "plain"}, [("spec.signerName", INVALID)]),
        ({**SPEC, "usages": []}, [("spec.usages", REQUIRED)]),
        ({**SPEC, "request": "x"}, [("spec.request", INVALID)]),
        ({"signerName": "a/b", "usages": [SIGN]}, [("spec.request", INVALID)]),
        ({**SPEC, "expirationSeconds": 599}, [("spec.expirationSeconds", INVALID)]),
        ({**SPEC, "expirationSeconds": 599.0}, [("spec.expirationSeconds", INVALID)]),
        ({**SPEC, "expirationSeconds": 600}, []),
        ({**SPEC, "expirationSeconds": None}, []),
        (None, [("spec.signerName", REQUIRED), ("spec.usages", REQUIRED), ("spec.request", INVALID)]),
    ],
)
def test_a_certificate_request_is_whole_when_it_is_made(spec: Json | None, found: list[tuple[str, str]]) -> None:
    body = {} if spec is None else {"spec": spec}
    assert problems(CERTIFICATE_REQUEST, body) == found
    assert problems(CERTIFICATE_REQUEST, body, {"spec": SPEC}) == []  # what is stored was whole, or is kept as it is


def test_a_refused_request_is_shown_by_its_beginning() -> None:
    shown = messages(CERTIFICATE_REQUEST, {"spec": {**SPEC, "request": "!" * 100}})
    assert f'"{"!" * 60}"' in shown
    assert '"plain"' in messages(CERTIFICATE_REQUEST, {"spec": {**SPEC, "signerName": "plain"}})
    assert 'Invalid value: ""' in messages(CERTIFICATE_REQUEST, {"spec": {"signerName": "a/b", "usages": [SIGN]}})


def status(*types: str, certificate: str | None = None, reason: str = "r", value: str = "True") -> Json:
    conditions = [{"type": kind, "status": value, "reason": reason, "message": "m"} for kind in types]
    return {"spec": SPEC, "status": {"conditions": conditions, **({"certificate": certificate} if certificate else {})}}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (status(), status("Approved"), []),
        (status("Approved"), status("Approved"), []),
        (status("Approved"), status("Approved", "Failed"), []),
        (status("Seen"), status(), []),
        (status("Seen"), status("Seen", value="False"), []),
        *((status(word), status(), [("status.conditions", FORBIDDEN)]) for word in ("Approved", "Denied", "Failed")),
        *(
            (status(word), status(word, reason="other"), [("status.conditions", FORBIDDEN)])
            for word in ("Approved", "Denied", "Failed")
        ),
        *(
            (status(), status("Seen", word, value="False"), [("status.conditions[1].status", UNSUPPORTED)])
            for word in ("Approved", "Denied", "Failed")
        ),
        (status(), status("Approved", "Denied"), [("status.conditions", INVALID)]),
        (status(), status(""), [("status.conditions[0].type", REQUIRED)]),
        (status(), status(certificate="a"), []),
        (status(certificate="a"), status(certificate="a"), []),
        (status(certificate="a"), status(certificate="b"), [("status.certificate", FORBIDDEN)]),
        (status(certificate="a"), status(), [("status.certificate", FORBIDDEN)]),
        (status(certificate="a"), {"spec": SPEC}, [("status.certificate", FORBIDDEN)]),
        ({"spec": SPEC}, {"spec": SPEC, "status": {"conditions": None}}, []),
        (status(), {"spec": SPEC, "status": {"conditions": [{"type": "Failed"}]}},
         [("status.conditions[0].status", UNSUPPORTED)]),
    ],
)  # fmt: skip
def test_a_decision_and_a_certificate_stay(old: Json, new: Json, found: list[tuple[str, str]]) -> None:
    assert problems(CERTIFICATE_REQUEST, new, old, "status") == found


def test_a_message_changed_or_a_status_is_a_decision_changed() -> None:
    old, new = status("Approved"), status("Approved")
    new["status"]["conditions"][0]["message"] = "other"
    assert problems(CERTIFICATE_REQUEST, new, old, "approval") == [("status.conditions", FORBIDDEN)]
    seen = [{"type": "Seen"}]
    new = {"spec": SPEC, "status": {"conditions": [*seen, {**old["status"]["conditions"][0], "status": "False"}]}}
    assert ("status.conditions", FORBIDDEN) in problems(CERTIFICATE_REQUEST, new, old, "approval")
    new = status("Approved")
    new["status"]["conditions"][0]["lastUpdateTime"] = "later"
    assert problems(CERTIFICATE_REQUEST, new, old, "approval") == []


def test_a_refused_decision_says_what_was_wrong_and_what_would_be_right() -> None:
    both = messages(CERTIFICATE_REQUEST, status("Approved", "Denied"), status())
    assert 'Invalid value: "Denied"' in both
    assert 'Unsupported value: "False": supported values: "True"' in messages(
        CERTIFICATE_REQUEST, status("Approved", value="False"), status()
    )
    unsaid = {"spec": SPEC, "status": {"conditions": [{"type": "Approved"}]}}
    assert 'Unsupported value: ""' in messages(CERTIFICATE_REQUEST, unsaid, status())


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        (status(), "Pending"),
        (status("Approved"), "Approved"),
        (status("Denied"), "Denied"),
        (status("Denied", "Approved"), "Denied"),
        (status("Approved", "Failed"), "Approved,Failed"),
        (status("Approved", certificate="a"), "Approved,Issued"),
        (status("Failed", certificate="a"), "Pending,Failed,Issued"),
        ({}, "Pending"),
        ({"status": {"conditions": None}}, "Pending"),
    ],
)
def test_a_request_in_a_table(shown: Json, found: str) -> None:
    columns = {column.name: column.value for column in CERTIFICATE_REQUEST.storage.columns}
    assert columns["Condition"](shown) == found


def test_a_request_in_a_table_says_who_asks_whom_for_how_long() -> None:
    columns = {column.name: column.value for column in CERTIFICATE_REQUEST.storage.columns}
    body = {"spec": {**SPEC, "username": "bob", "expirationSeconds": 90}}
    assert [columns[name](body) for name in ("SignerName", "Requestor", "RequestedDuration")] == [
        "example.com/x", "bob", "90s",
    ]  # fmt: skip
    assert columns["RequestedDuration"]({"spec": SPEC}) == columns["RequestedDuration"]({}) == "<none>"
    assert CERTIFICATE_REQUEST.fields is not None
    assert CERTIFICATE_REQUEST.fields(body) == {"spec.signerName": "example.com/x"}
    assert CERTIFICATE_REQUEST.fields({}) == {"spec.signerName": ""}
    assert CERTIFICATE_REQUEST.field_names == {"spec.signerName"} and CERTIFICATE_REQUEST.short_names == ("csr",)
    assert CERTIFICATE_REQUEST.extra_subresources == {"approval": ("get", "patch", "update")}
    assert not CERTIFICATE_REQUEST.namespaced and CERTIFICATE_REQUEST.unconditional_update


def written(old: Json, new: Json, subresource: str) -> Json:
    assert CERTIFICATE_REQUEST.prepare is not None
    CERTIFICATE_REQUEST.prepare(Writing(new, old, BOB, "now", subresource))
    return new


def test_each_door_changes_its_own_part() -> None:
    old = status("Approved", "Seen", certificate="a")
    other = {"spec": {}, "status": status("Denied", "Failed", certificate="b")["status"]}
    by_approval = written(old, {**other, "status": dict(other["status"])}, "approval")
    assert by_approval["spec"] == SPEC and by_approval["status"]["certificate"] == "a"
    assert [c["type"] for c in by_approval["status"]["conditions"]] == ["Denied", "Failed"]
    by_status = written(old, {**other, "status": dict(other["status"])}, "status")
    assert by_status["status"]["certificate"] == "b"
    assert [c["type"] for c in by_status["status"]["conditions"]] == ["Approved", "Failed"]
    denied = written(status("Denied"), status(), "status")
    assert [c["type"] for c in denied["status"]["conditions"]] == ["Denied"]
    assert written(old, {**other}, "")["status"]["certificate"] == "a"
    assert [c["type"] for c in written(old, {**other}, "")["status"]["conditions"]] == ["Approved", "Seen"]
    assert "status" not in written({"spec": SPEC}, {}, "")
    assert written({"spec": SPEC}, {"status": {"certificate": None}}, "status").get("status", {}) == {}


def test_the_time_of_a_decision_is_filled_in() -> None:
    given = {"type": "Approved", "lastUpdateTime": "then", "lastTransitionTime": "then"}
    for condition, wanted in (({"type": "Approved"}, "now"), (given, "then"),
                              ({"type": "Approved", "lastUpdateTime": None, "lastTransitionTime": None}, "now")):  # fmt: skip
        new = written({"spec": SPEC}, {"status": {"conditions": [dict(condition)]}}, "approval")
        found = new["status"]["conditions"][0]
        assert (found["lastUpdateTime"], found["lastTransitionTime"]) == (wanted, wanted)


def test_who_asks_and_for_what_is_filled_in() -> None:
    new = prepared(
        CERTIFICATE_REQUEST, {"spec": {"username": "root", "uid": "0", "groups": ["x"], "extra": {"a": ["b"]}}}
    )
    assert new["spec"] == {"username": "bob", "groups": ["devs"], "usages": ["digital signature", "key encipherment"]}
    assert prepared(CERTIFICATE_REQUEST, {"spec": {"usages": ["a"]}})["spec"]["usages"] == ["a"]
    alone: Json = {"spec": {"groups": ["system:masters"], "usages": ["a"]}}
    assert CERTIFICATE_REQUEST.prepare is not None
    CERTIFICATE_REQUEST.prepare(Writing(alone, None, Caller("eve", ()), "now"))
    assert alone["spec"]["groups"] == [], "who is in no group cannot name one"
    assert prepared(CERTIFICATE_REQUEST, {"spec": "x"}) == {"spec": "x"}


def test_the_schema_of_a_request_knows_its_fields() -> None:
    assert CERTIFICATE_REQUEST.kind == "CertificateSigningRequest"
    spec = {**SPEC, "expirationSeconds": 600, "username": "bob", "uid": "1", "groups": ["a"], "extra": {"k": ["v"]}}
    kept, wrong = walked(CERTIFICATE_REQUEST, spec={**spec, "other": 1}, status={"certificate": "YQ==", "other": 1})
    assert kept["spec"] == spec and kept["status"] == {"certificate": "YQ=="} and not wrong
    assert walked(CERTIFICATE_REQUEST, spec=spec, status={"certificate": None})[1] == []
    assert walked(CERTIFICATE_REQUEST)[1] == ["spec"]
    assert set(walked(CERTIFICATE_REQUEST, spec={})[1]) == {"spec.request", "spec.signerName"}
