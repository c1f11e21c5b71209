"""Tokens, each claim and each field by itself: what is let in, and that everything next to it is not."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from rackless.api.access.authentication import ANONYMOUS, Tokens
from rackless.api.encoding import encode
from rackless.api.kinds.core import SECRET, SERVICE_ACCOUNT
from rackless.api.kinds.kind import Caller
from rackless.api.status import RequestRefused
from rackless.api.stores.port import Store, StoredObject
from rackless.trust.keys import make_key

from .conftest import Json

ISSUER = "https://kubernetes.default.svc"
KEY = make_key()
ROBOT: Json = {"metadata": {"namespace": "ns", "name": "robot", "uid": "u1"}}
ROBOT_CALLER = Caller(
    "system:serviceaccount:ns:robot",
    ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
    "u1",
)
IDENTITY, SECRET_PART = "abc123", "0123456789abcdef"
BOOTSTRAP = f"{IDENTITY}.{SECRET_PART}"


class Shelf:
    """As much of a store as tokens look at."""

    def __init__(self, objects: dict[str, Json]) -> None:
        self._objects = objects

    def get(self, key: str) -> StoredObject | None:
        found = self._objects.get(key)
        return None if found is None else StoredObject(key, 1, encode(found))


def tokens(*, account: Json | None = ROBOT, secret: Json | None = None, now: float | None = None) -> Tokens:
    objects: dict[str, Json] = {}
    if account is not None:
        objects[SERVICE_ACCOUNT.key("ns", "robot")] = account
    if secret is not None:
        objects[SECRET.key("kube-system", f"bootstrap-token-{IDENTITY}")] = secret
    store, load_key = cast(Store, Shelf(objects)), lambda: KEY
    return Tokens(store, load_key) if now is None else Tokens(store, load_key, lambda: datetime.fromtimestamp(now, UTC))


def refused(found: Tokens, token: str) -> bool:
    try:
        found.caller(token)
    except RequestRefused as error:
        assert error.code == 401
        return True
    return False


def parts(token: str) -> tuple[Json, Json, bytes]:
    header, claims, signature = (base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in token.split("."))
    return json.loads(header), json.loads(claims), signature


def text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def signed(claims: Any, key: ec.EllipticCurvePrivateKey = KEY) -> str:
    """A token with any claims at all, as whoever has the key could make it."""
    head = f"{text(b'{}')}.{text(json.dumps(claims).encode())}"
    r, s = decode_dss_signature(key.sign(head.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{head}.{text(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def claims(**more: Any) -> Json:
    now = datetime.now(UTC).timestamp()
    return {
        "sub": "system:serviceaccount:ns:robot",
        "aud": [ISSUER],
        "nbf": now - 5,
        "exp": now + 600,
        "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "robot", "uid": "u1"}},
        **more,
    }


def test_nobody_is_anonymous_and_unauthenticated() -> None:
    assert ANONYMOUS == Caller("system:anonymous", ("system:unauthenticated",))


def test_a_token_says_who_where_for_whom_and_how_long() -> None:
    token, expires = tokens().issue(ROBOT, [], 3600)
    header, found, signature = parts(token)
    assert header == {"alg": "ES256", "typ": "JWT"}
    assert abs(found["iat"] - datetime.now(UTC).timestamp()) < 60
    assert found == {
        "iss": ISSUER, "sub": "system:serviceaccount:ns:robot", "aud": [ISSUER], "iat": found["iat"], "nbf": found["iat"],
        "exp": found["iat"] + 3600,
        "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "robot", "uid": "u1"}},
    }  # fmt: skip
    assert datetime.fromisoformat(expires).timestamp() == found["exp"] and expires.endswith("Z")
    assert len(signature) == 64
    der = encode_dss_signature(int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big"))
    KEY.public_key().verify(der, token.rpartition(".")[0].encode(), ec.ECDSA(hashes.SHA256()))
    assert tokens().caller(token) == ROBOT_CALLER


def test_a_token_for_another_audience_is_that_audiences() -> None:
    assert refused(tokens(), tokens().issue(ROBOT, ["vault"], 3600)[0])
    both, _ = tokens().issue(ROBOT, ["vault", ISSUER], 3600)
    assert parts(both)[1]["aud"] == ["vault", ISSUER] and tokens().caller(both) == ROBOT_CALLER


def test_the_key_is_loaded_once_and_only_when_it_is_needed() -> None:
    loads: list[int] = []

    def load() -> ec.EllipticCurvePrivateKey:
        loads.append(1)
        return KEY

    found = Tokens(cast(Store, Shelf({})), load)
    assert refused(found, BOOTSTRAP) and not loads
    found.issue(ROBOT, [], 60)
    found.issue(ROBOT, [], 60)
    assert len(loads) == 1


def test_a_signature_is_checked_whole() -> None:
    found = tokens()
    token = signed(claims())
    assert found.caller(token) == ROBOT_CALLER
    head, _, signature = token.rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    for wrong in (raw[:-1], raw + b"\0", b"", bytes(64), raw[32:] + raw[:32], raw[:63] + bytes([raw[63] ^ 1])):
        assert refused(found, f"{head}.{text(wrong)}")
    assert refused(found, f"{head}.!!!")
    short = next(one for one in (signed(claims()) for _ in range(20_000)) if parts(one)[2][32] == 0)
    head, raw = short.rpartition(".")[0], parts(short)[2]
    assert found.caller(short) == ROBOT_CALLER  # a number that begins with a zero, and the same without it
    assert refused(found, f"{head}.{text(raw[:32] + raw[33:])}")
    head, _, signature = token.rpartition(".")
    assert refused(found, signed(claims(), make_key()))
    other = text(json.dumps(claims(sub="system:serviceaccount:ns:other")).encode())
    assert refused(found, f"{token.split('.')[0]}.{other}.{signature}")


@pytest.mark.parametrize(
    ("more", "good"),
    [
        (lambda now: {"nbf": now + 30}, True),  # a clock that is ahead by less than a minute
        (lambda now: {"nbf": now + 90}, False),
        (lambda now: {"exp": now + 5}, True),
        (lambda now: {"exp": now - 1}, False),
        (lambda now: {"aud": []}, False),
        (lambda now: {"aud": ["vault", ISSUER]}, True),
        (lambda now: {"aud": None}, False),
        (lambda now: {"nbf": "x"}, False),
        (lambda now: {"exp": None}, False),
        (lambda now: {"kubernetes.io": {}}, False),
        (lambda now: {"kubernetes.io": {"namespace": "ns"}}, False),
        (lambda now: {"kubernetes.io": "x"}, False),
        (lambda now: {"kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "robot", "uid": "u2"}}}, False),
        (lambda now: {"kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "other", "uid": "u1"}}}, False),
        (
            lambda now: {"kubernetes.io": {"namespace": "other", "serviceaccount": {"name": "robot", "uid": "u1"}}},
            False,
        ),
    ],
)
def test_every_claim_counts(more: Callable[[float], Json], good: bool) -> None:
    token = signed(claims(**more(datetime.now(UTC).timestamp())))
    assert refused(tokens(), token) is not good


def test_a_token_is_good_from_a_minute_before_its_time_until_its_end() -> None:
    token = signed(claims(nbf=1000, exp=2000))
    for now, good in ((939.9, False), (940, True), (1000, True), (1999.9, True), (2000, False)):
        assert refused(tokens(now=now), token) is not good, now
    assert parts(tokens(now=1000.5).issue(ROBOT, [], 60)[0])[1]["exp"] == 1060


def test_a_bootstrap_token_is_good_until_its_end() -> None:
    secret = bootstrap(expiration="1970-01-01T00:16:40Z")
    for now, good in ((999.9, True), (1000, False), (1001, False)):
        assert refused(tokens(secret=secret, now=now), BOOTSTRAP) is not good, now


def test_what_else_a_bootstrap_secret_holds_may_be_no_text() -> None:
    secret = bootstrap()
    secret["data"]["description"] = base64.b64encode(b"\xff\xfe").decode()
    assert tokens(secret=secret).caller(BOOTSTRAP) == JOINING


@pytest.mark.parametrize("whole", [[], "x", 5, None, {}])
def test_claims_that_are_none_are_refused(whole: Any) -> None:
    assert refused(tokens(), signed(whole))


def test_an_account_that_is_gone_or_another_one_now_takes_its_tokens_along() -> None:
    token = signed(claims())
    assert refused(tokens(account=None), token)
    again = {"metadata": {**ROBOT["metadata"], "uid": "u2"}}
    assert refused(tokens(account=again), token)


def test_what_is_neither_kind_of_token_is_refused() -> None:
    token = signed(claims())
    for wrong in ("", ".", "..", "...", "a.b", f"{token}.x", token.replace(".", ""), f".{token}"):
        assert refused(tokens(secret=bootstrap()), wrong), wrong


# -- Bootstrap tokens -------------------------------------------------------------------------------------------------


def bootstrap(type: str = "bootstrap.kubernetes.io/token", metadata: Json | None = None, **more: str | None) -> Json:
    data: dict[str, str | None] = {
        "token-id": IDENTITY,
        "token-secret": SECRET_PART,
        "usage-bootstrap-authentication": "true",
        **{key.replace("_", "-"): value for key, value in more.items()},
    }
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items() if value is not None}
    return {"type": type, "metadata": metadata or {"name": f"bootstrap-token-{IDENTITY}"}, "data": encoded}


def later(**more: float) -> str:
    return (datetime.now(UTC) + timedelta(**more)).strftime("%Y-%m-%dT%H:%M:%SZ")


JOINING = Caller(f"system:bootstrap:{IDENTITY}", ("system:bootstrappers", "system:authenticated"))


def test_a_bootstrap_token_is_a_bootstrapper() -> None:
    assert tokens(secret=bootstrap()).caller(BOOTSTRAP) == JOINING
    assert tokens(secret=bootstrap(expiration=later(minutes=5))).caller(BOOTSTRAP) == JOINING
    assert tokens(secret=bootstrap(expiration="")).caller(BOOTSTRAP) == JOINING


def test_a_bootstrap_token_brings_along_groups_of_bootstrappers_only() -> None:
    secret = bootstrap(auth_extra_groups="system:bootstrappers:a,system:masters,system:bootstrappers:b,")
    groups = ("system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b", "system:authenticated")
    assert tokens(secret=secret).caller(BOOTSTRAP) == Caller(f"system:bootstrap:{IDENTITY}", groups)


@pytest.mark.parametrize(
    "secret",
    [
        None,
        bootstrap(type="Opaque"),
        bootstrap(metadata={"name": "x", "deletionTimestamp": "2025-01-01T00:00:00Z"}),
        bootstrap(token_id="abc124"),
        bootstrap(token_id=None),
        bootstrap(usage_bootstrap_authentication="false"),
        bootstrap(usage_bootstrap_authentication=None),
        bootstrap(token_secret="0123456789abcdeF"),
        bootstrap(token_secret=None),
        bootstrap(expiration=later(seconds=-1)),
        bootstrap(expiration="soon"),
        bootstrap(expiration="2999-01-01T00:00:00"),  # in whose time?
        {**bootstrap(), "data": None},
    ],
)
def test_a_bootstrap_token_is_refused_for_any_one_thing(secret: Json | None) -> None:
    assert refused(tokens(secret=secret), BOOTSTRAP)


@pytest.mark.parametrize(
    "token",
    ["abc12.0123456789abcdef", "abc1234.0123456789abcdef", "abc123.0123456789abcde", "abc123.0123456789abcdefg",
     "abc12/.0123456789abcdef", "abc12é.0123456789abcdef", "abc123", "abc123.", ".0123456789abcdef"],
)  # fmt: skip
def test_a_bootstrap_token_has_its_form(token: str) -> None:
    """Whatever the store holds under that name."""

    class Everything(Shelf):
        def get(self, key: str) -> StoredObject | None:
            identity, _, secret = token.partition(".")
            return StoredObject(key, 1, encode(bootstrap(token_id=identity, token_secret=secret)))

    assert refused(Tokens(cast(Store, Everything({})), lambda: KEY), token)
