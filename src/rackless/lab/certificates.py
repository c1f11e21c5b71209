"""The lab's own certificate authority, and the certificates it gives out. Keys are 0600 and never leave the lab."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rackless.run.files import write, write_secret

LIFETIME = datetime.timedelta(days=3650)
"""A lab has no rotation: its certificates outlive it."""


@dataclass(frozen=True, slots=True)
class Leaf:
    certificate: Path
    key: Path


class Authority:
    """One CA in a folder: `ca.crt` for everybody, `ca.key` for us."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.certificate = folder / "ca.crt"
        self._name = name
        self._key_path = folder / "ca.key"

    @classmethod
    def ensure(cls, folder: Path, name: str) -> Authority:
        authority = cls(folder, name)
        if not (authority.certificate.exists() and authority._key_path.exists()):
            key = ec.generate_private_key(ec.SECP256R1())
            subject = _name(name)
            certificate = (
                _builder(subject, subject, key.public_key())
                .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                .add_extension(_usage(signs=True), critical=True)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
                .sign(key, hashes.SHA256())
            )
            write_secret(authority._key_path, _pem(key))
            write(authority.certificate, certificate.public_bytes(serialization.Encoding.PEM))
        return authority

    def ensure_leaf(self, name: str, hosts: Sequence[str]) -> Leaf:
        """A certificate for `name` that is good for these addresses and names, as server and as client."""
        leaf = Leaf(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        if leaf.certificate.exists() and leaf.key.exists() and self._fits(leaf, hosts):
            return leaf
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_name(name), self._load().subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._load_key().public_key()), critical=False
            )
        )
        if hosts:
            alternatives = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
            certificate = certificate.add_extension(alternatives, critical=False)
        signed = certificate.sign(self._load_key(), hashes.SHA256())
        write_secret(leaf.key, _pem(key))
        write(leaf.certificate, signed.public_bytes(serialization.Encoding.PEM))
        return leaf

    def _fits(self, leaf: Leaf, hosts: Sequence[str]) -> bool:
        certificate = x509.load_pem_x509_certificate(leaf.certificate.read_bytes())
        try:
            found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return not hosts
        names = {*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))}
        return names == set(hosts) and certificate.issuer == self._load().subject

    def _load(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.certificate.read_bytes())

    def _load_key(self) -> ec.EllipticCurvePrivateKey:
        key = serialization.load_pem_private_key(self._key_path.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    # nodes under emulation may start with a clock that is behind
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + LIFETIME)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
