"""Access to the page: one-time links, sessions, and the checks of Host and Origin against requests from other pages (CSRF, DNS
rebinding).

A browser sends a cookie with every request to this address, also with those that somebody else's page makes. So a request counts
only when it names a host that is ours (DNS rebinding needs a name of the attacker's that leads here) and, where it changes
something or opens a WebSocket, when its origin is exactly the place it was sent to. Knows nothing of labs.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
MOST_LINKS = 32
MOST_SESSIONS = 256
_OWN_FETCHES = ("same-origin", "none")
"""Of `Sec-Fetch-Site`: our own page, or a person who typed the address."""


@dataclass(frozen=True, slots=True)
class WebSession:
    read_only: bool


@dataclass
class WebAccess:
    """Links and sessions are kept as digests, so looking one up takes no longer the more of it was guessed."""

    read_only: bool
    """Read only: no link gives more."""
    _links: dict[bytes, WebSession] = field(default_factory=dict)
    _sessions: dict[bytes, WebSession] = field(default_factory=dict)

    def make_link(self, *, read_only: bool = False) -> str:
        """A new one-time token; the oldest unused one is dropped when there are too many."""
        token = secrets.token_urlsafe(32)
        _keep(self._links, token, WebSession(read_only or self.read_only), MOST_LINKS)
        return token

    def enter(self, token: str) -> str | None:
        """The secret of a new session; None for a token that is wrong or was used."""
        session = self._links.pop(_digest(token), None)
        if session is None:
            return None
        secret = secrets.token_urlsafe(32)
        _keep(self._sessions, secret, session, MOST_SESSIONS)
        return secret

    def session(self, secret: str | None) -> WebSession | None:
        return self._sessions.get(_digest(secret)) if secret else None


def _keep(kept: dict[bytes, WebSession], secret: str, session: WebSession, most: int) -> None:
    while len(kept) >= most:
        del kept[next(iter(kept))]
    kept[_digest(secret)] = session


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def is_loopback(address: str) -> bool:
    return ip_address(address).is_loopback


def host_name(host: str) -> str:
    """`localhost` of `localhost:8080`, `::1` of `[::1]:8080`; empty for what is neither."""
    if host.startswith("["):
        name, bracket, rest = host[1:].partition("]")
        return name.lower() if bracket and (not rest or _is_port(rest)) else ""
    name, colon, port = host.partition(":")
    return name.lower() if not colon or _is_port(f":{port}") else ""


def _is_port(text: str) -> bool:
    return text[:1] == ":" and text[1:].isascii() and text[1:].isdigit()


def host_allowed(host: str | None, names: Collection[str]) -> bool:
    """Whether the Host header names us; with any port, because a browser behind a tunnel (`ssh -L`) sends the tunnel's."""
    return host is not None and host_name(host) in names


def origin_allowed(headers: Mapping[str, str], scheme: str) -> bool:
    """Exactly where the request was sent to: another port of this computer is somebody else."""
    return headers.get("Origin") == f"{scheme}://{headers.get('Host')}"


def fetched_by_us(headers: Mapping[str, str]) -> bool:
    """Whether the browser says so; one that says nothing is judged by the rest."""
    return headers.get("Sec-Fetch-Site", "none") in _OWN_FETCHES
