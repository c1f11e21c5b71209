"""The reviews: questions about access that are answered and never stored."""

from __future__ import annotations

from typing import Any

from rackless.api.access.attributes import Attributes
from rackless.api.access.authentication import Tokens
from rackless.api.access.nodes import node_of
from rackless.api.access.rbac import Authorizer
from rackless.api.kinds.kind import Caller, Kind
from rackless.api.status import Cause, Json, RequestRefused, bad_request, invalid


def _attributes(kind: Kind, namespace: str, spec: Json) -> Attributes:
    """What is asked about. A local review is about its own namespace, which it may say once more, and about resources."""

    def text(value: Any) -> str:
        return value if isinstance(value, str) else ""

    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if isinstance(resource, dict) is isinstance(path, dict):
        raise _invalid(
            kind,
            "spec.resourceAttributes",
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )
    if isinstance(resource, dict):
        if kind.namespaced and text(resource.get("namespace")) != namespace:
            raise bad_request(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
        return Attributes(
            text(resource.get("verb")), text(resource.get("group")), text(resource.get("resource")),
            text(resource.get("subresource")), text(resource.get("namespace")), text(resource.get("name")),
        )  # fmt: skip
    assert isinstance(path, dict)
    if kind.namespaced:
        raise _invalid(kind, "spec.nonResourceAttributes", "disallowed on this kind of request")
    return Attributes(text(path.get("verb")), path=text(path.get("path")) or "/")


def _invalid(kind: Kind, field: str, why: str) -> RequestRefused:
    return invalid(kind.kind, kind.group, "", [Cause(field, "FieldValueInvalid", f"Invalid value: {why}")])


def _subject(kind: Kind, spec: Json) -> Caller:
    name, groups = spec.get("user") or "", spec.get("groups") or ()
    if not isinstance(name, str) or not isinstance(groups, list | tuple) or not all(isinstance(g, str) for g in groups):
        raise bad_request("spec.user must be a string and spec.groups a list of strings")
    if not name and not groups:
        raise _invalid(kind, "spec.user", "at least one of user or group must be specified")
    return Caller(name, tuple(groups))


def review(kind: Kind, namespace: str, body: Json, caller: Caller, authorizer: Authorizer, tokens: Tokens) -> Json:
    """The body with its status; `namespace` is the request's."""
    if not isinstance(body, dict) or not isinstance(body.get("spec") or {}, dict):
        raise bad_request("the review has no spec")
    spec: Json = body.get("spec") or {}
    answer: Json = {
        "kind": kind.kind, "apiVersion": kind.api_version("v1"), "metadata": {"creationTimestamp": None}, "spec": spec,
    }  # fmt: skip
    match kind.kind:
        case "SelfSubjectAccessReview":
            answer["status"] = _decision(authorizer, caller, _attributes(kind, namespace, spec))
        case "SubjectAccessReview" | "LocalSubjectAccessReview":
            answer["status"] = _decision(authorizer, _subject(kind, spec), _attributes(kind, namespace, spec))
        case "SelfSubjectRulesReview":
            if not spec.get("namespace") or not isinstance(spec["namespace"], str):
                raise bad_request("no namespace on request")
            answer["status"] = _rules(authorizer, caller, spec["namespace"])
        case "TokenReview":
            answer["status"] = _token(tokens, str(spec.get("token", "")))
        case "SelfSubjectReview":
            answer.pop("spec")
            answer["status"] = {"userInfo": caller.info()}
    return answer


def _decision(authorizer: Authorizer, caller: Caller, asked: Attributes) -> Json:
    return {"allowed": True, "reason": "RBAC"} if authorizer.allows(caller, asked) else {"allowed": False}


def _rules(authorizer: Authorizer, caller: Caller, namespace: str) -> Json:
    rules = list(authorizer.rules(caller, namespace))
    if "system:masters" in caller.groups:
        rules.insert(0, {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
        rules.insert(1, {"verbs": ["*"], "nonResourceURLs": ["*"]})
    paths = [{"verbs": r["verbs"], "nonResourceURLs": r["nonResourceURLs"]} for r in rules if r.get("nonResourceURLs")]
    resources = [
        {key: r[key] for key in ("verbs", "apiGroups", "resources", "resourceNames") if r.get(key)}
        for r in rules
        if r.get("resources")
    ]
    found: Json = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
    if node_of(caller) is not None:
        found |= {"incomplete": True, "evaluationError": "node authorizer does not support user rule resolution"}
    return found


def _token(tokens: Tokens, token: str) -> Json:
    try:
        caller = tokens.caller(token)
    except RequestRefused:
        return {"authenticated": False, "user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": caller.info()}
