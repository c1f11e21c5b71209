"""Certificate requests: what is refused when it is asked, what is refused when it would be signed, who decides."""

from __future__ import annotations

import base64
import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rackless.api.access.attributes import Attributes
from rackless.api.access.authentication import from_certificate
from rackless.api.access.escalation import Guard
from rackless.api.access.keys import ensure_authority
from rackless.api.access.signing import certificate_for, refusal
from rackless.api.kinds.certificates import CERTIFICATE_REQUEST
from rackless.api.kinds.kind import Caller, Writing
from rackless.api.objects.writes import Context, create, replace
from rackless.api.status import RequestRefused
from rackless.trust.authority import Authority
from rackless.trust.requests import read_request, request_problem

from .conftest import Json
from .test_nodes import request

CN, ORG = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME
CLIENT, KUBELET, SERVING = (
    "kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving",
)  # fmt: skip
NODE = ((ORG, "system:nodes"), (CN, "system:node:n1"))
DNS, IP = x509.DNSName("n1"), x509.IPAddress(ip_address("192.0.2.1"))
URI, MAIL = x509.UniformResourceIdentifier("spiffe://x"), x509.RFC822Name("a@example.com")
SIGN, WRAP, FOR_CLIENTS, FOR_SERVERS = "digital signature", "key encipherment", "client auth", "server auth"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return ensure_authority(tmp_path_factory.mktemp("pki"))


def test_a_subject_names_one_user(authority: Authority) -> None:
    """Two names: one was checked when the request was signed, the other was believed when the certificate was shown."""
    two = request((ORG, "system:nodes"), (CN, "system:node:n1"), (CN, "system:admin"))
    assert "more than one common name" in request_problem(two)
    assert "more than one common name" in certificate_for(authority, asked(two, KUBELET))[1]
    for subject in (
        ((("commonName", "a"),), (("commonName", "b"),)),
        ((("commonName", "a"), ("commonName", "a")),),
    ):
        with pytest.raises(RequestRefused) as caught:
            from_certificate({"subject": subject})
        assert caught.value.code == 401


@pytest.mark.parametrize(
    ("subject", "name", "groups"),
    [
        (((("commonName", "bob"),),), "bob", ()),
        (((("organizationName", "a"),), (("commonName", "bob"),), (("organizationName", "b"),)), "bob", ("a", "b")),
        (((("organizationName", "a"), ("commonName", "bob")),), "bob", ("a",)),
        (((("organizationName", "a"),),), None, ()),
        (((("commonName", ""),),), None, ()),
        ((), None, ()),
    ],
)
def test_a_certificate_names_a_user_and_groups(subject: Any, name: str | None, groups: tuple[str, ...]) -> None:
    found = from_certificate({"subject": subject})
    assert found == (Caller(name, (*groups, "system:authenticated")) if name else None)
    assert from_certificate(None) is None and from_certificate({}) is None


def asked(encoded: str, signer: str = CLIENT, usages: tuple[str, ...] = (), **more: Any) -> Json:
    usages = usages or (SIGN, WRAP, FOR_SERVERS if signer == SERVING else FOR_CLIENTS)
    return {
        "metadata": {"name": "c"},
        "spec": {"request": encoded, "signerName": signer, "usages": list(usages), **more},
    }


SIGNED: list[tuple[str, Json, str]] = [
    ("a client", asked(request((CN, "bob"))), ""),
    ("a client without key encipherment", asked(request((CN, "bob")), usages=(FOR_CLIENTS,)), ""),
    ("a client that serves", asked(request((CN, "bob")), usages=(FOR_CLIENTS, FOR_SERVERS)), "usages did not match"),
    ("a client without client auth", asked(request((CN, "bob")), usages=(SIGN,)), "usages did not match"),
    ("a master", asked(request((ORG, "system:masters"), (CN, "bob"))), "may not be system:masters"),
    (
        "a master among others",
        asked(request((ORG, "a"), (ORG, "system:masters"), (CN, "bob"))),
        "may not be system:masters",
    ),
    ("a node", asked(request(*NODE), KUBELET), ""),
    ("a node without key encipherment", asked(request(*NODE), KUBELET, (SIGN, FOR_CLIENTS)), ""),
    ("a node without signatures", asked(request(*NODE), KUBELET, (WRAP, FOR_CLIENTS)), "usages did not match"),
    ("a node that serves", asked(request(*NODE), KUBELET, (SIGN, FOR_SERVERS)), "usages did not match"),
    ("a node of no group", asked(request((CN, "system:node:n1")), KUBELET), "subject organization is not system:nodes"),
    ("a node of two groups", asked(request(*NODE, (ORG, "x")), KUBELET), "subject organization is not system:nodes"),
    (
        "a node of its group twice",
        asked(request(*NODE, (ORG, "system:nodes")), KUBELET),
        "subject organization is not system:nodes",
    ),
    ("no node", asked(request((ORG, "system:nodes"), (CN, "bob")), KUBELET), "does not begin with system:node:"),
    (
        "a nameless node",
        asked(request((ORG, "system:nodes"), (CN, "system:node:")), KUBELET),
        "does not begin with system:node:",
    ),
    ("a node with a DNS name", asked(request(*NODE, names=[DNS]), KUBELET), "DNS subjectAltNames are not allowed"),
    ("a node with an address", asked(request(*NODE, names=[IP]), KUBELET), "IP subjectAltNames are not allowed"),
    ("a node with a mail", asked(request(*NODE, names=[MAIL]), KUBELET), "Email subjectAltNames are not allowed"),
    ("a node with a URI", asked(request(*NODE, names=[URI]), KUBELET), "URI subjectAltNames are not allowed"),
    ("a kubelet", asked(request(*NODE, names=[DNS, IP]), SERVING), ""),
    ("a kubelet by name", asked(request(*NODE, names=[DNS]), SERVING, (SIGN, FOR_SERVERS)), ""),
    ("a kubelet by address", asked(request(*NODE, names=[IP]), SERVING), ""),
    ("a kubelet without names", asked(request(*NODE), SERVING), "DNS or IP subjectAltName is required"),
    (
        "a kubelet with a mail only",
        asked(request(*NODE, names=[MAIL]), SERVING),
        "DNS or IP subjectAltName is required",
    ),
    (
        "a kubelet with a mail",
        asked(request(*NODE, names=[DNS, MAIL]), SERVING),
        "Email subjectAltNames are not allowed",
    ),
    ("a kubelet with a URI", asked(request(*NODE, names=[URI, IP]), SERVING), "URI subjectAltNames are not allowed"),
    (
        "a kubelet with another name",
        asked(request(*NODE, names=[DNS, x509.RegisteredID(CN)]), SERVING),
        "Other subjectAltNames",
    ),
    (
        "a kubelet that is a client",
        asked(request(*NODE, names=[DNS]), SERVING, (SIGN, FOR_CLIENTS)),
        "usages did not match",
    ),
    (
        "a kubelet that is both",
        asked(request(*NODE, names=[DNS]), SERVING, (SIGN, FOR_CLIENTS, FOR_SERVERS)),
        "usages did not match",
    ),
    (
        "a kubelet of no group",
        asked(request((CN, "system:node:n1"), names=[DNS]), SERVING),
        "organization is not system:nodes",
    ),
    (
        "a kubelet without a node",
        asked(request((ORG, "system:nodes"), (CN, "n1"), names=[DNS]), SERVING),
        "does not begin with",
    ),
]


@pytest.mark.parametrize(("what", "obj", "why"), SIGNED, ids=[what for what, _, _ in SIGNED])
def test_each_signer_signs_its_own_and_nothing_else(authority: Authority, what: str, obj: Json, why: str) -> None:
    encoded, problem = certificate_for(authority, obj)
    signer, usages = obj["spec"]["signerName"], obj["spec"]["usages"]
    assert refusal(signer, read_request(obj["spec"]["request"]), usages) == problem  # an empty text, not nothing
    assert (why in problem and bool(problem) is bool(why)) and bool(encoded) is not bool(problem)
    if not encoded:
        return
    certificate = x509.load_pem_x509_certificate(base64.b64decode(encoded))
    spec = obj["spec"]
    assert certificate.subject == read_request(spec["request"]).request.subject
    uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    wanted = x509.ExtendedKeyUsageOID if hasattr(x509, "ExtendedKeyUsageOID") else x509.oid.ExtendedKeyUsageOID
    assert list(uses) == [wanted.SERVER_AUTH if spec["signerName"] == SERVING else wanted.CLIENT_AUTH]
    shown = [e for e in certificate.extensions if isinstance(e.value, x509.SubjectAlternativeName)]
    assert bool(shown) is (spec["signerName"] == SERVING)


@pytest.mark.parametrize(("seconds", "wanted"), [(600, 600), (86400, 86400), (None, 365 * 86400)])
def test_a_certificate_is_good_as_long_as_was_asked(authority: Authority, seconds: int | None, wanted: int) -> None:
    encoded, _ = certificate_for(authority, asked(request((CN, "bob")), expirationSeconds=seconds))
    until = x509.load_pem_x509_certificate(base64.b64decode(encoded)).not_valid_after_utc
    left = (until - datetime.datetime.now(datetime.UTC)).total_seconds()
    assert wanted - 300 < left <= wanted


def _unreadable() -> str:
    """A request whose alternative names are no names."""
    key = ec.generate_private_key(ec.SECP256R1())
    odd = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.17"), b"\x30\x03\x82\x01\xff")
    name = x509.Name([x509.NameAttribute(CN, "bob")])
    made = x509.CertificateSigningRequestBuilder().subject_name(name).add_extension(odd, critical=False)
    return base64.b64encode(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)).decode()


@pytest.mark.parametrize(
    "encoded",
    ["", "é", "x", base64.b64encode(b"hello").decode(), request((CN, "bob"))[:-40], _unreadable(),
     base64.b64encode(base64.b64decode(request((CN, "bob"))).replace(b"MI", b"MJ", 1)).decode()],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_when_it_is_asked_and_not_signed_when_it_is_stored(
    authority: Authority, encoded: str
) -> None:
    assert request_problem(encoded)
    certificate, problem = certificate_for(authority, asked(encoded))
    assert not certificate and problem


# -- The object -------------------------------------------------------------------------------------------------------


ROOT = Caller("root", ("system:masters",))


def context(caller: Caller = ROOT) -> Context:
    return Context(caller, "2024-01-01T00:00:00Z")


def made(**spec: Any) -> Json:
    return create(CERTIFICATE_REQUEST, CERTIFICATE_REQUEST.storage, asked(request((CN, "bob")), **spec), "", context())


def changed(old: Json, subresource: str, **status: Any) -> Json:
    old = {**old, "metadata": {**old["metadata"], "resourceVersion": "1"}}
    body = {"metadata": {"name": "c"}, "spec": asked(request((CN, "other")))["spec"], "status": status}
    return replace(CERTIFICATE_REQUEST, CERTIFICATE_REQUEST.storage, old, body, "", subresource, context()).obj


def condition(kind: str, status: str = "True", reason: str = "r") -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": "m"}


def test_who_asks_is_the_servers_to_say() -> None:
    caller = Caller("bob", ("devs",), "7", {"k": ("v",)})
    body = asked(request((CN, "x")), username="root", groups=["system:masters"], uid="0", extra={"a": ["b"]})
    body["status"] = {"conditions": [condition("Approved")], "certificate": "eA=="}
    found = create(CERTIFICATE_REQUEST, CERTIFICATE_REQUEST.storage, body, "", context(caller))
    assert {k: found["spec"][k] for k in ("username", "groups", "uid", "extra")} == {
        "username": "bob", "groups": ["devs"], "uid": "7", "extra": {"k": ["v"]},
    }  # fmt: skip
    assert "status" not in found
    again = changed({**found, "spec": {**found["spec"]}}, "", certificate="eA==")
    assert again["spec"] == found["spec"] and "status" not in again


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"signer": ""}, "spec.signerName"),
        ({"signer": "plain"}, "spec.signerName"),
        ({"expirationSeconds": 599}, "spec.expirationSeconds"),
    ],
)
def test_a_request_says_what_it_wants(spec: Json, field: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        made(**spec)
    assert caught.value.details and field in {cause["field"] for cause in caught.value.details["causes"]}
    assert made(expirationSeconds=600)


def test_what_was_decided_stays_decided() -> None:
    fresh = made()
    approved = changed(fresh, "approval", conditions=[condition("Approved")])
    assert approved["status"]["conditions"][0]["lastUpdateTime"] == "2024-01-01T00:00:00Z"
    for old, subresource, conditions, why in (
        (approved, "approval", [], 'may not remove a condition of type "Approved"'),
        (
            approved,
            "approval",
            [condition("Approved", reason="other")],
            'may not modify a condition of type "Approved"',
        ),
        (approved, "approval", [condition("Approved"), condition("Denied")], "mutually exclusive"),
        (fresh, "approval", [condition("Denied", "False")], "Unsupported value"),
        (fresh, "approval", [condition("")], "Required value"),
        (
            changed(fresh, "status", conditions=[condition("Failed")]),
            "status",
            [],
            'may not remove a condition of type "Failed"',
        ),
    ):
        with pytest.raises(RequestRefused) as caught:
            changed(old, subresource, conditions=conditions)
        assert why in caught.value.message
    kept = changed(approved, "status", conditions=[condition("Denied")], certificate="eA==")["status"]
    assert [c["type"] for c in kept["conditions"]] == ["Approved"] and kept["certificate"] == "eA=="
    assert changed(fresh, "status", conditions=[condition("Approved")]).get("status") in (None, {}), (
        "approving is another door"
    )
    signed = changed(approved, "status", certificate="eA==")
    with pytest.raises(RequestRefused, match="may not modify existing certificate content"):
        changed(signed, "status", certificate="eQ==")
    assert (
        changed(signed, "approval", conditions=approved["status"]["conditions"], certificate="eQ==")["status"][
            "certificate"
        ]
        == "eA=="
    )


# -- Who decides ------------------------------------------------------------------------------------------------------


class Allowing:
    """An authorizer that allows a list."""

    def __init__(self, *allowed: tuple[str, str]) -> None:
        self.allowed = allowed

    def allows(self, caller: Caller, asked: Attributes) -> bool:
        if asked.verb == "create":
            return True
        assert (asked.group, asked.resource, asked.subresource, asked.namespace) == (
            "certificates.k8s.io",
            "signers",
            "",
            "",
        )
        return (asked.verb, asked.name) in self.allowed


def decided(subresource: str, *allowed: tuple[str, str], change: bool = True) -> str:
    old = {**made(), "status": {"conditions": [condition("Seen")]}}
    new = {**old, "status": {"conditions": [condition("Approved")]}} if change else old
    try:
        Guard(Allowing(*allowed))(CERTIFICATE_REQUEST, Writing(new, old, Caller("bob"), "now", subresource))  # type: ignore[arg-type]
    except RequestRefused as refused:
        assert refused.code == 403
        return refused.message
    return ""


@pytest.mark.parametrize(("subresource", "verb"), [("approval", "approve"), ("status", "sign")])
def test_deciding_and_signing_need_a_right_on_the_signer(subresource: str, verb: str) -> None:
    other = "sign" if verb == "approve" else "approve"
    assert decided(subresource, (verb, CLIENT)) == ""
    assert decided(subresource, (verb, "kubernetes.io/*")) == ""
    for allowed in ((other, CLIENT), (verb, SERVING), (verb, "example.com/*"), (verb, "*"), (verb, "")):
        assert f'user not permitted to {verb} requests with signerName "{CLIENT}"' in decided(subresource, allowed)
    assert decided("", ("none", "")) == ""


def test_a_status_that_does_not_change_needs_no_right() -> None:
    assert decided("status", change=False) == "" and decided("approval", change=False)


def test_nobody_becomes_all_powerful_by_a_certificate(tmp_path: Path) -> None:
    for signer, refused in ((CLIENT, True), ("example.com/own", False)):
        new = asked(request((ORG, "system:masters"), (CN, "bob")), signer)
        try:
            Guard(Allowing())(CERTIFICATE_REQUEST, Writing(new, None, Caller("bob"), "now"))  # type: ignore[arg-type]
            assert not refused
        except RequestRefused as error:
            assert refused and error.code == 403
            assert f"use of {CLIENT} signer with system:masters group is not allowed" in error.message
