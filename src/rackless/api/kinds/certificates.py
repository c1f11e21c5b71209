"""CertificateSigningRequest: the server fills in the requesting user, and an approval or denial stays.

`access.signing` says which subjects are signed, `access.escalation` who may decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rackless.api.kinds.kind import Column, Kind, Version, Writing
from rackless.api.kinds.shapes import BYTES, CONDITIONS, INT, TEXT, items, mapping, obj, root
from rackless.api.kinds.tables import AGE, NAME, duration
from rackless.api.status import Cause, Json, forbidden_field, invalid_value, required, unsupported
from rackless.trust.requests import request_problem


def _prepare_request(writing: Writing) -> None:
    """Who asks is the server's to say; the request itself never changes; approval and signing each touch their part."""
    new, old = writing.new, writing.old
    if old is None:
        spec = new.get("spec")
        if isinstance(spec, dict):
            for optional in ("uid", "extra"):  # name and groups are in every caller's information
                spec.pop(optional, None)
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
        if isinstance(spec.get("expirationSeconds"), int | float) and spec["expirationSeconds"] < 600:
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
    found.extend(_condition_problems(writing))
    before, after = ((each or {}).get("status") or {} for each in (writing.old, writing.new))
    if before.get("certificate") and before["certificate"] != after.get("certificate"):
        found.append(forbidden_field("status.certificate", "updates may not modify existing certificate content"))
    return found


def _condition_problems(writing: Writing) -> Iterator[Cause]:
    """What was decided stays decided."""
    before, after = (((each or {}).get("status") or {}).get("conditions") or [] for each in (writing.old, writing.new))
    for index, condition in enumerate(after):
        at = f"status.conditions[{index}]"
        if not condition.get("type"):
            yield required(f"{at}.type")
        if condition.get("type") in _FINAL and condition.get("status") != "True":
            yield unsupported(f"{at}.status", condition.get("status", ""), ["True"])
    for kind in _FINAL:
        old, new = ([_decision(c) for c in each if c.get("type") == kind] for each in (before, after))
        if old and not new:
            yield forbidden_field("status.conditions", f'updates may not remove a condition of type "{kind}"')
        elif old and old != new:
            yield forbidden_field("status.conditions", f'updates may not modify a condition of type "{kind}"')


_FINAL = ("Approved", "Denied", "Failed")


def _decision(condition: Json) -> tuple[Any, ...]:
    return tuple(condition.get(field) for field in ("status", "reason", "message"))


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
