"""Authentication: by a client certificate of the API's CA, a service account token, a bootstrap token, or as anonymous.

Certificates are checked by TLS before anything here runs. A credential that is given and wrong is refused (401); it
never falls back to anonymous.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from rackless.api.encoding import decode, encode
from rackless.api.kinds.core import SECRET, SERVICE_ACCOUNT
from rackless.api.kinds.kind import Caller
from rackless.api.status import Json, unauthorized
from rackless.api.stores.port import Store
from rackless.trust.keys import PrivateKey

ANONYMOUS = Caller("system:anonymous", ("system:unauthenticated",))
_ISSUER = "https://kubernetes.default.svc"
_SKEW_SECONDS = 60
"""Seconds that the clock of a token's issuer, another API server of the same cluster, may be ahead."""


def from_certificate(certificate: Any) -> Caller | None:
    """The caller named by a verified peer certificate, in the form the ssl module gives; None when it names nobody.

    Raises Unauthorized when it has two common names: this API signs none such (`signing.read`), and another signer may have
    checked the other name.
    """
    attributes = [pair for relative in (certificate or {}).get("subject", ()) for pair in relative]
    names = [value for attribute, value in attributes if attribute == "commonName"]
    groups = [value for attribute, value in attributes if attribute == "organizationName"]
    if len(names) > 1:
        raise unauthorized()
    return Caller(names[0], (*groups, "system:authenticated")) if names and names[0] else None


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Tokens:
    """Service account tokens (signed, ES256) and bootstrap tokens (Secrets in kube-system)."""

    def __init__(
        self,
        store: Store,
        load_key: Callable[[], PrivateKey],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._clock = clock
        self._load_key = load_key
        self._key: PrivateKey | None = None

    def _signing_key(self) -> PrivateKey:
        if self._key is None:
            self._key = self._load_key()
        return self._key

    def issue(self, account: Json, audiences: list[str], seconds: int) -> tuple[str, str]:
        """A token for a service account, and when it expires."""
        issued = int(self._clock().timestamp())
        metadata = account["metadata"]
        claims = {
            "iss": _ISSUER,
            "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
            "aud": audiences or [_ISSUER],
            "iat": issued,
            "nbf": issued,
            "exp": issued + seconds,
            "kubernetes.io": {
                "namespace": metadata["namespace"],
                "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
            },
        }
        signed = f"{_b64(encode({'alg': 'ES256', 'typ': 'JWT'}))}.{_b64(encode(claims))}"
        r, s = decode_dss_signature(self._signing_key().sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        expires = datetime.fromtimestamp(issued + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"{signed}.{_b64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}", expires

    def caller(self, token: str) -> Caller:
        """Raises Unauthorized."""
        found = self._account(token) if token.count(".") == 2 else self._bootstrap(token)
        if found is None:
            raise unauthorized()
        return found

    def _account(self, token: str) -> Caller | None:
        try:
            signed, _, signature = token.rpartition(".")
            raw = _unb64(signature)
            if len(raw) != 64:
                return None
            der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
            self._signing_key().public_key().verify(der, signed.encode(), ec.ECDSA(hashes.SHA256()))
            claims = decode(_unb64(signed.split(".")[1]))
            if not claims["nbf"] - _SKEW_SECONDS <= self._clock().timestamp() < claims["exp"]:
                return None
            if _ISSUER not in claims["aud"]:
                return None
            namespace, account = claims["kubernetes.io"]["namespace"], claims["kubernetes.io"]["serviceaccount"]
        except (ValueError, KeyError, TypeError, InvalidSignature):
            return None
        entry = self._store.get(SERVICE_ACCOUNT.key(namespace, account["name"]))
        metadata = decode(entry.data)["metadata"] if entry is not None else {}
        if metadata.get("uid") != account["uid"] or "deletionTimestamp" in metadata:
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return Caller(claims["sub"], groups, account["uid"])

    def _bootstrap(self, token: str) -> Caller | None:
        identity, _, secret = token.partition(".")
        if len(identity) != 6 or len(secret) != 16 or not identity.isascii() or not identity.isalnum():
            return None
        entry = self._store.get(SECRET.key("kube-system", f"bootstrap-token-{identity}"))
        if entry is None:
            return None
        stored = decode(entry.data)
        if stored.get("type") != "bootstrap.kubernetes.io/token" or "deletionTimestamp" in stored["metadata"]:
            return None
        data = {
            key: base64.b64decode(value).decode(errors="replace") for key, value in (stored.get("data") or {}).items()
        }
        if data.get("token-id") != identity or "token-secret" not in data:
            return None
        if data.get("usage-bootstrap-authentication") != "true":
            return None
        if not hmac.compare_digest(data["token-secret"].encode(), secret.encode()):
            return None
        if data.get("expiration"):
            try:
                if datetime.fromisoformat(data["expiration"]) <= self._clock():
                    return None
            except (ValueError, TypeError):
                return None
        extra = tuple(g for g in data.get("auth-extra-groups", "").split(",") if g.startswith("system:bootstrappers:"))
        return Caller(f"system:bootstrap:{identity}", ("system:bootstrappers", *extra, "system:authenticated"))
