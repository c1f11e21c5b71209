import ssl
from pathlib import Path

from cryptography import x509

from rackless.lab.certificates import Authority
from rackless.lab.secrets import ensure_password, ensure_ssh_key


def test_a_leaf_is_trusted_through_its_authority_for_the_addresses_it_was_made_for(tmp_path: Path) -> None:
    authority = Authority.ensure(tmp_path, "a lab")
    leaf = authority.ensure_leaf("bmc", ["192.168.112.20", "bmc.test"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(leaf.certificate, leaf.key)
    certificate = x509.load_pem_x509_certificate(leaf.certificate.read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.read_bytes()))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(name.value) for name in names} == {"192.168.112.20", "bmc.test"}


def test_keys_are_private_and_nothing_is_made_twice(tmp_path: Path) -> None:
    first = Authority.ensure(tmp_path, "a lab").ensure_leaf("bmc", ["10.0.0.1"])
    content = first.certificate.read_bytes()
    assert Authority.ensure(tmp_path, "a lab").ensure_leaf("bmc", ["10.0.0.1"]).certificate.read_bytes() == content
    assert first.key.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "ca.key").stat().st_mode & 0o777 == 0o600


def test_a_leaf_for_other_addresses_is_made_anew(tmp_path: Path) -> None:
    authority = Authority.ensure(tmp_path, "a lab")
    before = authority.ensure_leaf("bmc", ["10.0.0.1"]).certificate.read_bytes()
    assert authority.ensure_leaf("bmc", ["10.0.0.2"]).certificate.read_bytes() != before


def test_passwords_fit_the_oldest_ipmi_client_and_stay_the_same(tmp_path: Path) -> None:
    password = ensure_password(tmp_path / "secrets" / "bmc.password")
    assert len(password) == 16 and password.isalnum()
    assert ensure_password(tmp_path / "secrets" / "bmc.password") == password


def test_ssh_keys_are_in_the_format_openssh_reads(tmp_path: Path) -> None:
    key = ensure_ssh_key(tmp_path / "id_ed25519", "me@lab")
    assert key.public.startswith("ssh-ed25519 ") and key.public.endswith(" me@lab")
    assert key.private.read_text().startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    assert key.private.stat().st_mode & 0o777 == 0o600
