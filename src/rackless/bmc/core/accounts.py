"""Accounts, roles and sessions of a BMC.

A change of an account's password, role or name, its disabling and its deletion end its sessions, and call the listeners
of IPMI and of event streams, which then end theirs.

Passwords are compared in constant time and never hashed slowly: IPMI needs them reversible, so this process knows them
anyway, and a slow hash per request is what makes other BMC emulators slow. Tokens are kept only as digests. This module
knows no protocol.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, field, replace

from rackless.bmc.core.state import JsonFile

PRIVILEGES: dict[str, frozenset[str]] = {
    "Administrator": frozenset({"Login", "ConfigureManager", "ConfigureUsers", "ConfigureComponents", "ConfigureSelf"}),
    "Operator": frozenset({"Login", "ConfigureComponents", "ConfigureSelf"}),
    "ReadOnly": frozenset({"Login", "ConfigureSelf"}),
}

_IDLE_SECONDS = 300.0
_OTHERS = 4
"""One of so many sessions is kept free for other accounts than the one that has the rest."""


@dataclass(frozen=True, slots=True)
class Lockout:
    """After how many wrong passwords an account is locked, and for how long. As on OpenBMC, not at all unless asked for."""

    threshold: int = 0
    """0 never locks."""
    seconds: int = 300
    """0 is until an administrator unlocks it."""
    forget_seconds: int = 30
    """After so long without another one, wrong passwords are forgotten."""


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
        now: Callable[[], float] = lambda: time.monotonic(),
    ) -> None:
        self.by_id: dict[str, Account] = {str(number): account for number, account in enumerate(accounts, 1)}
        self._configured = _digest(repr([astuple(account) for account in self.by_id.values()])).hex()
        self.lockout = Lockout()
        self._file = file
        self._changing = asyncio.Lock()
        self._listeners: list[Callable[[str], None]] = []
        self._failures: dict[str, tuple[int, float]] = {}
        """Wrong passwords by name: how many in a row, and when the last was given."""
        self._load()
        self.session_timeout = session_timeout
        self.session_limit = session_limit
        self._now = now
        self._sessions: dict[bytes, Session] = {}

    # who is it

    def check(self, username: str, password: str) -> Account | None:
        """The account, when the password is its own. Takes as long for an unknown name as for a known one."""
        given = _digest(password)
        found = None
        for account in self.by_id.values():
            same_name = hmac.compare_digest(_digest(account.username), _digest(username))
            same_password = hmac.compare_digest(_digest(account.password), given)
            if same_name and same_password and self.admits(account):
                found = account
        if found is None:
            self.failed(username)
        else:
            self.succeeded(username)
        return found

    def admits(self, account: Account) -> bool:
        return account.enabled and not self.is_locked(account.username)

    def failed(self, username: str) -> None:
        """A wrong password was given for this name."""
        if not self.lockout.threshold or self.named(username) is None or self.is_locked(username):
            return
        count, last = self._failures.get(username, (0, 0.0))
        if count and self._now() - last > self.lockout.forget_seconds:
            count = 0
        self._failures[username] = (count + 1, self._now())

    def succeeded(self, username: str) -> None:
        self._failures.pop(username, None)

    unlock = succeeded

    def is_locked(self, username: str) -> bool:
        count, last = self._failures.get(username, (0, 0.0))
        if not self.lockout.threshold or count < self.lockout.threshold:
            return False
        if self.lockout.seconds and self._now() - last >= self.lockout.seconds:
            del self._failures[username]
            return False
        return True

    def named(self, username: str) -> Account | None:
        return next((account for account in self.by_id.values() if account.username == username), None)

    # changing

    async def put(self, id: str, account: Account, *, by: Session | None = None) -> None:
        await self.change(lambda accounts: {**accounts, id: account}, by=by)

    async def remove(self, id: str) -> None:
        await self.change(lambda accounts: {known: one for known, one in accounts.items() if known != id})

    async def change(
        self, change: Callable[[Mapping[str, Account]], dict[str, Account]], *, by: Session | None = None
    ) -> None:
        """`change` sees the newest accounts, so that parallel changes are all kept, and may refuse by raising. `by` is the session
        that changes its own password: it stays, the account's other sessions end."""
        async with self._changing:
            old, new = self.by_id, change(self.by_id)
            await self._save(new, self.lockout)
            self.by_id = new
            for account in old.values():
                if account not in new.values():
                    self._end(account, new, by)

    async def set_lockout(self, lockout: Lockout) -> None:
        async with self._changing:
            await self._save(self.by_id, lockout)
            self.lockout = lockout

    def listen(self, listener: Callable[[str], None]) -> None:
        """To be told the name of every account that is not any more what it was."""
        self._listeners.append(listener)

    def forget(self, listener: Callable[[str], None]) -> None:
        self._listeners.remove(listener)

    def _end(self, account: Account, new: Mapping[str, Account], by: Session | None) -> None:
        self.succeeded(account.username)
        only_password = any(replace(one, password=account.password) == account for one in new.values())
        stays = by.id if by is not None and by.username == account.username and only_password else None
        self._sessions = {
            key: session
            for key, session in self._sessions.items()
            if session.username != account.username or session.id == stays
        }
        self._tell(account.username)

    def _tell(self, username: str) -> None:
        for listener in tuple(self._listeners):
            listener(username)

    async def _save(self, by_id: Mapping[str, Account], lockout: Lockout) -> None:
        """Raises when it is not kept; nothing has changed then."""
        if self._file is not None:
            accounts = {id: asdict(account) for id, account in by_id.items()}
            value = {"configured": self._configured, "accounts": accounts, "lockout": asdict(lockout)}
            await self._file.save(value)

    def _load(self) -> None:
        value = self._file.load() if self._file else None
        if value is None or value.get("configured") != self._configured:
            return
        try:
            kept = {str(id): Account(**account) for id, account in value["accounts"].items()}
            lockout = Lockout(**value.get("lockout", {}))
        except (TypeError, KeyError, AttributeError):
            return
        self.by_id = {id: account for id, account in kept.items() if account.role in PRIVILEGES}
        self.lockout = lockout

    # sessions

    def open_session(self, account: Account, origin: str) -> tuple[Session, str]:
        """A new session and its token; the token is told once and never kept."""
        self._expire()
        own = {key: session for key, session in self._sessions.items() if session.username == account.username}
        if len(self._sessions) >= self.session_limit:
            self._make_room(self._sessions)
        elif len(own) >= self.session_limit - self.session_limit // _OTHERS:
            self._make_room(own)
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
        gone = [session for session in self._sessions.values() if session.id == id]
        self._sessions = {key: session for key, session in self._sessions.items() if session.id != id}
        for session in gone:
            self._tell(session.username)

    def keep_alive(self, id: str) -> bool:
        """It is in use. False when there is no such session any more."""
        for key, session in self._sessions.items():
            if session.id == id:
                self._sessions[key] = replace(session, used=self._now())
                return True
        return False

    def _make_room(self, among: Mapping[bytes, Session]) -> None:
        """Many clients never log out: the one unused for longest goes, if it was unused for some time."""
        key, session = min(among.items(), key=lambda item: item[1].used)
        if self._now() - session.used < _IDLE_SECONDS:
            raise SessionLimit
        del self._sessions[key]

    def _expire(self) -> None:
        oldest = self._now() - self.session_timeout
        self._sessions = {key: session for key, session in self._sessions.items() if session.used >= oldest}


def _digest(text: str) -> bytes:
    """Of one length, so that comparing takes the same time whatever was given."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
