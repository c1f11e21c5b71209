"""Certificates that somebody else has signed for the API's names, and clients of more CAs: what an installer's cluster has."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest

from rackless.api.access.keys import (
    CLIENTS,
    NAMED,
    client_authorities,
    ensure_authority,
    ensure_serving,
    named_certificates,
)
from rackless.api.edge.server import tls_context
from rackless.installer.assets.signing import KeyPair, make_authority, sign
from rackless.trust.authority import Use

NAME = "api.ostest.example.com"


@pytest.fixture(scope="module")
def theirs() -> KeyPair:
    return make_authority("theirs")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, theirs: KeyPair) -> Path:
    """The API's keys, with theirs beside them."""
    place = tmp_path_factory.mktemp("pki")
    (place / NAMED).mkdir()
    leaf = sign(theirs, NAME, [NAME], uses=(Use.SERVER,))
    (place / NAMED / "api.crt").write_text(leaf.certificate)
    (place / NAMED / "api.key").write_text(leaf.key)
    (place / NAMED / "half.crt").write_text(leaf.certificate)  # without its key it is left out
    (place / CLIENTS).write_text(theirs.certificate)
    return place


def speak(folder: Path, trusts: str, name: str, client: KeyPair | None, scratch: Path) -> str:
    """Who the server takes the client for, over one connection to it by this name."""
    own = ensure_authority(folder)
    serving = ensure_serving(own, ["localhost"])
    server = tls_context(
        serving.certificate, serving.key, own.certificate, named_certificates(folder), client_authorities(folder)
    )
    asking = ssl.create_default_context(cadata=trusts)
    if client is not None:
        (scratch / "client.pem").write_text(client.certificate + client.key)
        asking.load_cert_chain(scratch / "client.pem")
    near, far = socket.socketpair()

    def answer() -> None:
        try:
            with server.wrap_socket(far, server_side=True) as line:
                shown = dict(part[0] for part in (line.getpeercert() or {}).get("subject", ()))  # type: ignore[misc]
                line.sendall(str(shown.get("commonName", "nobody")).encode())
        except OSError:
            far.close()

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        with asking.wrap_socket(near, server_hostname=name) as line:
            try:
                return line.recv(100).decode()
            except OSError:  # a client learns only then that its certificate was refused
                return ""
    finally:
        near.close()
        thread.join()


def test_each_name_has_its_certificate_and_clients_of_both_cas_are_known(
    folder: Path, theirs: KeyPair, tmp_path: Path
) -> None:
    admin = sign(theirs, "system:admin", uses=(Use.CLIENT,))
    assert speak(folder, theirs.certificate, NAME, admin, tmp_path) == "system:admin"
    assert speak(folder, theirs.certificate, NAME.upper(), None, tmp_path) == "nobody"
    own = ensure_authority(folder).certificate.read_text()
    assert speak(folder, own, "localhost", admin, tmp_path) == "system:admin"
    with pytest.raises(ssl.SSLCertVerificationError):
        speak(folder, own, NAME, None, tmp_path)


def test_a_client_of_a_ca_that_is_in_neither_is_refused_by_every_name(
    folder: Path, theirs: KeyPair, tmp_path: Path
) -> None:
    stranger = sign(make_authority("a stranger"), "system:admin", uses=(Use.CLIENT,))
    own = ensure_authority(folder).certificate.read_text()
    for trusts, name in ((theirs.certificate, NAME), (own, "localhost")):
        assert speak(folder, trusts, name, stranger, tmp_path) == ""


def test_without_them_the_api_is_as_it_always_was(tmp_path: Path) -> None:
    assert named_certificates(tmp_path) == [] and client_authorities(tmp_path) is None
