"""The reviews: questions about access that are answered and never stored."""

from __future__ import annotations

from typing import Any

from rackless.api.access.authentication import Tokens
from rackless.api.access.rbac import Attributes, Authorizer
from rackless.api.kinds.kind import Caller, Kind
from rackless.api.status import Json, Refused, bad_request


def _attributes(spec: Json) -> Attributes:
    def text(value: Any) -> str:
        return value if isinstance(value, str) else ""

    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if isinstance(resource, dict):
        return Attributes(
            text(resource.get("verb")), text(resource.get("group")), text(resource.get("resource")),
            text(resource.get("subresource")), text(resource.get("namespace")), text(resource.get("name")),
        )  # fmt: skip
    if isinstance(path, dict):
        return Attributes(text(path.get("verb")), path=text(path.get("path")) or "/")
    raise bad_request("spec: exactly one of nonResourceAttributes or resourceAttributes must be specified")


def review(kind: Kind, body: Json, caller: Caller, authorizer: Authorizer, tokens: Tokens) -> Json:
    """The body with its status."""
    if not isinstance(body, dict) or not isinstance(body.get("spec") or {}, dict):
        raise bad_request("the review has no spec")
    spec: Json = body.get("spec") or {}
    answer: Json = {
        "kind": kind.kind, "apiVersion": kind.api_version("v1"), "metadata": {"creationTimestamp": None}, "spec": spec,
    }  # fmt: skip
    match kind.kind:
        case "SelfSubjectAccessReview":
            answer["status"] = _decision(authorizer, caller, _attributes(spec))
        case "SubjectAccessReview" | "LocalSubjectAccessReview":
            groups = tuple(str(group) for group in spec.get("groups") or ())
            answer["status"] = _decision(authorizer, Caller(str(spec.get("user", "")), groups), _attributes(spec))
        case "SelfSubjectRulesReview":
            answer["status"] = _rules(authorizer, caller, str(spec.get("namespace", "")))
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
    return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}


def _token(tokens: Tokens, token: str) -> Json:
    try:
        caller = tokens.caller(token)
    except Refused:
        return {"authenticated": False, "user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": caller.info()}
