"""Certificate signing requests: made with a key of one's own, and read whole before anybody decides about them.

Who may ask for what is decided elsewhere (`api.access.signing`).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from rackless.trust.authority import alternative_names, subject_name
from rackless.trust.keys import PrivateKey

_WORDS: dict[type[x509.GeneralName], str] = {
    x509.DNSName: "DNS",
    x509.IPAddress: "IP",
    x509.RFC822Name: "Email",
    x509.UniformResourceIdentifier: "URI",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for, read whole: nothing of it is found unreadable later."""

    request: x509.CertificateSigningRequest
    names: tuple[str, ...]
    organizations: tuple[str, ...]
    alternatives: x509.SubjectAlternativeName | None

    @property
    def name(self) -> str:
        return self.names[0] if self.names else ""

    def kinds_of_alternatives(self) -> set[str]:
        return {_WORDS.get(type(each), "Other") for each in self.alternatives or ()}


def make_request(key: PrivateKey, user: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> str:
    """As `spec.request` of a CertificateSigningRequest has it: PEM in base64."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject_name(user, groups))
    if names := alternative_names(hosts):
        builder = builder.add_extension(names, critical=False)
    return base64.b64encode(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)).decode()


def read_request(encoded: str) -> Asked:
    """Raises ValueError when a request cannot be read, or could be read in two ways."""
    try:
        request = x509.load_pem_x509_csr(base64.b64decode(encoded, validate=True))
        if not request.is_signature_valid:
            raise ValueError("the signature of the request is not valid")
        request.public_key()
        asked = Asked(
            request,
            _texts(request.subject, NameOID.COMMON_NAME),
            _texts(request.subject, NameOID.ORGANIZATION_NAME),
            _alternatives(request),
        )
    except (
        ValueError,
        TypeError,
        UnsupportedAlgorithm,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise ValueError(f"PEM block type must be CERTIFICATE REQUEST: {error}") from error
    if len(asked.names) > 1:
        raise ValueError("the subject has more than one common name")
    return asked


def request_problem(encoded: str) -> str:
    """Why the request cannot be read, or nothing."""
    try:
        read_request(encoded)
    except ValueError as error:
        return str(error)
    return ""


def _texts(subject: x509.Name, attribute: x509.ObjectIdentifier) -> tuple[str, ...]:
    return tuple(str(each.value) for each in subject.get_attributes_for_oid(attribute))


def _alternatives(request: x509.CertificateSigningRequest) -> x509.SubjectAlternativeName | None:
    try:
        return request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
