"""Pull secrets: the structure the installer wants, and what it does not look at (base64, users, expiry)."""

from __future__ import annotations

import base64
import binascii
import json
import time
from dataclasses import dataclass, field

NEEDED = ("quay.io", "registry.redhat.io", "cloud.openshift.com")


@dataclass(frozen=True, slots=True)
class PullSecret:
    registries: tuple[str, ...] = ()
    problem: str = ""
    """Why the installer rejects it."""
    undecodable: tuple[str, ...] = ()
    """Registries whose auth is not base64."""
    nameless: tuple[str, ...] = ()
    """Registries whose auth is base64, but not of user:password."""
    expired: dict[str, float] = field(default_factory=dict)
    """Registries whose token says when it expired."""

    @property
    def lacking(self) -> tuple[str, ...]:
        return tuple(one for one in NEEDED if one not in self.registries)


def read(text: str, now: float | None = None) -> PullSecret:
    now = time.time() if now is None else now
    try:
        data = json.loads(text)
    except ValueError:
        return PullSecret(problem="it is not JSON")
    except RecursionError:
        return PullSecret(problem="it is nested too deeply")
    if data is None:
        data = {}
    if not isinstance(data, dict):
        return PullSecret(problem="it is JSON, but not an object")
    auths = next((value for key, value in data.items() if key.lower() == "auths"), None)
    if auths is not None and not isinstance(auths, dict):
        return PullSecret(problem="its auths is not an object")
    if not auths:
        return PullSecret(problem="it has no auths")
    if any(value is not None and not isinstance(value, dict) for value in auths.values()):
        return PullSecret(tuple(auths), problem="an entry of its auths is not an object")
    bare = [name for name, value in auths.items() if not {"auth", "credsStore"} & set(value or ())]
    if bare:
        return PullSecret(
            tuple(auths), problem=f"its entry for {', '.join(sorted(bare))} has neither auth nor credsStore"
        )
    undecodable, nameless, expired = [], [], {}
    for name, value in auths.items():
        if "auth" not in value:
            continue
        pair = _decoded(value["auth"])
        if pair is None:
            undecodable.append(name)
        elif ":" not in pair:
            nameless.append(name)
        else:
            end = _expiry(pair.partition(":")[2])
            if end and end < now:
                expired[name] = end
    return PullSecret(tuple(auths), "", tuple(undecodable), tuple(nameless), expired)


def _decoded(auth: object) -> str | None:
    if not isinstance(auth, str):
        return None
    try:
        return base64.b64decode(auth, validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def _expiry(token: str) -> float:
    """When a JSON web token ends; 0 where it is none or does not say."""
    parts = token.split(".")
    if len(parts) != 3:
        return 0.0
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims.get("exp", 0))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return 0.0
