"""A certificate authority in a folder, and the certificates it signs.

`ca.crt` is shown to whoever must believe it; `ca.key` never leaves the folder. A leaf is made once and kept until it is
damaged, due, or asked for with other names. The authority itself is never made anew over a damaged one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rackless.errors import HypervisorError
from rackless.run.files import write_secret
from rackless.trust.keys import DAMAGED, key_pem, load_key, make_key

LIFETIME = timedelta(days=3650)
"""The lifetime of an authority and of the leaves in its folder: they outlive the lab, so that no node needs a rotation."""
YEAR = timedelta(days=365)
RENEWED = timedelta(days=30)
"""How long before its end a leaf is made anew."""


class Use(Enum):
    """What a certificate is good for: TLS refuses a server's certificate from a client, and the other way round."""

    CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
    SERVER = ExtendedKeyUsageOID.SERVER_AUTH


BOTH_USES = (Use.CLIENT, Use.SERVER)
SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
"""The keys of CAs that rackless makes are on an elliptic curve; a CA that a person brings along may be RSA."""


@dataclass(frozen=True, slots=True)
class Leaf:
    certificate: Path
    key: Path


class Authority:
    def __init__(self, folder: Path, root: x509.Certificate, key: SigningKey) -> None:
        self.folder = folder
        self.certificate = folder / "ca.crt"
        self._root = root
        self._key = key

    @classmethod
    def ensure(cls, folder: Path, name: str) -> Authority:
        """The authority in this folder; `name` is what a new one calls itself.

        A certificate without its key is an error, not a reason to make both anew: nothing that the old one signed would
        be believed any more.
        """
        certificate, key = folder / "ca.crt", folder / "ca.key"
        if not certificate.exists():
            _make(certificate, key, name)
        try:
            root = x509.load_pem_x509_certificate(certificate.read_bytes())
        except DAMAGED as error:
            raise _unusable(certificate, error) from error
        try:
            own = serialization.load_pem_private_key(key.read_bytes(), None)
            if not isinstance(own, SigningKey):
                raise ValueError("it is neither a key on an elliptic curve nor an RSA key")
            if own.public_key() != root.public_key():
                raise ValueError("it is not the key of ca.crt")
        except DAMAGED as error:
            raise _unusable(key, error) from error
        return cls(folder, root, own)

    def sign(
        self,
        public_key: CertificatePublicKeyTypes,
        subject: x509.Name,
        *,
        names: x509.SubjectAlternativeName | None = None,
        uses: Sequence[Use],
        lifetime: timedelta = YEAR,
    ) -> bytes:
        """A certificate in PEM; it ends with the authority at the latest."""
        builder = (
            _builder(subject, self._root.subject, public_key, lifetime, self._root.not_valid_after_utc)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .add_extension(x509.ExtendedKeyUsage([use.value for use in uses]), critical=False)
        )
        if names:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def ensure_leaf(
        self,
        name: str,
        hosts: Sequence[str] = (),
        *,
        uses: Sequence[Use],
        user: str = "",
        groups: Sequence[str] = (),
        lifetime: timedelta = LIFETIME,
    ) -> Leaf:
        """`NAME.crt` and `NAME.key`, good for these host names and addresses.

        A client is known by `user` (which is `name` unless said) and `groups`.
        """
        leaf = Leaf(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        subject, names = subject_name(user or name, groups), alternative_names(hosts)
        if not self._is_good(leaf, subject, names, uses):
            key = make_key()
            signed = self.sign(key.public_key(), subject, names=names, uses=uses, lifetime=lifetime)
            write_secret(leaf.key, key_pem(key))
            write_secret(leaf.certificate, signed)
        return leaf

    def _is_good(
        self, leaf: Leaf, subject: x509.Name, names: x509.SubjectAlternativeName | None, uses: Sequence[Use]
    ) -> bool:
        """Whether a leaf is whole, of this authority, for this subject, these names and uses, and not due."""
        try:
            certificate = x509.load_pem_x509_certificate(leaf.certificate.read_bytes())
            key = load_key(leaf.key)
            certificate.verify_directly_issued_by(self._root)
            extensions = certificate.extensions
        except (*DAMAGED, InvalidSignature):
            return False
        left = certificate.not_valid_after_utc - datetime.now(UTC)
        return (
            key.public_key() == certificate.public_key()
            and certificate.subject == subject
            and set(_extension(extensions, x509.SubjectAlternativeName)) == set(names or ())
            and set(_extension(extensions, x509.ExtendedKeyUsage)) == {use.value for use in uses}
            and left > RENEWED
        )


def subject_name(user: str, groups: Sequence[str] = ()) -> x509.Name:
    """As Kubernetes reads it: the user is the common name, groups are organizations."""
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def alternative_names(hosts: Sequence[str]) -> x509.SubjectAlternativeName | None:
    """Addresses and DNS names, each once; None for none, which a certificate may not spell out."""
    found = [_general_name(host) for host in dict.fromkeys(hosts)]
    return x509.SubjectAlternativeName(found) if found else None


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _extension(
    extensions: x509.Extensions, wanted: type[x509.SubjectAlternativeName] | type[x509.ExtendedKeyUsage]
) -> list[object]:
    try:
        return list(extensions.get_extension_for_class(wanted).value)
    except x509.ExtensionNotFound:
        return []


def _make(certificate: Path, key_file: Path, name: str) -> None:
    """The key goes first: a power cut in between leaves no certificate, so both are made again."""
    key, subject = make_key(), subject_name(name)
    signed = (
        _builder(subject, subject, key.public_key(), LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_secret(key_file, key_pem(key))
    write_secret(certificate, signed.public_bytes(serialization.Encoding.PEM))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: CertificatePublicKeyTypes,
    lifetime: timedelta,
    latest: datetime | None = None,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    # A node under emulation may start with a clock that is behind; a kubelet renews by the share of its certificate's
    # life that has passed, so a short life must not begin a day ago.
    early = timedelta(days=1) if lifetime >= YEAR else timedelta(minutes=5)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - early)
        .not_valid_after(min(now + lifetime, latest or now + lifetime))
    )


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        key_encipherment=not signs,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _unusable(file: Path, why: object) -> HypervisorError:
    return HypervisorError(
        f"the CA in {file.parent} cannot be used: {file.name} is damaged",
        why=str(why),
        hint=f"restore {file}, or remove ca.crt and ca.key: then a new CA is made, and what the old one signed is renewed",
    )
