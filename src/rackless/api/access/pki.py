"""Keys and certificates of one API: the CA, what it serves with, and the administrator's kubeconfig.

The directory may already hold the lab's CA (`ca.crt`, `ca.key`); then that one signs. Everything is made once and kept.
"""

from __future__ import annotations

import base64
import json
import os
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rackless.errors import InputError

_SKEW = timedelta(minutes=5)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    new.replace(path)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class Authority:
    """A CA that can sign. `directory` holds all that is made with it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.certificate_file = directory / "ca.crt"
        if not self.certificate_file.exists():
            self._make()
        try:
            self.certificate = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())
            key = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), None)
        except (OSError, ValueError) as error:
            raise InputError(
                f"the CA in {directory} cannot be used",
                why=str(error),
                hint="ca.crt and ca.key go together; without both a new CA is made",
            ) from error
        self._key: CertificateIssuerPrivateKeyTypes = key  # type: ignore[assignment]

    def _make(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rackless API")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(now + timedelta(days=3650))
            .add_extension(x509.BasicConstraints(True, None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.KeyUsage(True, False, False, False, False, True, True, False, False), critical=True)
            .sign(key, hashes.SHA256())
        )
        _write(self.directory / "ca.key", _key_pem(key))
        _write(self.certificate_file, certificate.public_bytes(serialization.Encoding.PEM))

    def sign(
        self,
        public_key: object,
        subject: x509.Name,
        *,
        names: x509.SubjectAlternativeName | None = None,
        client: bool = False,
        server: bool = False,
        seconds: float = 365 * 86400,
    ) -> bytes:
        """A leaf certificate, in PEM."""
        now = datetime.now(UTC)
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH] * client + [ExtendedKeyUsageOID.SERVER_AUTH] * server
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.certificate.subject)
            .public_key(public_key)  # type: ignore[arg-type]
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(min(now + timedelta(seconds=seconds), self.certificate.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(False, None), critical=True)
            .add_extension(x509.KeyUsage(True, False, True, False, False, False, False, False, False), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.certificate.public_key()),  # type: ignore[arg-type]
                critical=False,
            )
        )
        if uses:
            builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        if names:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def ensure_serving(self, hosts: list[str]) -> tuple[Path, Path]:
        """The certificate the API serves with, for these names and addresses; kept until they change or it is due."""
        certificate, key_file, marker = (self.directory / f"serving.{end}" for end in ("crt", "key", "hosts"))
        wanted = json.dumps(sorted(set(hosts)))
        if _good(certificate, key_file) and marker.exists() and marker.read_text() == wanted:
            return certificate, key_file
        key = ec.generate_private_key(ec.SECP256R1())
        pem = self.sign(
            key.public_key(),
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")]),
            names=x509.SubjectAlternativeName([_general_name(host) for host in sorted(set(hosts))]),
            server=True,
        )
        _write(key_file, _key_pem(key))
        _write(certificate, pem)
        _write(marker, wanted.encode())
        return certificate, key_file

    def issue_client(self, name: str, groups: tuple[str, ...]) -> tuple[bytes, bytes]:
        """A client certificate and its key: the user is the common name, groups are organizations."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self.sign(key.public_key(), subject, client=True), _key_pem(key)

    def ensure_token_key(self) -> ec.EllipticCurvePrivateKey:
        """What service account tokens are signed with."""
        path = self.directory / "sa.key"
        if not path.exists():
            _write(path, _key_pem(ec.generate_private_key(ec.SECP256R1())))
        key = serialization.load_pem_private_key(path.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key


def _good(certificate: Path, key: Path) -> bool:
    """Whether both are there and good for another month."""
    if not (certificate.exists() and key.exists()):
        return False
    left = x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc - datetime.now(UTC)
    return left > timedelta(days=30)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def ensure_kubeconfig(authority: Authority, path: Path, server: str) -> None:
    """The administrator's kubeconfig; its certificate is kept until it is due, the address is always the present one."""
    certificate_file, key_file = authority.directory / "admin.crt", authority.directory / "admin.key"
    if not _good(certificate_file, key_file):
        certificate, key = authority.issue_client("system:admin", ("system:masters",))
        _write(key_file, key)
        _write(certificate_file, certificate)

    def inline(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    cluster = {"server": server, "certificate-authority-data": inline(authority.certificate_file)}
    user = {"client-certificate-data": inline(certificate_file), "client-key-data": inline(key_file)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rackless", "cluster": cluster}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": "rackless", "context": {"cluster": "rackless", "user": "admin"}}],
        "current-context": "rackless",
    }
    _write(path, json.dumps(config, indent=2).encode())
