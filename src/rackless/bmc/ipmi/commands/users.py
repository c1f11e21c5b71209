"""User commands: the same accounts Redfish has, under IPMI's numbers. Number 1 has no name and is never enabled."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from rackless.bmc.core.accounts import Account
from rackless.bmc.core.faults import Operation
from rackless.bmc.ipmi.command import Code, Command, CommandCall, CommandRefused
from rackless.bmc.ipmi.commands.session import channel
from rackless.bmc.ipmi.controller import MOST_USERS, ROLES
from rackless.bmc.ipmi.session import Privilege

_NETFN: Final = 0x06
_ENABLED, _DISABLED = 0x40, 0x80
_MESSAGING, _LINK, _CHANGE = 0x10, 0x20, 0x80
_NO_ACCESS: Final = 0x0F
_NAME_LENGTH: Final = 16
_SHORT, _LONG = 16, 20
_PASSWORD_WRONG, _PASSWORD_WRONG_SIZE = 0x80, 0x81
_SOL: Final = 0x02


def _number(raw: int) -> int:
    user = raw & 0x3F
    if not 1 <= user <= MOST_USERS:
        raise CommandRefused(Code.OUT_OF_RANGE)
    return user


def _account(call: CommandCall, user: int) -> Account:
    account = call.controller.users().get(user)
    if account is None:
        raise CommandRefused(Code.INVALID_FIELD)
    return account


async def _put(call: CommandCall, user: int, account: Account | None) -> None:
    """Never without an administrator: nobody could mend the accounts again."""
    id = str(user - 1)

    def changed(known: Mapping[str, Account]) -> dict[str, Account]:
        after = {other: one for other, one in known.items() if other != id} | ({id: account} if account else {})
        if not any(one.enabled and one.role == "Administrator" for one in after.values()):
            raise CommandRefused(Code.NOT_IN_THIS_STATE)
        return after

    session = call.session
    session.changes_itself = session.login.user == user
    try:
        await call.controller.accounts.change(changed)
    finally:
        if session.changes_itself:
            _renew(call)


def _renew(call: CommandCall) -> None:
    """The session that changed its own password goes on with the new one; one that may do less now ends."""
    session = call.session
    login = call.controller.find(session.login.name.encode())
    if login is not None and login.limit == session.login.limit:
        session.login = login
    else:
        session.closing = True
    session.changes_itself = False


async def set_access(call: CommandCall) -> bytes:
    data = call.need(3, 4)
    channel(data[0])
    user = _number(data[1])
    account = _account(call, user)
    limit = data[2] & 0x0F
    roles = {privilege: role for role, privilege in ROLES.items()}
    if limit != _NO_ACCESS and limit not in roles:
        raise CommandRefused(Code.INVALID_FIELD)
    barred = limit == _NO_ACCESS or bool(data[0] & _CHANGE and not data[0] & _MESSAGING)
    if barred and account.role == "Administrator" and call.session.login.user == user:
        raise CommandRefused(Code.NOT_IN_THIS_STATE)
    if limit != _NO_ACCESS:
        await _put(call, user, replace(account, role=roles[Privilege(limit)]))
    others = [one for one in call.controller.setting("barred", []) if one != user]
    await call.controller.keep(barred=[*others, user] if barred else others)
    call.controller.review()
    return b""


def get_access(call: CommandCall) -> bytes:
    data = call.need(2)
    channel(data[0])
    user = _number(data[1])
    users = call.controller.users()
    enabled = sum(account.enabled for account in users.values())
    account = users.get(user)
    state = _ENABLED if account and account.enabled else _DISABLED
    if account is None:
        access = _NO_ACCESS
    elif call.controller.may_use_ipmi(user):
        access = _MESSAGING | ROLES[account.role]
    else:
        access = _NO_ACCESS
    return bytes((MOST_USERS, state | enabled, 1, access))


async def set_name(call: CommandCall) -> bytes:
    data = call.need(1 + _NAME_LENGTH)
    user = _number(data[0])
    try:
        name = data[1:].rstrip(b"\0").decode("ascii")
    except UnicodeDecodeError:
        raise CommandRefused(Code.INVALID_FIELD) from None
    users = call.controller.users()
    taken = any(account.username == name for number, account in users.items() if number != user)
    if user == 1 or taken or not all(" " < letter < "\x7f" for letter in name):
        raise CommandRefused(Code.INVALID_FIELD)
    if name:
        # nobody knows the password of a new user, and it does not count before it is enabled
        blank = Account(name, secrets.token_urlsafe(12), "ReadOnly", enabled=False)
        await _put(call, user, replace(users.get(user, blank), username=name))
    elif user in users:
        await _put(call, user, None)
    return b""


def get_name(call: CommandCall) -> bytes:
    account = call.controller.users().get(_number(call.need(1)[0]))
    return (account.username if account else "").encode()[:_NAME_LENGTH].ljust(_NAME_LENGTH, b"\0")


async def set_password(call: CommandCall) -> bytes:
    data = call.need(2, 2 + _LONG)
    user, long = _number(data[0]), bool(data[0] & 0x80)
    account = _account(call, user)
    given = data[2:]
    match data[1] & 0x03:
        case 0:
            await _put(call, user, replace(account, enabled=False))
        case 1:
            await _put(call, user, replace(account, enabled=True))
        case 2:
            await _put(call, user, replace(account, password=_password(given, long)))
        case _:
            _test(account, given, long)
    return b""


def _password(given: bytes, long: bool) -> str:
    if len(given) != (_LONG if long else _SHORT):
        raise CommandRefused(Code.LENGTH_INVALID)
    try:
        password = given.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        raise CommandRefused(Code.INVALID_FIELD) from None
    if not password or "\0" in password:
        raise CommandRefused(Code.INVALID_FIELD)
    return password


def _test(account: Account, given: bytes, long: bool) -> None:
    if len(given) != (_LONG if long else _SHORT):
        raise CommandRefused(Code.LENGTH_INVALID)
    kept = account.password.encode()
    if len(kept) > len(given):
        raise CommandRefused(_PASSWORD_WRONG_SIZE)
    if not hmac.compare_digest(kept.ljust(len(given), b"\0"), given):
        raise CommandRefused(_PASSWORD_WRONG)


async def set_payload_access(call: CommandCall) -> bytes:
    data = call.need(6)
    channel(data[0])
    user = _number(data[1])
    if data[1] >> 6 > 1 or data[2] & ~_SOL or any(data[3:]):
        raise CommandRefused(Code.INVALID_FIELD)
    if data[2] & _SOL:
        others = [one for one in call.controller.setting("no_sol", []) if one != user]
        await call.controller.keep(no_sol=[*others, user] if data[1] >> 6 else others)
    return b""


def get_payload_access(call: CommandCall) -> bytes:
    data = call.need(2)
    channel(data[0])
    user = _number(data[1])
    allowed = user in call.controller.users() and user not in call.controller.setting("no_sol", [])
    return bytes((_SOL if allowed else 0, 0, 0, 0))


COMMANDS: Final = {
    (_NETFN, 0x43): Command(set_access, Privilege.ADMINISTRATOR),
    (_NETFN, 0x44): Command(get_access, Privilege.OPERATOR, Operation.READ),
    (_NETFN, 0x45): Command(set_name, Privilege.ADMINISTRATOR),
    (_NETFN, 0x46): Command(get_name, Privilege.OPERATOR, Operation.READ),
    (_NETFN, 0x47): Command(set_password, Privilege.ADMINISTRATOR),
    (_NETFN, 0x4C): Command(set_payload_access, Privilege.ADMINISTRATOR),
    (_NETFN, 0x4D): Command(get_payload_access, Privilege.OPERATOR, Operation.READ),
}
