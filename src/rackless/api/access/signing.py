"""Certificate signing requests: whether one can be read, and its certificate once it is approved.

Signed are the signers whose purpose is fixed: kubelet clients, kubelet serving, and any client of this API. Other
signers are left to whoever watches them.
"""

from __future__ import annotations

import base64
import binascii

from cryptography import x509
from cryptography.x509.oid import NameOID

from rackless.api.access.pki import Authority
from rackless.api.status import Json

_CLIENT = "kubernetes.io/kube-apiserver-client"
_KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
_KUBELET_SERVING = "kubernetes.io/kubelet-serving"
SIGNERS = (_CLIENT, _KUBELET_CLIENT, _KUBELET_SERVING)


def request_problem(encoded: str) -> str:
    """Why the request cannot be read, or nothing."""
    try:
        request = x509.load_pem_x509_csr(base64.b64decode(encoded, validate=True))
        if not request.is_signature_valid:
            return "the signature of the request is not valid"
    except (ValueError, binascii.Error, TypeError) as error:
        return f"PEM block type must be CERTIFICATE REQUEST: {error}"
    return ""


def _organizations(request: x509.CertificateSigningRequest) -> set[str]:
    return {str(a.value) for a in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}


def _common_name(request: x509.CertificateSigningRequest) -> str:
    found = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def refusal(signer: str, request: x509.CertificateSigningRequest, usages: list[str]) -> str:
    """Why this signer does not sign such a request, or nothing."""
    allowed = {"digital signature", "key encipherment"}
    if signer == _KUBELET_SERVING:
        if set(usages) - allowed - {"server auth"} or "server auth" not in usages:
            return "usages did not match the signer's: server auth"
    elif set(usages) - allowed - {"client auth"} or "client auth" not in usages:
        return "usages did not match the signer's: client auth"
    if signer in (_KUBELET_CLIENT, _KUBELET_SERVING):
        if _organizations(request) != {"system:nodes"}:
            return "subject organization is not system:nodes"
        if not _common_name(request).startswith("system:node:"):
            return "subject common name does not begin with system:node:"
    elif "system:masters" in _organizations(request):
        return "subject organization may not be system:masters"
    return ""


def certificate_for(authority: Authority, request_object: Json) -> tuple[str, str]:
    """(certificate in base64, "") or ("", why not)."""
    spec = request_object["spec"]
    request = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
    signer, usages = spec["signerName"], spec.get("usages") or []
    if problem := refusal(signer, request, usages):
        return "", problem
    names = None
    if signer == _KUBELET_SERVING:
        try:
            names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return "", "the request has no subject alternative names"
    pem = authority.sign(
        request.public_key(),
        request.subject,
        names=names,
        client="client auth" in usages,
        server="server auth" in usages,
        seconds=spec.get("expirationSeconds") or 365 * 86400,
    )
    return base64.b64encode(pem).decode(), ""
