"""The keys of an API: who each names, what each is good for, and that they are made once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

from rackless.api.access import keys
from rackless.errors import HypervisorError
from rackless.trust.authority import Leaf


def shown(leaf: Leaf) -> tuple[list[str], list[str], list[str], int]:
    """Common names, organizations, uses and days left of a certificate."""
    found = x509.load_pem_x509_certificate(leaf.certificate.read_bytes())
    uses = found.extensions.get_extension_for_oid(ExtensionOID.EXTENDED_KEY_USAGE).value
    assert isinstance(uses, x509.ExtendedKeyUsage)
    named = {ExtendedKeyUsageOID.CLIENT_AUTH: "client", ExtendedKeyUsageOID.SERVER_AUTH: "server"}
    lasts = found.not_valid_after_utc - datetime.now(UTC)
    return (
        [str(one.value) for one in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)],
        [str(one.value) for one in found.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)],
        [named[use] for use in uses],
        round(lasts / timedelta(days=1)),
    )


def test_the_administrator_is_a_client_and_what_the_api_serves_with_a_server(tmp_path: Path) -> None:
    authority = keys.ensure_authority(tmp_path)
    assert shown(keys.ensure_admin(authority)) == (["system:admin"], ["system:masters"], ["client"], 365)
    serving = keys.ensure_serving(authority, ["127.0.0.1", "api.lab.test"])
    assert shown(serving) == (["kube-apiserver"], [], ["server"], 365)
    assert {path.name for path in tmp_path.iterdir()} == {
        "ca.crt", "ca.key", "admin.crt", "admin.key", "serving.crt", "serving.key",
    }  # fmt: skip


def test_a_kubeconfig_has_the_administrators_keys_and_the_present_address(tmp_path: Path) -> None:
    authority, path = keys.ensure_authority(tmp_path / "pki"), tmp_path / "kubeconfig"
    for server in ("https://127.0.0.1:1", "https://127.0.0.1:2"):
        keys.ensure_kubeconfig(authority, path, server)
        config = yaml.safe_load(path.read_text())
        (cluster,) = config["clusters"]
        assert cluster["cluster"]["server"] == server and cluster["name"] == config["contexts"][0]["context"]["cluster"]
        assert cluster["name"] == "rackless"
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "pki" / "admin.crt").exists()


def test_the_key_of_tokens_is_made_once_and_a_damaged_one_is_not_replaced(tmp_path: Path) -> None:
    assert not keys.has_token_key(tmp_path)
    first, again = (
        keys.ensure_token_key(tmp_path).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        for _ in range(2)
    )
    assert first == again and keys.has_token_key(tmp_path)
    file = tmp_path / "sa.key"
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("half a k")
    with pytest.raises(HypervisorError) as told:
        keys.ensure_token_key(tmp_path)
    assert str(file) in str(told.value) and told.value.why and "a new one is made" in (told.value.hint or "")
    assert file.read_text() == "half a k"
