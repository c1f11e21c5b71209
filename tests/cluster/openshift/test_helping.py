"""What helps a real install: which hosts are merely slow, whose request is a server's own, and when an installer only ran out of
patience."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rackless.cluster.openshift.helping import BOOTSTRAPPER, CLIENT, SERVING, of_a_server, slow_hosts, waits_again

SERVERS = {"ctrl-0": ["ctrl-0", "ctrl-0.lab.rackless.test", "192.168.111.20"], "worker-0": ["worker-0"]}


def host(name: str, error: str = "", count: int = 1) -> dict[str, Any]:
    status = {"operationalStatus": "error" if error else "OK", "errorMessage": error, "errorCount": count}
    return {"metadata": {"name": name}, "status": {**status, "provisioning": {"state": "inspecting"}}}


def request(name: str, *alternatives: str, organization: str = "system:nodes", **spec: Any) -> dict[str, Any]:
    names = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
        x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{name}"),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(one) for one in alternatives]), False)
    signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    packed = base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
    return {
        "metadata": {"name": "csr-1"},
        "spec": {"request": packed, "signerName": CLIENT, "username": BOOTSTRAPPER, **spec},
    }


def test_only_hosts_of_the_lab_whose_error_is_a_timeout_are_slow() -> None:
    seen = [
        host("ctrl-0", "Timeout reached while inspecting the node", 3), host("worker-0", "the BMC refuses the account"),
        host("stranger", "timed out"), host("ctrl-1"),
    ]  # fmt: skip
    (found,) = slow_hosts(seen, SERVERS)
    assert (found.server, found.state, found.tries) == ("ctrl-0", "inspecting", 3)


@pytest.mark.parametrize(("asked", "server"), [
    (request("ctrl-0"), "ctrl-0"),
    (request("ctrl-0.lab.rackless.test", username="system:node:ctrl-0.lab.rackless.test"), "ctrl-0"),
    (request("stranger"), ""),
    (request("ctrl-0", organization="system:masters"), ""),
    (request("ctrl-0", username="system:node:worker-0"), ""),
    (request("ctrl-0", "ctrl-0", signerName=SERVING, username="system:node:ctrl-0"), "ctrl-0"),
    (request("ctrl-0", "ctrl-0", "api.lab.rackless.test", signerName=SERVING, username="system:node:ctrl-0"), ""),
    (request("ctrl-0", "ctrl-0", signerName=SERVING), ""),
    (request("ctrl-0", signerName="example.net/other"), ""),
    ({"spec": {"request": "bm90IG9uZQ=="}}, ""),
])  # fmt: skip
def test_a_request_is_a_servers_only_when_it_asks_for_itself(asked: dict[str, Any], server: str) -> None:
    assert of_a_server(asked, SERVERS) == server


@pytest.mark.parametrize(("code", "said", "waited", "again"), [
    (5, "Bootstrap failed to complete: timed out waiting for the condition", 0, True),
    (6, "failed to initialize the cluster: Working towards 5.0.0", 1, True),
    (6, "failed to initialize the cluster: Working towards 5.0.0", 2, False),
    (4, "timed out waiting for the pool", 0, False),
    (5, "no route to host", 0, False),
])  # fmt: skip
def test_an_installer_waits_again_only_when_its_patience_ended(code: int, said: str, waited: int, again: bool) -> None:
    assert waits_again(code, said, waited) is again
