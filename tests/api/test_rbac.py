"""RBAC, rule by rule: what covers what, who is whose subject, and what nobody may give away."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from rackless.api.access import escalation, rbac
from rackless.api.access.attributes import Attributes
from rackless.api.access.default_roles import DEFAULT_BINDINGS, DEFAULT_ROLES
from rackless.api.access.escalation import Guard
from rackless.api.access.rbac import Authorizer, covers, refusal
from rackless.api.kinds.access import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from rackless.api.kinds.core import CONFIG_MAP, NAMESPACE
from rackless.api.kinds.kind import Caller, Kind, Writing
from rackless.api.offload import NeedsThread
from rackless.api.status import RequestRefused
from rackless.api.stores.memory import ObjectsInMemory

from .conftest import Json

BOB = Caller("bob", ("devs", "system:authenticated"))


def rule(verbs: str = "", groups: str = "", resources: str = "", names: str = "", urls: str = "") -> Json:
    """`core` stands for the group without a name."""
    found: Json = {"verbs": verbs.split()}
    if groups:
        found["apiGroups"] = ["" if group == "core" else group for group in groups.split()]
    for field, words in (("resources", resources), ("resourceNames", names), ("nonResourceURLs", urls)):
        if words:
            found[field] = words.split()
    return found


def ask(
    verb: str, group: str = "", resource: str = "", sub: str = "", namespace: str = "", name: str = ""
) -> Attributes:
    return Attributes(verb, group, resource, sub, namespace, name)


def url(verb: str, path: str) -> Attributes:
    return Attributes(verb, path=path)


PODS = rule("get list", "core", "pods")
NAMED = rule("get", "core", "pods", names="a b")
COVERS: list[tuple[Json, Attributes, bool]] = [
    (PODS, ask("get", "", "pods"), True),
    (PODS, ask("list", "", "pods"), True),
    (PODS, ask("watch", "", "pods"), False),
    (PODS, ask("get", "apps", "pods"), False),
    (PODS, ask("get", "", "secrets"), False),
    (PODS, ask("get", "", "pods", namespace="any", name="any"), True),
    (PODS, ask("get", "", "pods", "status"), False),
    (PODS, ask("*", "", "pods"), False),
    (PODS, ask("", "", "pods"), False),
    (PODS, url("get", "/pods"), False),
    (rule("*", "core", "pods"), ask("anything", "", "pods"), True),
    (rule("*", "core", "pods"), ask("*", "", "pods"), True),
    (rule("get", "*", "pods"), ask("get", "apps", "pods"), True),
    (rule("get", "*", "pods"), ask("get", "apps", "jobs"), False),
    (rule("get", "core", "*"), ask("get", "", "secrets"), True),
    (rule("get", "core", "*"), ask("get", "", "secrets", "status"), True),
    (rule("get", "core", "*"), ask("get", "apps", "secrets"), False),
    (rule("get", "core", "pods/status"), ask("get", "", "pods", "status"), True),
    (rule("get", "core", "pods/status"), ask("get", "", "pods"), False),
    (rule("get", "core", "pods/status"), ask("get", "", "pods", "scale"), False),
    (rule("get", "core", "pods/status"), ask("get", "", "nodes", "status"), False),
    (rule("get", "core", "*/status"), ask("get", "", "nodes", "status"), True),
    (rule("get", "core", "*/status"), ask("get", "", "nodes", "scale"), False),
    (rule("get", "core", "*/status"), ask("get", "", "nodes"), False),
    (rule("get", "core", "*/"), ask("get", "", "nodes"), False),
    (rule("get", "core", "pods/*"), ask("get", "", "pods", "status"), False),
    (NAMED, ask("get", "", "pods", name="a"), True),
    (NAMED, ask("get", "", "pods", name="b"), True),
    (NAMED, ask("get", "", "pods", name="c"), False),
    (NAMED, ask("get", "", "pods"), False),
    (rule("create", "core", "pods", names="a"), ask("create", "", "pods"), False),
    (rule("list watch deletecollection", "core", "pods", names="a"), ask("list", "", "pods"), False),
    (rule("list watch deletecollection", "core", "pods", names="a"), ask("deletecollection", "", "pods"), False),
    (rule("list", "core", "pods", names="a"), ask("list", "", "pods", name="a"), True),
    (rule("get", urls="/healthz"), url("get", "/healthz"), True),
    (rule("get", urls="/healthz"), url("post", "/healthz"), False),
    (rule("get", urls="/healthz"), url("get", "/healthz/ping"), False),
    (rule("get", urls="/healthz"), url("get", "/health"), False),
    (rule("get", urls="/healthz/*"), url("get", "/healthz/ping"), True),
    (rule("get", urls="/healthz/*"), url("get", "/healthz/"), True),
    (rule("get", urls="/healthz/*"), url("get", "/healthz"), False),
    (rule("get", urls="/healthz/*"), url("get", "/x/healthz/ping"), False),
    (rule("get", urls="/healthz*"), url("get", "/healthzx"), True),
    (rule("get", urls="/a/**"), url("get", "/a/b"), True),
    (rule("get", urls="/aX*"), url("get", "/a"), False),
    (rule("get", urls="/*/b"), url("get", "/a/b"), False),
    (rule("get", urls="*"), url("get", "/anything"), True),
    (rule("get", urls="*"), url("post", "/anything"), False),
    (rule("*", urls="*"), url("post", "/anything"), True),
    (rule("get", urls="/a /b"), url("get", "/b"), True),
    (rule("*", urls="*"), ask("get", "", "pods"), False),
    (rule("*", "*", "*"), url("get", "/healthz"), False),
    (rule("*", "*", "*"), ask("x", "y", "z", "s", "n", "m"), True),
    ({"verbs": None}, ask("get", "", "pods"), False),
    ({}, ask("get"), False),
    ({"verbs": ["get"], "apiGroups": None, "resources": ["pods"]}, ask("get", "", "pods"), False),
    ({"verbs": ["get"], "apiGroups": [""], "resources": None}, ask("get", "", "pods"), False),
    ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": []}, ask("get", "", "pods"), True),
    ({"verbs": ["get"], "nonResourceURLs": None}, url("get", "/a"), False),
]


@pytest.mark.parametrize(("given", "asked", "covered"), COVERS)
def test_a_rule_covers_what_it_says_and_no_more(given: Json, asked: Attributes, covered: bool) -> None:
    assert covers(given, asked) is covered


# -- Bindings ---------------------------------------------------------------------------------------------------------


def named(name: str, namespace: str = "", labels: dict[str, str] | None = None) -> Json:
    found: Json = {"name": name, "uid": f"{namespace}-{name}"}
    return found | ({"namespace": namespace} if namespace else {}) | ({"labels": labels} if labels else {})


def role(name: str, *rules: Json, namespace: str = "", **more: Any) -> tuple[Kind, Json]:
    labels = more.pop("labels", None)
    return (ROLE if namespace else CLUSTER_ROLE), {
        "metadata": named(name, namespace, labels),
        "rules": list(rules),
        **more,
    }


def binding(name: str, to: str, *subjects: Json, namespace: str = "", kind: str = "ClusterRole") -> tuple[Kind, Json]:
    obj = {"metadata": named(name, namespace), "roleRef": {"kind": kind, "name": to}, "subjects": list(subjects)}
    return (ROLE_BINDING if namespace else CLUSTER_ROLE_BINDING), obj


def user(name: str) -> Json:
    return {"kind": "User", "name": name}


def group(name: str) -> Json:
    return {"kind": "Group", "name": name}


def account(name: str, namespace: str = "") -> Json:
    return {"kind": "ServiceAccount", "name": name} | ({"namespace": namespace} if namespace else {})


def robot(namespace: str = "a", name: str = "robot") -> Caller:
    return Caller(f"system:serviceaccount:{namespace}:{name}", ("system:serviceaccounts",))


def write(memory: ObjectsInMemory, *objects: tuple[Kind, Json]) -> None:
    for kind, obj in objects:
        key = kind.key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        memory.apply([(key, memory.revision + 1, orjson.dumps({"apiVersion": "x", "kind": kind.kind, **obj}))])


def authorizer(*objects: tuple[Kind, Json]) -> Authorizer:
    memory = ObjectsInMemory()
    write(memory, *objects)
    return Authorizer(memory)  # type: ignore[arg-type]


GET = ask("get", "", "pods", namespace="a")
READ = role("read", rule("get", "core", "pods"))
READ_A = role("read", rule("get", "core", "pods"), namespace="a")
SUBJECTS: list[tuple[Json, Caller, bool]] = [
    (user("bob"), BOB, True),
    (user("alice"), BOB, False),
    (user("devs"), BOB, False),
    (group("devs"), BOB, True),
    (group("ops"), BOB, False),
    (group("bob"), BOB, False),
    (group("system:authenticated"), BOB, True),
    (group("dev"), BOB, False),
    (account("robot", "a"), robot(), True),
    (account("robot", "b"), robot(), False),
    (account("other", "a"), robot(), False),
    (account("bob"), BOB, False),
    (user("system:serviceaccount:a:robot"), robot(), True),
    ({"kind": "Robot", "name": "bob"}, BOB, False),
    ({"name": "bob"}, BOB, False),
]


@pytest.mark.parametrize(("subject", "caller", "allowed"), SUBJECTS)
@pytest.mark.parametrize("namespace", ["", "a"])
def test_a_binding_holds_for_its_subjects(subject: Json, caller: Caller, allowed: bool, namespace: str) -> None:
    found = authorizer(READ, binding("b", "read", user("nobody"), subject, namespace=namespace))
    assert found.allows(caller, GET) is allowed


@pytest.mark.parametrize(("namespace", "allowed"), [("a", True), ("b", False), ("", False), ("aa", False)])
def test_a_role_binding_holds_in_its_own_namespace(namespace: str, allowed: bool) -> None:
    for found in (
        authorizer(READ, binding("b", "read", user("bob"), namespace="a")),
        authorizer(READ_A, binding("b", "read", user("bob"), namespace="a", kind="Role")),
    ):
        assert found.allows(BOB, ask("get", "", "pods", namespace=namespace)) is allowed


@pytest.mark.parametrize("namespace", ["a", "b", ""])
def test_a_cluster_role_binding_holds_everywhere(namespace: str) -> None:
    found = authorizer(READ, binding("b", "read", group("devs")))
    assert found.allows(BOB, ask("get", "", "pods", namespace=namespace))


def test_a_service_account_without_a_namespace_is_of_the_bindings() -> None:
    found = authorizer(READ, binding("b", "read", account("robot"), namespace="a"))
    assert found.allows(robot("a"), GET) and not found.allows(robot("b"), GET)
    found = authorizer(READ, binding("b", "read", account("robot")))
    assert not found.allows(robot("a"), GET)


@pytest.mark.parametrize(
    ("bound", "allowed"),
    [
        (binding("b", "read", user("bob"), namespace="b", kind="Role"), False),  # the role is of another namespace
        (
            binding("b", "read", user("bob"), kind="ClusterRole"),
            False,
        ),  # there is a role of that name, but in a namespace
        (binding("b", "other", user("bob"), namespace="a", kind="Role"), False),
        (binding("b", "read", user("bob"), namespace="a", kind="ClusterRole"), False),
        (binding("b", "read", user("bob"), namespace="a", kind="Role"), True),
    ],
)
def test_a_binding_leads_to_the_role_of_its_kind_name_and_namespace(bound: tuple[Kind, Json], allowed: bool) -> None:
    found = authorizer(READ_A, bound)
    assert found.allows(BOB, ask("get", "", "pods", namespace=bound[1]["metadata"].get("namespace", "a"))) is allowed


def test_rules_of_all_bindings_and_roles_add_up_and_changes_count_at_once() -> None:
    memory = ObjectsInMemory()
    found = Authorizer(memory)  # type: ignore[arg-type]
    assert not found.allows(BOB, GET)
    write(
        memory,
        role("one", rule("list", "core", "pods"), rule("get", "core", "pods")),
        binding("b", "one", user("alice")),
    )
    assert not found.allows(BOB, GET)
    write(
        memory,
        role("two", rule("watch", "core", "pods")),
        binding("c", "one", group("devs")),
        binding("d", "two", user("bob")),
    )
    assert all(found.allows(BOB, ask(verb, "", "pods")) for verb in ("get", "list", "watch"))
    memory.apply([(CLUSTER_ROLE_BINDING.key("", "c"), memory.revision + 1, None)])
    assert not found.allows(BOB, GET) and found.allows(BOB, ask("watch", "", "pods"))
    write(memory, role("two", rule("get", "core", "pods")))
    assert found.allows(BOB, GET) and not found.allows(BOB, ask("watch", "", "pods"))
    write(
        memory,
        role("three", rule("delete", "core", "pods"), namespace="a"),
        binding("e", "three", user("bob"), namespace="a", kind="Role"),
    )
    assert found.allows(BOB, ask("delete", "", "pods", namespace="a"))
    assert list(found.rules(BOB, "b")) == [rule("get", "core", "pods")]


def test_other_changes_do_not_have_the_roles_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ObjectsInMemory()
    write(memory, READ, binding("b", "read", user("bob")))
    found = Authorizer(memory)  # type: ignore[arg-type]
    assert found.allows(BOB, GET)
    read: list[bytes] = []

    def decode(data: bytes) -> Any:
        read.append(data)
        return orjson.loads(data)

    monkeypatch.setattr(rbac, "decode", decode)
    write(memory, (CONFIG_MAP, {"metadata": named("c", "a")}))
    assert found.allows(BOB, GET) and not read
    write(memory, READ)
    assert found.allows(BOB, GET) and len(read) == 1, "that one, and none of the others"
    memory.apply([(CLUSTER_ROLE.key("", "read"), memory.revision + 1, None)])
    assert not found.allows(BOB, GET) and len(read) == 1
    write(memory, READ, binding("b", "read", group("devs")))
    assert found.allows(BOB, GET) and not found.allows(Caller("bob"), GET), "it is bound to others now"


def test_what_cannot_be_read_has_all_read_again_and_is_told_to_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ObjectsInMemory()
    found = Authorizer(memory)  # type: ignore[arg-type]
    write(memory, READ, binding("b", "read", user("bob")))
    assert found.allows(BOB, GET)
    with monkeypatch.context() as broken:
        broken.setattr(rbac, "decode", lambda data: 1 / 0)
        memory.apply([(CLUSTER_ROLE.key("", "read"), memory.revision + 1, b'{"metadata":{"name":"read"},"rules":[]}')])
        with pytest.raises(ZeroDivisionError):
            found.allows(BOB, GET)
    assert not found.allows(BOB, GET), "nothing old is believed"


def test_masters_may_everything_and_others_nothing_without_a_rule() -> None:
    found = authorizer()
    assert found.allows(Caller("x", ("system:masters",)), ask("x", "y", "z"))
    assert found.allows(Caller("x", ("a", "system:masters")), url("delete", "/x"))
    for caller in (
        Caller("system:masters"),
        Caller("x", ("system:master",)),
        Caller("system:admin", ("system:authenticated",)),
    ):
        assert not found.allows(caller, GET)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (url("get", "/x"), 'User "bob" cannot get path "/x"'),
        (
            ask("get", "", "pods", namespace="a"),
            'User "bob" cannot get resource "pods" in API group "" in the namespace "a"',
        ),
        (
            ask("get", "apps", "x", "scale"),
            'User "bob" cannot get resource "x/scale" in API group "apps" at the cluster scope',
        ),
    ],
)
def test_a_refusal_says_what_was_asked(asked: Attributes, sentence: str) -> None:
    assert refusal(BOB, asked) == sentence


@pytest.mark.parametrize(
    ("selector", "labels", "gathered"),
    [
        ({"matchLabels": {"to": "view"}}, {"to": "view"}, True),
        ({"matchLabels": {"to": "view"}}, {"to": "view", "more": "x"}, True),
        ({"matchLabels": {"to": "view"}}, {"to": "edit"}, False),
        ({"matchLabels": {"to": "view"}}, None, False),
        ({"matchLabels": {"to": "view", "also": "x"}}, {"to": "view"}, False),
        ({"matchExpressions": [{"key": "to", "operator": "In", "values": ["a", "view"]}]}, {"to": "view"}, True),
        ({"matchExpressions": [{"key": "to", "operator": "NotIn", "values": ["view"]}]}, {"to": "view"}, False),
        ({"matchExpressions": [{"key": "to", "operator": "NotIn", "values": ["edit"]}]}, {"to": "view"}, True),
        ({"matchExpressions": [{"key": "to", "operator": "Exists"}]}, {"to": "x"}, True),
        ({"matchExpressions": [{"key": "to", "operator": "DoesNotExist"}]}, {"to": "x"}, False),
        ({"matchExpressions": [{"key": "to", "operator": "DoesNotExist"}]}, {"a": "x"}, True),
        (
            {"matchLabels": {"to": "view"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]},
            {"to": "view"},
            False,
        ),
    ],
)
def test_an_aggregated_role_has_the_rules_of_the_roles_it_selects(selector: Json, labels: Any, gathered: bool) -> None:
    whole = role(
        "all", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"no": "no"}}, selector]}, labels=labels
    )
    part = role("part", rule("get", "core", "pods"), labels=labels)
    found = authorizer(whole, part, binding("b", "all", user("bob")))
    assert found.allows(BOB, GET) is gathered


# -- What nobody gives away -------------------------------------------------------------------------------------------


def guarded(
    given: Authorizer, kind: Kind, new: Json, old: Json | None = None, caller: Caller = BOB
) -> RequestRefused | None:
    try:
        Guard(given)(kind, Writing(new, old, caller, "now"))
    except RequestRefused as refused:
        return refused
    return None


ALL_ROLES = rule(
    "create update patch", "rbac.authorization.k8s.io", "roles clusterroles rolebindings clusterrolebindings"
)


def holder(*rules: Json, namespace: str = "") -> tuple[tuple[Kind, Json], ...]:
    """Bob may write roles everywhere, and has these rules."""
    return (
        role("writer", ALL_ROLES), binding("writer", "writer", user("bob")),
        role("held", *rules), binding("held", "held", user("bob"), namespace=namespace),
    )  # fmt: skip


HELD: list[tuple[list[Json], Json, bool]] = [
    ([rule("get", "core", "pods")], rule("get", "core", "pods"), True),
    ([rule("get", "core", "pods")], rule("get list", "core", "pods"), False),
    ([rule("get", "core", "pods"), rule("list", "core", "pods")], rule("get list", "core", "pods"), True),
    ([rule("get", "core", "pods")], rule("get", "core apps", "pods"), False),
    ([rule("get", "core", "pods")], rule("get", "core", "pods secrets"), False),
    ([rule("get", "core", "pods")], rule("get", "core", "pods/status"), False),
    ([rule("get", "core", "pods/status")], rule("get", "core", "pods/status"), True),
    ([rule("get", "core", "*/status")], rule("get", "core", "pods/status"), True),
    ([rule("get", "core", "pods/status")], rule("get", "core", "*/status"), False),
    ([rule("get", "core", "pods")], rule("*", "core", "pods"), False),
    ([rule("get", "core", "pods")], rule("get", "*", "pods"), False),
    ([rule("get", "core", "pods")], rule("get", "core", "*"), False),
    ([rule("*", "core", "pods")], rule("get list *", "core", "pods"), True),
    ([rule("get", "core", "pods", names="a XX")], rule("get", "core", "pods"), False),
    ([rule("get", "core", "pods", names="a b")], rule("get", "core", "pods", names="a"), True),
    ([rule("get", "core", "pods", names="a")], rule("get", "core", "pods", names="a b"), False),
    ([rule("get", "core", "pods")], rule("get", "core", "pods", names="a"), True),
    ([rule("get", urls="/a/*")], rule("get", urls="/a/b"), True),
    ([rule("get", urls="/a/*")], rule("get", urls="/a/*"), True),
    ([rule("get", urls="/a/b")], rule("get", urls="/a/*"), False),
    ([rule("get", urls="/a")], rule("get", urls="*"), False),
    ([rule("get", urls="/a")], rule("get", urls="/a /b"), False),
    ([rule("*", "*", "*")], rule("x", "y", "z"), True),
    ([rule("*", "core apps", "*")], rule("get", urls="/a"), False),
    ([], rule("get", "core", "pods"), False),
    ([rule("get", "core", "pods") | {"resourceNames": [""]}], rule("get", "core", "pods"), False),
    ([rule("get", "core", "pods") | {"resourceNames": ["", "a"]}], rule("get", "core", "pods", names="a"), True),
]


@pytest.mark.parametrize(("own", "given", "allowed"), HELD)
def test_a_role_is_written_and_bound_by_who_holds_all_of_it(own: list[Json], given: Json, allowed: bool) -> None:
    found = authorizer(*holder(*own), role("target", given), role("target", given, namespace="a"))
    new = role("new", given)[1]
    refused = guarded(found, CLUSTER_ROLE, new)
    assert (refused is None) is allowed
    if refused:
        assert refused.code == 403 and "attempting to grant RBAC permissions not currently held" in refused.message
        assert 'user "bob" (groups=' in refused.message
    for bound in (
        binding("x", "target"),
        binding("x", "target", namespace="a"),
        binding("x", "target", namespace="a", kind="Role"),
    ):
        assert (guarded(found, *bound) is None) is allowed
    assert (guarded(found, CLUSTER_ROLE, new, {**new, "rules": []}) is None) is allowed
    assert guarded(found, CLUSTER_ROLE, new, new) is None, "nothing is given by a write that changes no rule"
    labelled = {**new, "metadata": {**new["metadata"], "labels": {"a": "b"}}}
    for one, other in ((labelled, new), (new, labelled)):
        assert (guarded(found, CLUSTER_ROLE, one, other) is None) is allowed, "others may gather it by its labels"


def test_what_is_held_in_a_namespace_is_given_there_only() -> None:
    found = authorizer(*holder(rule("get", "core", "pods"), namespace="a"), role("target", rule("get", "core", "pods")))
    assert guarded(found, *binding("x", "target", namespace="a")) is None
    assert guarded(found, *role("x", rule("get", "core", "pods"), namespace="a")) is None
    for elsewhere in (
        binding("x", "target", namespace="b"),
        binding("x", "target"),
        role("x", rule("get", "core", "pods")),
    ):
        refused = guarded(found, *elsewhere)
        assert refused and refused.code == 403


@pytest.mark.parametrize("caller", [Caller("root", ("system:masters",))])
def test_masters_give_what_they_like(caller: Caller) -> None:
    everything = role("x", rule("*", "*", "*"), aggregationRule={"clusterRoleSelectors": [{}]})
    assert guarded(authorizer(), *everything, caller=caller) is None
    assert guarded(authorizer(), *binding("x", "absent"), caller=caller) is None


def test_escalate_and_bind_lift_the_check_for_what_they_name() -> None:
    rbac = "rbac.authorization.k8s.io"
    found = authorizer(
        *holder(rule("escalate", rbac, "clusterroles", names="x"), rule("bind", rbac, "clusterroles", names="target")),
        role("target", rule("*", "*", "*")), role("other", rule("*", "*", "*")), role("target", rule("*", "*", "*"), namespace="a"),
    )  # fmt: skip
    assert guarded(found, *role("x", rule("*", "*", "*"))) is None
    assert guarded(found, *role("y", rule("*", "*", "*")))
    assert guarded(found, *role("x", rule("*", "*", "*"), namespace="a")), "the rule is for cluster roles"
    assert guarded(found, *binding("b", "target")) is None
    assert guarded(found, *binding("b", "target", namespace="a")) is None
    assert guarded(found, *binding("b", "other"))
    assert guarded(found, *binding("b", "target", namespace="a", kind="Role"))


def test_who_may_not_bind_every_role_cannot_bind_one_that_is_absent() -> None:
    found = authorizer(*holder(rule("get", "core", "pods")))
    for bound, plural in (
        (binding("b", "absent"), "clusterroles"),
        (binding("b", "absent", namespace="a"), "clusterroles"),
        (binding("b", "held", namespace="a", kind="Role"), "roles"),
    ):
        refused = guarded(found, *bound)
        assert refused and refused.code == 404
        assert refused.message == f'{plural}.rbac.authorization.k8s.io "{bound[1]["roleRef"]["name"]}" not found'
    found = authorizer(*holder(rule("bind", "rbac.authorization.k8s.io", "clusterroles")))
    assert guarded(found, *binding("b", "absent")) is None


def test_aggregation_needs_everything() -> None:
    gather = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    wide, narrow = [rule("*", "*", "*")], [rule("*", "core apps", "*")]
    plain, gathering = role("x")[1], role("x", aggregationRule=gather)[1]
    for own, allowed in ((wide, True), (narrow, False), ([], False)):
        found = authorizer(*holder(*own))
        for new, old in ((gathering, None), (gathering, plain), (plain, gathering)):
            refused = guarded(found, CLUSTER_ROLE, new, old)
            assert (refused is None) is allowed
            assert refused is None or "must have cluster-admin privileges to use an aggregationRule" in refused.message
        assert guarded(found, CLUSTER_ROLE, gathering, gathering) is None
    found = authorizer(
        *holder(), role("sum", aggregationRule=gather), role("part", rule("get", "core", "pods"), labels={"a": "b"})
    )
    refused = guarded(found, *binding("b", "sum"))
    assert refused and refused.code == 403, "what an aggregated role gathers is given with it"


def test_what_is_held_in_a_namespace_of_any_name_is_nothing_in_the_cluster() -> None:
    everything = rule("*", "*", "*")
    for namespace in ("a", "XX"):
        found = authorizer(
            role("all", everything), binding("all", "all", user("bob"), namespace=namespace), role("target", everything)
        )
        for written in (role("x", everything), binding("x", "target"), binding("x", "absent")):
            refused = guarded(found, *written)
            assert refused and refused.code == 403
            known = guarded(found, *written, old={**written[1], "rules": [], "subjects": [user("x")]})
            assert known and known.code in (403, 404)


def test_an_aggregated_role_gathers_cluster_roles_only_and_of_others() -> None:
    gather = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    get, labels = rule("get", "core", "pods"), {"a": "b"}
    found = authorizer(
        role("sum", rule("list", "core", "pods"), aggregationRule=gather, labels=labels),
        role("part", rule("delete", "core", "pods"), namespace="a", labels=labels), role("other", get, labels=labels),
        binding("b", "sum", user("bob")),
    )  # fmt: skip
    assert list(found.rules(BOB, "a")) == [rule("list", "core", "pods"), get]


def test_a_role_and_a_cluster_role_of_one_name_are_two() -> None:
    found = authorizer(
        role("x", rule("get", "core", "pods")), role("x", rule("list", "core", "pods"), namespace="a"),
        binding("b", "x", user("bob"), namespace="a"), binding("c", "x", group("devs"), namespace="a", kind="Role"),
        binding("d", "x", group("devs"), namespace="a", kind="Role"),
    )  # fmt: skip
    assert list(found.rules(BOB, "a")) == [rule("get", "core", "pods"), rule("list", "core", "pods")], "each once"


def test_nothing_is_kept_of_bindings_that_are_gone() -> None:
    memory = ObjectsInMemory()
    found = Authorizer(memory)  # type: ignore[arg-type]
    write(memory, READ, binding("b", "read", user("bob"), group("devs")), binding("c", "read", group("devs")))
    assert memory.faults == 0 and found.allows(BOB, GET)
    bound = found._all()._bindings[""]
    write(memory, binding("b", "read", user("carol")))
    assert set(bound._of) == {("User", "carol"), ("Group", "devs")} and found.allows(BOB, GET)
    for name in "bc":
        memory.apply([(CLUSTER_ROLE_BINDING.key("", name), memory.revision + 1, None)])
    assert not bound._of and not bound._whose and memory.faults == 0


MINE = [rule("get", "core", f"r{n}") for n in range(100)]


def test_many_own_rules_are_looked_at_so_often_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who has thousands of roles, and writes one of thousands of things."""
    for most, held in ((300, True), (299, False)):
        monkeypatch.setattr(escalation, "_MOST_LOOKS", most)
        assert escalation._Held(MINE).covers([rule("get", "core", "r99")]) is held
    found = authorizer(*holder(*MINE))
    refused = guarded(found, *role("x", rule("get", "core", "r1 r2 r99")))
    assert refused and refused.code == 403


async def test_what_takes_many_looks_is_done_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escalation, "_LOOKS_ON_LOOP", 300)
    assert escalation._Held(MINE).covers([rule("get", "core", "r99")])
    monkeypatch.setattr(escalation, "_LOOKS_ON_LOOP", 299)
    with pytest.raises(NeedsThread):
        escalation._Held(MINE).covers([rule("get", "core", "r99")])
    assert await asyncio.to_thread(escalation._Held(MINE).covers, [rule("get", "core", "r99")])


def test_a_role_too_large_to_be_checked_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def counted(mine: Json, piece: Attributes) -> bool:
        nonlocal asked
        asked += 1
        return covers(mine, piece)

    monkeypatch.setattr(escalation, "covers", counted)
    words = " ".join(f"w{n}" for n in range(100))
    found = authorizer(*holder(rule("*", words + " core", "*"), rule("*", urls="*")))
    assert guarded(found, *role("x", rule(words, words, words)))
    assert asked == 0
    assert guarded(found, *role("x", rule(words, words, "one"))) is None
    assert guarded(found, *role("x", rule(words, words, "one"), rule("get", "core", "pods")))
    urls = " ".join(f"/w{n}" for n in range(100))
    assert guarded(found, *role("x", rule(words, urls=urls))) is None
    assert guarded(found, *role("x", rule(words, urls=urls + " /more")))
    assert guarded(found, *role("x", rule("get", "core", "one", names=words))) is None
    assert guarded(found, *role("x", rule(words, "core", "one two", names=words)))


CREATES: list[tuple[Json, bool]] = [
    (rule("create", "core", "configmaps"), True),
    (rule("create", "core", "configmaps", names="c"), True),
    (rule("create", "core", "configmaps", names="d"), False),
    (rule("update patch", "core", "configmaps"), False),
    (rule("create", "core", "configmaps/status"), False),
    (rule("create", "apps", "configmaps"), False),
]


@pytest.mark.parametrize(("own", "allowed"), CREATES)
@pytest.mark.parametrize("namespace", ["", "a", "b"])
def test_a_new_object_needs_create_whatever_brought_it(own: Json, allowed: bool, namespace: str) -> None:
    found = authorizer(*holder(own, namespace=namespace))
    new = {"metadata": named("c", "a")}
    refused = guarded(found, CONFIG_MAP, new)
    assert (refused is None) is (allowed and namespace != "b")
    if refused:
        assert refused.code == 403
        assert 'User "bob" cannot create resource "configmaps" in API group "" in the namespace "a"' in refused.message
    assert guarded(found, CONFIG_MAP, new, new) is None


def test_a_namespace_is_created_by_who_may_at_the_cluster_scope() -> None:
    new = {"metadata": named("n")}
    assert guarded(authorizer(*holder(rule("create", "core", "namespaces"))), NAMESPACE, new) is None
    assert guarded(authorizer(*holder(rule("create", "core", "namespaces"), namespace="a")), NAMESPACE, new)


# -- What is there from the start -------------------------------------------------------------------------------------

DEFAULTS: list[tuple[Caller, Attributes, bool]] = [
    (Caller("x", ("system:authenticated",)), url("get", "/api"), True),
    (Caller("x", ("system:authenticated",)), url("get", "/openapi/v3/api/v1"), True),
    (Caller("x", ("system:authenticated",)), url("get", "/metrics"), False),
    (Caller("x", ("system:authenticated",)), ask("create", "authorization.k8s.io", "selfsubjectaccessreviews"), True),
    (Caller("x", ("system:authenticated",)), ask("create", "authorization.k8s.io", "subjectaccessreviews"), False),
    (Caller("x", ("system:authenticated",)), ask("get", "", "namespaces"), False),
    (Caller("x", ("system:unauthenticated",)), url("get", "/version"), True),
    (Caller("x", ("system:unauthenticated",)), url("get", "/api"), False),
    (Caller("x", ("system:monitoring",)), url("get", "/metrics"), True),
    (Caller("x", ("system:bootstrappers",)), ask("create", "certificates.k8s.io", "certificatesigningrequests"), True),
    (
        Caller("x", ("system:bootstrappers",)),
        ask("update", "certificates.k8s.io", "certificatesigningrequests", "approval"),
        False,
    ),
    (Caller("x", ("system:bootstrappers",)), ask("get", "", "nodes"), False),
    (Caller("x", ("system:nodes",)), ask("get", "", "nodes"), False),
    (Caller("system:node:n", ("system:nodes",)), ask("get", "", "secrets", namespace="a", name="s"), False),
    (Caller("system:node:n", ("system:nodes",)), ask("list", "", "configmaps", namespace="a"), False),
]


def _defaults() -> Authorizer:
    roles = [role(name, *rules) for name, rules in DEFAULT_ROLES.items()]
    bindings = [binding(name, to, *map(group, groups)) for name, (to, groups) in DEFAULT_BINDINGS.items()]
    people = [binding(name, name, user(name), namespace="a") for name in ("view", "edit", "admin")]
    return authorizer(*roles, *bindings, *people, binding("root", "cluster-admin", user("root")))


@pytest.mark.parametrize(("caller", "asked", "allowed"), DEFAULTS)
def test_the_default_roles_allow_what_they_are_for(caller: Caller, asked: Attributes, allowed: bool) -> None:
    assert _defaults().allows(caller, asked) is allowed


@pytest.mark.parametrize(
    ("name", "verbs", "resources", "not_verbs", "not_resources"),
    [
        ("view", "get list watch", "configmaps serviceaccounts pods services deployments.apps baremetalhosts.metal3.io",
         "create update patch delete deletecollection", "secrets roles.rbac.authorization.k8s.io nodes"),
        ("edit", "get list watch create update patch delete deletecollection", "configmaps secrets baremetalhosts.metal3.io",
         "escalate impersonate", "roles.rbac.authorization.k8s.io rolebindings.rbac.authorization.k8s.io nodes"),
        ("admin", "get list watch create update patch delete", "secrets roles.rbac.authorization.k8s.io", "escalate bind",
         "nodes clusterroles.rbac.authorization.k8s.io certificatesigningrequests.certificates.k8s.io"),
    ],
)  # fmt: skip
def test_people_have_their_roles_in_their_namespace(
    name: str, verbs: str, resources: str, not_verbs: str, not_resources: str
) -> None:
    found, caller = _defaults(), Caller(name)

    def may(verb: str, resource: str, namespace: str = "a") -> bool:
        plural, _, where = resource.partition(".")
        return found.allows(caller, ask(verb, where, plural, namespace=namespace))

    for resource in resources.split():
        assert all(may(verb, resource) for verb in verbs.split()), resource
        assert not any(may(verb, resource) for verb in not_verbs.split()), resource
        assert not any(may(verb, resource, "b") or may(verb, resource, "") for verb in verbs.split()), resource
    for resource in not_resources.split():
        assert not any(may(verb, resource) for verb in (verbs + " " + not_verbs).split()), resource


def test_a_cluster_admin_may_everything() -> None:
    assert _defaults().allows(Caller("root"), ask("x", "y", "z")) and _defaults().allows(
        Caller("root"), url("post", "/x")
    )
