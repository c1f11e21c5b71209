"""Certificate signing requests: which of them this API signs once somebody has approved them.

It signs for the signers whose purpose is fixed: kubelet clients, kubelet serving, and any client of this API. Requests for
other signers are left to the controllers that watch them. A subject names one user: a request with two common names is
refused here, a certificate with two in `authentication`.
"""

from __future__ import annotations

import base64
from datetime import timedelta

from rackless.api.status import Json
from rackless.trust.authority import YEAR, Authority, Use
from rackless.trust.requests import Asked, read_request

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
SIGNERS = (CLIENT, KUBELET_CLIENT, KUBELET_SERVING)
NODE_SIGNERS = (KUBELET_CLIENT, KUBELET_SERVING)


def common_name(encoded: str) -> str:
    """Who a readable request is for."""
    return read_request(encoded).name


def names_masters(signer: str, encoded: str) -> bool:
    """Whether the request would make its holder all-powerful, which no signer of ours does."""
    return signer == CLIENT and "system:masters" in read_request(encoded).organizations


def refusal(signer: str, asked: Asked, usages: list[str]) -> str:
    """Why this signer does not sign such a request, or nothing."""
    purpose = "server auth" if signer == KUBELET_SERVING else "client auth"
    needed = {"digital signature", purpose} if signer in NODE_SIGNERS else {purpose}
    if not needed <= set(usages) <= {"digital signature", "key encipherment", purpose}:
        return f"usages did not match the signer's: {', '.join(sorted(needed))}"
    if signer in NODE_SIGNERS:
        if asked.organizations != ("system:nodes",):
            return "subject organization is not system:nodes"
        if not asked.name.removeprefix("system:node:") or not asked.name.startswith("system:node:"):
            return "subject common name does not begin with system:node:"
        return _alternatives_refusal(signer, asked.kinds_of_alternatives())
    if "system:masters" in asked.organizations:
        return "subject organization may not be system:masters"
    return ""


def _alternatives_refusal(signer: str, found: set[str]) -> str:
    allowed = {"DNS", "IP"} if signer == KUBELET_SERVING else set[str]()
    if signer == KUBELET_SERVING and not found & allowed:
        return "DNS or IP subjectAltName is required"
    for word in sorted(found - allowed):
        return f"{word} subjectAltNames are not allowed"
    return ""


def certificate_for(authority: Authority, request_object: Json) -> tuple[str, str]:
    """(certificate in base64, "") or ("", why not)."""
    spec = request_object["spec"]
    signer, usages = spec["signerName"], spec.get("usages") or []
    try:
        asked = read_request(spec["request"])
    except ValueError as error:  # an earlier program accepted it
        return "", str(error)
    if problem := refusal(signer, asked, usages):
        return "", problem
    pem = authority.sign(
        asked.request.public_key(),
        asked.request.subject,
        names=asked.alternatives if signer == KUBELET_SERVING else None,
        uses=(Use.SERVER if signer == KUBELET_SERVING else Use.CLIENT,),
        lifetime=timedelta(seconds=seconds) if (seconds := spec.get("expirationSeconds")) else YEAR,
    )
    return base64.b64encode(pem).decode(), ""
