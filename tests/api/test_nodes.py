"""What nodes may do, and what they may not do to each other."""

# ruff: noqa: E501 (tables)

from __future__ import annotations

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rackless.api.access import nodes
from rackless.api.access.attributes import Attributes
from rackless.api.kinds.access import LEASE
from rackless.api.kinds.certificates import CERTIFICATE_REQUEST
from rackless.api.kinds.core import CONFIG_MAP, NODE
from rackless.api.kinds.kind import Caller, Kind, Writing
from rackless.api.status import RequestRefused

from .conftest import Json

N1 = Caller("system:node:n1", ("system:nodes", "system:authenticated"))
_KEY = ec.generate_private_key(ec.SECP256R1())


def request(*subject: tuple[x509.ObjectIdentifier, str], names: list[x509.GeneralName] | None = None) -> str:
    """A certificate request, as it stands in an object."""
    attributes = [x509.NameAttribute(kind, value) for kind, value in subject]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    pem = builder.sign(_KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return base64.b64encode(pem).decode()


@pytest.mark.parametrize(
    ("caller", "node"),
    [
        (N1, "n1"),
        (Caller("system:node:n1"), None),
        (Caller("system:node:n1", ("system:node",)), None),
        (Caller("n1", ("system:nodes",)), None),
        (Caller("x-system:node:n1", ("system:nodes",)), None),
        (Caller("system:node:", ("system:nodes",)), ""),
    ],
)
def test_a_node_is_known_by_its_name_and_its_group(caller: Caller, node: str | None) -> None:
    assert nodes.node_of(caller) == node


LEASES = "coordination.k8s.io"
ASKED: list[tuple[Attributes, bool]] = [
    (Attributes("get", "", "nodes", name="n1"), True),
    (Attributes("list", "", "nodes", name="n1"), True),
    (Attributes("watch", "", "nodes", name="n1"), True),
    (Attributes("get", "", "nodes", name="n2"), False),
    (Attributes("list", "", "nodes"), False),
    (Attributes("create", "", "nodes"), True),
    (Attributes("update", "", "nodes", name="n1"), True),
    (Attributes("patch", "", "nodes", "status", name="n1"), True),
    (Attributes("update", "", "nodes", "status", name="n1"), True),
    (Attributes("get", "", "nodes", "status", name="n1"), False),
    (Attributes("update", "", "nodes", "proxy", name="n1"), False),
    (Attributes("delete", "", "nodes", name="n1"), False),
    (Attributes("get", "x", "nodes", name="n1"), False),
    *(
        (Attributes(verb, LEASES, "leases", "", "kube-node-lease", "n1"), True)
        for verb in ("get", "update", "patch", "delete")
    ),
    (Attributes("create", LEASES, "leases", "", "kube-node-lease"), True),
    (Attributes("create", LEASES, "leases", "", "default"), False),
    (Attributes("get", LEASES, "leases", "", "kube-node-lease", "n2"), False),
    (Attributes("get", LEASES, "leases", "", "default", "n1"), False),
    (Attributes("list", LEASES, "leases", "", "kube-node-lease", "n1"), False),
    (Attributes("get", LEASES, "leases", "status", "kube-node-lease", "n1"), False),
    *(
        (Attributes(verb, group, "events", namespace="a"), True)
        for verb in ("create", "patch", "update")
        for group in ("", "events.k8s.io")
    ),
    (Attributes("delete", "", "events", namespace="a"), False),
    (Attributes("list", "", "pods"), True),
    (Attributes("create", "", "pods"), False),
    (Attributes("watch", "", "services"), True),
    (Attributes("create", "certificates.k8s.io", "certificatesigningrequests"), True),
    (Attributes("get", "certificates.k8s.io", "certificatesigningrequests", name="x"), True),
    (Attributes("update", "certificates.k8s.io", "certificatesigningrequests", "approval"), False),
    (Attributes("create", "authentication.k8s.io", "tokenreviews"), True),
    (Attributes("create", "authorization.k8s.io", "subjectaccessreviews"), True),
    (Attributes("create", "authorization.k8s.io", "localsubjectaccessreviews", namespace="a"), True),
    (Attributes("get", "", "secrets", namespace="a", name="s"), False),
    (Attributes("get", "", "configmaps", namespace="a", name="c"), False),
    (Attributes("create", "", "serviceaccounts", "token", "a", "x"), False),
    (Attributes("get", path="/metrics"), False),
]


@pytest.mark.parametrize(("asked", "allowed"), ASKED)
def test_a_node_may_do_what_a_kubelet_does(asked: Attributes, allowed: bool) -> None:
    assert nodes.allows(N1, asked) is allowed
    for stranger in (
        Caller("system:node:n1"),
        Caller("n1", ("system:nodes",)),
        Caller("system:node:", ("system:nodes",)),
    ):
        assert not nodes.allows(stranger, asked)


REFUSED: list[tuple[Attributes, str]] = [
    (Attributes("update", "", "nodes", name="n2"), 'node "n1" is not allowed to modify node "n2"'),
    (Attributes("patch", "", "nodes", "status", name="n2"), 'node "n1" is not allowed to modify node "n2"'),
    (Attributes("delete", "", "nodes", name="n2"), 'node "n1" is not allowed to modify node "n2"'),
    (Attributes("deletecollection", "", "nodes"), 'node "n1" is not allowed to modify node ""'),
    (Attributes("update", LEASES, "leases", "", "default", "n1"), 'can only access leases in the "kube-node-lease" system namespace'),
    (Attributes("create", LEASES, "leases", "", "default"), 'can only access leases in the "kube-node-lease" system namespace'),
    *((Attributes(verb, LEASES, "leases", "", "kube-node-lease", "n2"), "can only access node lease with the same name as the requesting node")
      for verb in ("update", "patch", "delete")),
    (Attributes("deletecollection", LEASES, "leases", "", "kube-node-lease"), "can only access node lease with the same name"),
    (Attributes("create", "", "serviceaccounts", "token", "a", "x"), 'node "n1" requested a token not bound to a pod'),
]  # fmt: skip
PASSED = [
    Attributes("update", "", "nodes", name="n1"), Attributes("create", "", "nodes"), Attributes("get", "", "nodes", name="n2"),
    Attributes("update", "apps", "nodes", name="n2"), Attributes("get", LEASES, "leases", "", "default", "x"),
    Attributes("create", LEASES, "leases", "", "kube-node-lease"), Attributes("update", LEASES, "leases", "", "kube-node-lease", "n1"),
    Attributes("create", "", "serviceaccounts", "", "a"), Attributes("update", "", "leases", "", "a", "x"),
    Attributes("create", "", "configmaps", "token", "a", "x"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "why"), REFUSED)
def test_a_node_does_nothing_to_another_whatever_it_was_granted(asked: Attributes, why: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        nodes.check_request(N1, asked)
    assert caught.value.code == 403 and why in caught.value.message
    nodes.check_request(Caller("n1", ("system:nodes",)), asked)  # no node: RBAC alone decides


@pytest.mark.parametrize("asked", PASSED)
def test_other_requests_of_a_node_are_left_to_its_rights(asked: Attributes) -> None:
    nodes.check_request(N1, asked)


def node(name: str = "n1", **labels: str) -> Json:
    found: Json = {"metadata": {"name": name}, "spec": {}, "status": {}}
    if labels:
        found["metadata"]["labels"] = labels
    return found


def labelled(*keys: str) -> Json:
    return node(**dict.fromkeys(keys, "x"))


def lease(name: str, namespace: str) -> Json:
    return {"metadata": {"name": name, "namespace": namespace}}


def csr(cn: str, signer: str = "kubernetes.io/kubelet-serving") -> Json:
    spec = {"signerName": signer, "request": request((NameOID.COMMON_NAME, cn))}
    return {"metadata": {"name": "c"}, "spec": spec}


def tainted(**taint: str) -> Json:
    return {**node(), "spec": {"taints": [taint]}}


def owned() -> Json:
    return {**node(), "metadata": {"name": "n1", "ownerReferences": [{"uid": "1"}]}}


WRITES: list[tuple[Kind, Json, Json | None, str]] = [
    (NODE, node(), None, ""),
    (NODE, tainted(key="a"), None, ""),
    (NODE, node("n2"), None, 'node "n1" is not allowed to modify node "n2"'),
    (NODE, node("n2"), node("n2"), 'node "n1" is not allowed to modify node "n2"'),
    *((NODE, labelled(key), old, "") for key in (
        "mine", "example.com/x", "kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "topology.kubernetes.io/zone",
        "node.kubernetes.io/instance-type", "node.kubernetes.io/any", "kubelet.kubernetes.io/any", "a.kubelet.kubernetes.io/any",
        "beta.kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type", "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone", "xk8s.io/a") for old in (None, node())),
    *((NODE, labelled(key), None, f'node "n1" is not allowed to set the following labels: {key}') for key in (
        "node-restriction.kubernetes.io/a", "x.node-restriction.kubernetes.io/a", "node-role.kubernetes.io/master",
        "kubernetes.io/role", "k8s.io/a", "x.k8s.io/a", "xnode.kubernetes.io/a")),
    (NODE, labelled("node-role.kubernetes.io/a"), node(), 'node "n1" is not allowed to modify labels: node-role.kubernetes.io/a'),
    (NODE, node(), labelled("k8s.io/b", "k8s.io/a"), 'node "n1" is not allowed to modify labels: k8s.io/a, k8s.io/b'),
    (NODE, node(**{"k8s.io/a": "1"}), node(**{"k8s.io/a": "2"}), 'node "n1" is not allowed to modify labels: k8s.io/a'),
    (NODE, labelled("k8s.io/a"), labelled("k8s.io/a"), ""),
    (NODE, tainted(key="a"), node(), 'node "n1" is not allowed to modify taints'),
    (NODE, node(), tainted(key="a"), 'node "n1" is not allowed to modify taints'),
    (NODE, tainted(key="a"), tainted(key="b"), 'node "n1" is not allowed to modify taints'),
    (NODE, tainted(key="a"), tainted(key="a"), ""),
    (NODE, owned(), node(), 'node "n1" is not allowed to modify ownerReferences'),
    (NODE, node(), owned(), 'node "n1" is not allowed to modify ownerReferences'),
    (NODE, owned(), owned(), ""),
    (LEASE, lease("n1", "kube-node-lease"), None, ""),
    (LEASE, lease("n2", "kube-node-lease"), None, "can only access node lease with the same name as the requesting node"),
    (LEASE, lease("n1", "default"), None, 'can only access leases in the "kube-node-lease" system namespace'),
    (LEASE, lease("n1", "default"), lease("n1", "default"), 'can only access leases in the "kube-node-lease" system namespace'),
    (CERTIFICATE_REQUEST, csr("system:node:n1"), None, ""),
    (CERTIFICATE_REQUEST, csr("system:node:n2"), None, "can only create a node CSR with CN=system:node:n1"),
    (CERTIFICATE_REQUEST, csr("system:node:n2", "kubernetes.io/kube-apiserver-client-kubelet"), None, "can only create a node CSR"),
    (CERTIFICATE_REQUEST, csr("x", "kubernetes.io/kube-apiserver-client"), None, ""),
    (CERTIFICATE_REQUEST, csr("system:node:n2"), csr("system:node:n2"), ""),
    (CONFIG_MAP, {"metadata": {"name": "c", "namespace": "a"}}, None, ""),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "new", "old", "why"), WRITES)
def test_a_node_writes_only_what_is_its_own(kind: Kind, new: Json, old: Json | None, why: str) -> None:
    def check(caller: Caller) -> str:
        try:
            nodes.check_write(kind, Writing(new, old, caller, "now"))
        except RequestRefused as refused:
            assert refused.code == 403
            return refused.message
        return ""

    found = check(N1)
    assert found.endswith(f"is forbidden: {why}") or (why and why in found) if why else not found, found
    assert check(Caller("somebody", ("system:nodes",))) == ""
    assert "could not determine node from user" in check(Caller("system:node:", ("system:nodes",)))
