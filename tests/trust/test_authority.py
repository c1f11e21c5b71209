import base64
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from rackless.errors import HypervisorError
from rackless.trust.authority import BOTH_USES, LIFETIME, RENEWED, Authority, Leaf, Use, subject_name
from rackless.trust.keys import key_pem, make_key
from rackless.trust.requests import make_request, read_request, request_problem
from rackless.trust.secrets import ensure_password, ensure_ssh_key

SERVING = (Use.SERVER,)


def test_a_leaf_is_trusted_through_its_authority_for_the_addresses_it_was_made_for(tmp_path: Path) -> None:
    authority = Authority.ensure(tmp_path, "a lab")
    leaf = authority.ensure_leaf("bmc", ["192.168.112.20", "bmc.test"], uses=SERVING)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(leaf.certificate, leaf.key)
    certificate = x509.load_pem_x509_certificate(leaf.certificate.read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.read_bytes()))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(name.value) for name in names} == {"192.168.112.20", "bmc.test"}


def test_keys_are_private_and_nothing_is_made_twice(tmp_path: Path) -> None:
    first = Authority.ensure(tmp_path, "a lab").ensure_leaf("bmc", ["10.0.0.1"], uses=SERVING)
    content = first.certificate.read_bytes()
    assert (
        Authority.ensure(tmp_path, "a lab").ensure_leaf("bmc", ["10.0.0.1"], uses=SERVING).certificate.read_bytes()
        == content
    )
    assert first.key.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "ca.key").stat().st_mode & 0o777 == 0o600


def test_a_leaf_for_other_addresses_is_made_anew(tmp_path: Path) -> None:
    authority = Authority.ensure(tmp_path, "a lab")
    before = authority.ensure_leaf("bmc", ["10.0.0.1"], uses=SERVING).certificate.read_bytes()
    assert authority.ensure_leaf("bmc", ["10.0.0.2"], uses=SERVING).certificate.read_bytes() != before


def load(leaf: Leaf) -> x509.Certificate:
    return x509.load_pem_x509_certificate(leaf.certificate.read_bytes())


def uses(leaf: Leaf) -> set[x509.ObjectIdentifier]:
    return set(load(leaf).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def test_a_leaf_is_good_for_what_it_was_made_for_and_made_anew_for_another_use_or_subject(tmp_path: Path) -> None:
    authority = Authority.ensure(tmp_path, "a lab")
    server = authority.ensure_leaf("it", ["10.0.0.1"], uses=SERVING)
    assert uses(server) == {Use.SERVER.value} and load(server).subject.rfc4514_string() == "CN=it"
    both = authority.ensure_leaf("it", ["10.0.0.1"], uses=BOTH_USES)
    assert uses(both) == {Use.SERVER.value, Use.CLIENT.value}
    admin = authority.ensure_leaf("it", ["10.0.0.1"], uses=BOTH_USES, user="me", groups=("a", "b"))
    assert load(admin).subject.rfc4514_string() == "CN=me,O=b,O=a"
    serial = load(admin).serial_number
    again = authority.ensure_leaf("it", ["10.0.0.1", "10.0.0.1"], uses=BOTH_USES[::-1], user="me", groups=("a", "b"))
    assert load(again).serial_number == serial


def test_a_leaf_without_names_has_no_empty_list_of_them(tmp_path: Path) -> None:
    leaf = Authority.ensure(tmp_path, "a lab").ensure_leaf("it", uses=SERVING)
    with pytest.raises(x509.ExtensionNotFound):
        load(leaf).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    serial = load(leaf).serial_number
    assert load(Authority.ensure(tmp_path, "a lab").ensure_leaf("it", uses=SERVING)).serial_number == serial


@pytest.mark.parametrize(
    ("lifetime", "kept"), [(RENEWED - timedelta(hours=1), False), (RENEWED + timedelta(hours=1), True)]
)
def test_a_leaf_that_is_due_is_made_anew(tmp_path: Path, lifetime: timedelta, kept: bool) -> None:
    authority = Authority.ensure(tmp_path, "a lab")
    first = load(authority.ensure_leaf("it", uses=SERVING, lifetime=lifetime)).serial_number
    assert (load(authority.ensure_leaf("it", uses=SERVING)).serial_number == first) is kept


def test_a_short_life_does_not_begin_long_ago_and_none_outlives_the_authority(tmp_path: Path) -> None:
    """kubelets renew by the share of a life that has passed; slow clocks need a long life to begin early."""
    authority = Authority.ensure(tmp_path, "a lab")
    now = datetime.now(UTC)
    short = load(authority.ensure_leaf("short", uses=SERVING, lifetime=timedelta(hours=1)))
    long = load(authority.ensure_leaf("long", uses=SERVING, lifetime=2 * LIFETIME))
    assert timedelta(minutes=4) < now - short.not_valid_before_utc < timedelta(minutes=6)
    assert timedelta(hours=23) < now - long.not_valid_before_utc < timedelta(hours=25)
    root = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    assert long.not_valid_after_utc == root.not_valid_after_utc


def test_a_leaf_of_another_authority_is_made_anew(tmp_path: Path) -> None:
    stranger = Authority.ensure(tmp_path / "other", "a lab").ensure_leaf("it", uses=SERVING)
    authority = Authority.ensure(tmp_path / "ours", "a lab")
    ours = authority.ensure_leaf("it", uses=SERVING)
    for file in ("it.crt", "it.key"):
        (tmp_path / "ours" / file).write_bytes((tmp_path / "other" / file).read_bytes())
    assert load(authority.ensure_leaf("it", uses=SERVING)).public_key() != load(stranger).public_key()
    assert load(ours).issuer.rfc4514_string() == "CN=a lab"


def test_an_authority_without_its_key_is_never_made_anew(tmp_path: Path) -> None:
    before = Authority.ensure(tmp_path, "a lab").certificate.read_bytes()
    (tmp_path / "ca.key").rename(tmp_path / "kept")
    with pytest.raises(HypervisorError, match=r"ca\.key is damaged"):
        Authority.ensure(tmp_path, "a lab")
    assert (tmp_path / "ca.crt").read_bytes() == before
    (tmp_path / "ca.key").write_bytes(key_pem(make_key()))
    with pytest.raises(HypervisorError, match=r"not the key of ca\.crt"):
        Authority.ensure(tmp_path, "a lab")


def test_an_authority_that_was_cut_short_before_its_certificate_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "ca.key").write_bytes(key_pem(make_key()))
    Authority.ensure(tmp_path, "a lab").ensure_leaf("it", uses=SERVING)


def test_an_authority_that_somebody_brings_along_may_be_rsa(tmp_path: Path) -> None:
    key, name = rsa.generate_private_key(65537, 2048), subject_name("theirs")
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=100))
        .sign(key, hashes.SHA256())
    )
    pem = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "ca.key").write_bytes(key.private_bytes(*pem))
    (tmp_path / "ca.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    leaf = Authority.ensure(tmp_path, "ours").ensure_leaf("it", uses=SERVING)
    load(leaf).verify_directly_issued_by(certificate)


USAGES = (
    "digital_signature", "key_encipherment", "key_cert_sign", "crl_sign", "content_commitment", "data_encipherment",
    "key_agreement",
)  # fmt: skip


def shown(certificate: x509.Certificate) -> tuple[x509.BasicConstraints, set[str], dict[str, bool]]:
    """What a certificate says of itself: whether it signs, what its key is for, which extensions must be understood."""
    extensions = certificate.extensions
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    used = {name for name in USAGES if getattr(usage, name)}
    critical = {type(each.value).__name__: each.critical for each in extensions}
    return extensions.get_extension_for_class(x509.BasicConstraints).value, used, critical


def test_the_authority_signs_leaves_and_nothing_below_them(tmp_path: Path) -> None:
    authority = Authority.ensure(tmp_path, "a lab")
    root = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    constraints, used, critical = shown(root)
    assert constraints == x509.BasicConstraints(ca=True, path_length=0)
    assert used == {"digital_signature", "key_cert_sign", "crl_sign"}
    assert critical == {"BasicConstraints": True, "KeyUsage": True, "SubjectKeyIdentifier": False}
    assert root.subject == root.issuer == subject_name("a lab")
    assert timedelta(days=3649) < root.not_valid_after_utc - datetime.now(UTC) <= timedelta(days=3650)


def test_a_leaf_signs_nothing(tmp_path: Path) -> None:
    leaf = load(Authority.ensure(tmp_path, "a lab").ensure_leaf("it", ["n1"], uses=SERVING))
    constraints, used, critical = shown(leaf)
    assert constraints == x509.BasicConstraints(ca=False, path_length=None)
    assert used == {"digital_signature", "key_encipherment"}
    assert critical == {
        "BasicConstraints": True, "KeyUsage": True, "AuthorityKeyIdentifier": False, "ExtendedKeyUsage": False,
        "SubjectAlternativeName": False,
    }  # fmt: skip


def test_a_year_is_a_long_life(tmp_path: Path) -> None:
    key = make_key()
    pem = Authority.ensure(tmp_path, "a lab").sign(key.public_key(), subject_name("bob"), uses=SERVING)
    made = x509.load_pem_x509_certificate(pem)
    assert timedelta(hours=23) < datetime.now(UTC) - made.not_valid_before_utc < timedelta(hours=25)
    assert timedelta(days=364) < made.not_valid_after_utc - datetime.now(UTC) <= timedelta(days=365)


def test_a_key_that_cannot_sign_as_we_do_is_told(tmp_path: Path) -> None:
    Authority.ensure(tmp_path, "a lab")
    pem = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "ca.key").write_bytes(ed25519.Ed25519PrivateKey.generate().private_bytes(*pem))
    with pytest.raises(HypervisorError, match="neither a key on an elliptic curve nor an RSA key"):
        Authority.ensure(tmp_path, "a lab")


def test_a_request_is_read_as_it_was_made() -> None:
    asked = read_request(make_request(make_key(), "system:node:n1", ("system:nodes",), ["n1", "192.0.2.1"]))
    assert (asked.name, asked.organizations) == ("system:node:n1", ("system:nodes",))
    assert asked.kinds_of_alternatives() == {"DNS", "IP"}
    assert read_request(make_request(make_key(), "bob")).alternatives is None


def test_a_request_names_nobody_or_one_and_its_names_are_not_critical() -> None:
    nobody = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(make_key(), hashes.SHA256())
    assert read_request(base64.b64encode(nobody.public_bytes(serialization.Encoding.PEM)).decode()).name == ""
    found = read_request(make_request(make_key(), "bob", hosts=["n1"])).request.extensions
    assert [each.critical for each in found] == [False]


def test_a_request_that_was_changed_on_its_way_is_refused() -> None:
    encoded = make_request(make_key(), "bob")
    assert request_problem(encoded) == ""
    der = x509.load_pem_x509_csr(base64.b64decode(encoded)).public_bytes(serialization.Encoding.DER)
    changed = base64.encodebytes(der[:-1] + bytes([der[-1] ^ 1])).decode()
    pem = f"-----BEGIN CERTIFICATE REQUEST-----\n{changed}-----END CERTIFICATE REQUEST-----\n"
    assert "signature of the request is not valid" in request_problem(base64.b64encode(pem.encode()).decode())
    assert request_problem(f"{encoded[:8]}?{encoded[8:]}")  # a lenient reader would leave the sign out


def test_passwords_fit_the_oldest_ipmi_client_and_stay_the_same(tmp_path: Path) -> None:
    password = ensure_password(tmp_path / "secrets" / "bmc.password")
    assert len(password) == 16 and password.isalnum()
    assert ensure_password(tmp_path / "secrets" / "bmc.password") == password


def test_ssh_keys_are_in_the_format_openssh_reads(tmp_path: Path) -> None:
    key = ensure_ssh_key(tmp_path / "id_ed25519", "me@lab")
    assert key.public.startswith("ssh-ed25519 ") and key.public.endswith(" me@lab")
    assert key.private.read_text().startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    assert key.private.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("cut", [0, 0.5], ids=["empty", "half"])
@pytest.mark.parametrize("file", ["bmc.crt", "bmc.key"])
def test_a_damaged_leaf_is_made_anew(tmp_path: Path, file: str, cut: float) -> None:
    authority = Authority.ensure(tmp_path, "a lab")
    authority.ensure_leaf("bmc", ["10.0.0.1"], uses=SERVING)
    shorten(tmp_path / file, cut)
    leaf = Authority.ensure(tmp_path, "a lab").ensure_leaf("bmc", ["10.0.0.1"], uses=SERVING)
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(leaf.certificate, leaf.key)


@pytest.mark.parametrize("cut", [0, 0.5], ids=["empty", "half"])
@pytest.mark.parametrize("file", ["ca.crt", "ca.key"])
def test_a_damaged_authority_is_told_in_a_sentence_and_kept(tmp_path: Path, file: str, cut: float) -> None:
    Authority.ensure(tmp_path, "a lab")
    shorten(tmp_path / file, cut)
    left = (tmp_path / file).read_bytes()
    with pytest.raises(HypervisorError, match=f"{file} is damaged") as refused:
        Authority.ensure(tmp_path, "a lab").ensure_leaf("bmc", ["10.0.0.1"], uses=SERVING)
    assert "restore" in refused.value.hint
    assert (tmp_path / file).read_bytes() == left


def test_an_empty_password_or_key_is_none(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("\n")
    assert len(ensure_password(tmp_path / "password")) == 16
    for file in ("id", "id.pub"):
        public = ensure_ssh_key(tmp_path / "id", "me").public
        shorten(tmp_path / file, 0)
        assert ensure_ssh_key(tmp_path / "id", "me").public != public


def shorten(file: Path, part: float) -> None:
    os.truncate(file, int(file.stat().st_size * part))
