"""Who may do what at a BMC: accounts, roles, sessions.

Passwords are compared in constant time and never hashed slowly here: IPMI needs them reversible, so they are known
to this process anyway, and a slow hash per request is what makes other BMC emulators slow. Tokens are kept only
as digests. This module knows no protocol.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, astuple, dataclass, field, replace

from rackless.bmc.state import JsonFile

PRIVILEGES: dict[str, frozenset[str]] = {
    "Administrator": frozenset({"Login", "ConfigureManager", "ConfigureUsers", "ConfigureComponents", "ConfigureSelf"}),
    "Operator": frozenset({"Login", "ConfigureComponents", "ConfigureSelf"}),
    "ReadOnly": frozenset({"Login", "ConfigureSelf"}),
}

_IDLE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Account:
    username: str
    password: str = field(repr=False)
    role: str = "Administrator"
    enabled: bool = True

    @property
    def privileges(self) -> frozenset[str]:
        return PRIVILEGES[self.role]


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    username: str
    created: float
    """Wall clock, for people."""
    origin: str
    used: float
    """Monotonic, for expiry."""


class SessionLimit(Exception):
    """There are as many sessions as there may be."""


class Accounts:
    """The accounts of one BMC, by id, and the sessions opened with them.

    What clients change is kept in `file`, until the accounts it was configured with change: then those count again.
    """

    def __init__(
        self,
        accounts: Iterable[Account],
        *,
        file: JsonFile | None = None,
        session_timeout: float = 1800.0,
        session_limit: int = 64,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.by_id: dict[str, Account] = {str(number): account for number, account in enumerate(accounts, 1)}
        self._configured = _digest(repr([astuple(account) for account in self.by_id.values()])).hex()
        self._file = file
        self._load()
        self.session_timeout = session_timeout
        self.session_limit = session_limit
        self._now = now
        self._sessions: dict[bytes, Session] = {}

    def check(self, username: str, password: str) -> Account | None:
        """The account, when the password is its own. Takes as long for an unknown name as for a known one."""
        given = _digest(password)
        found = None
        for account in self.by_id.values():
            same_name = hmac.compare_digest(_digest(account.username), _digest(username))
            same_password = hmac.compare_digest(_digest(account.password), given)
            if same_name and same_password and account.enabled:
                found = account
        return found

    def named(self, username: str) -> Account | None:
        return next((account for account in self.by_id.values() if account.username == username), None)

    async def put(self, id: str, account: Account) -> None:
        await self._save({**self.by_id, id: account})

    async def remove(self, id: str) -> None:
        await self._save({known: account for known, account in self.by_id.items() if known != id})

    async def _save(self, by_id: dict[str, Account]) -> None:
        self.by_id = by_id
        if self._file is not None:
            accounts = {id: asdict(account) for id, account in by_id.items()}
            await self._file.save({"configured": self._configured, "accounts": accounts})

    def _load(self) -> None:
        value = self._file.load() if self._file else None
        if value is None or value.get("configured") != self._configured:
            return
        try:
            kept = {str(id): Account(**account) for id, account in value["accounts"].items()}
        except (TypeError, KeyError, AttributeError):
            return
        self.by_id = {id: account for id, account in kept.items() if account.role in PRIVILEGES}

    # sessions

    def open_session(self, account: Account, origin: str) -> tuple[Session, str]:
        """A new session and its token; the token is told once and never kept."""
        self._expire()
        if len(self._sessions) >= self.session_limit:
            self._make_room()
        token = secrets.token_urlsafe(32)
        session = Session(secrets.token_hex(8), account.username, time.time(), origin, self._now())
        self._sessions[_digest(token)] = session
        return session, token

    def by_token(self, token: str) -> tuple[Session, Account] | None:
        """The session of this token; using it keeps it alive."""
        self._expire()
        key = _digest(token)
        session = self._sessions.get(key)
        account = self.named(session.username) if session else None
        if session is None or account is None or not account.enabled:
            return None
        session = replace(session, used=self._now())
        self._sessions[key] = session
        return session, account

    def sessions(self) -> list[Session]:
        self._expire()
        return list(self._sessions.values())

    def session(self, id: str) -> Session | None:
        return next((session for session in self.sessions() if session.id == id), None)

    def close_session(self, id: str) -> None:
        self._sessions = {key: session for key, session in self._sessions.items() if session.id != id}

    def close_sessions_of(self, username: str) -> None:
        self._sessions = {key: session for key, session in self._sessions.items() if session.username != username}

    def _make_room(self) -> None:
        """Many clients never log out: the one unused for longest goes, if it was unused for some time."""
        key, session = min(self._sessions.items(), key=lambda item: item[1].used)
        if self._now() - session.used < _IDLE_SECONDS:
            raise SessionLimit
        del self._sessions[key]

    def _expire(self) -> None:
        oldest = self._now() - self.session_timeout
        self._sessions = {key: session for key, session in self._sessions.items() if session.used >= oldest}


def _digest(text: str) -> bytes:
    """Of one length, so that comparing takes the same time whatever was given."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
