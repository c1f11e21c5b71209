"""User commands: the same accounts Redfish has, under IPMI's numbers. Number 1 has no name and is never enabled."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import replace
from typing import Final

from rackless.bmc.accounts import Account
from rackless.bmc.faults import Operation
from rackless.bmc.ipmi.command import Call, Code, Command, Refused
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
        raise Refused(Code.OUT_OF_RANGE)
    return user


def _account(call: Call, user: int) -> Account:
    account = call.controller.users().get(user)
    if account is None:
        raise Refused(Code.INVALID_FIELD)
    return account


async def _put(call: Call, user: int, account: Account | None) -> None:
    """Never without an administrator: nobody could mend the accounts again."""
    users = call.controller.users()
    after = {**users, user: account}
    admins = [one for one in after.values() if one and one.enabled and one.role == "Administrator"]
    if not admins:
        raise Refused(Code.NOT_IN_THIS_STATE)
    accounts = call.controller.accounts
    if account is None:
        await accounts.remove(str(user - 1))
    else:
        await accounts.put(str(user - 1), account)
    old = users.get(user)
    if old is not None and (account is None or not account.enabled or account.username != old.username):
        accounts.close_sessions_of(old.username)


async def set_access(call: Call) -> bytes:
    data = call.need(3, 4)
    channel(data[0])
    user = _number(data[1])
    account = _account(call, user)
    limit = data[2] & 0x0F
    roles = {privilege: role for role, privilege in ROLES.items()}
    if limit != _NO_ACCESS and limit not in roles:
        raise Refused(Code.INVALID_FIELD)
    barred = limit == _NO_ACCESS or bool(data[0] & _CHANGE and not data[0] & _MESSAGING)
    if barred and account.role == "Administrator" and call.session.login.user == user:
        raise Refused(Code.NOT_IN_THIS_STATE)
    if limit != _NO_ACCESS:
        await _put(call, user, replace(account, role=roles[Privilege(limit)]))
    others = [one for one in call.controller.setting("barred", []) if one != user]
    await call.controller.keep(barred=[*others, user] if barred else others)
    return b""


def get_access(call: Call) -> bytes:
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


async def set_name(call: Call) -> bytes:
    data = call.need(1 + _NAME_LENGTH)
    user = _number(data[0])
    try:
        name = data[1:].rstrip(b"\0").decode("ascii")
    except UnicodeDecodeError:
        raise Refused(Code.INVALID_FIELD) from None
    users = call.controller.users()
    taken = any(account.username == name for number, account in users.items() if number != user)
    if user == 1 or taken or not all(" " < letter < "\x7f" for letter in name):
        raise Refused(Code.INVALID_FIELD)
    if name:
        # nobody knows the password of a new user, and it does not count before it is enabled
        blank = Account(name, secrets.token_urlsafe(12), "ReadOnly", enabled=False)
        await _put(call, user, replace(users.get(user, blank), username=name))
    elif user in users:
        await _put(call, user, None)
    return b""


def get_name(call: Call) -> bytes:
    account = call.controller.users().get(_number(call.need(1)[0]))
    return (account.username if account else "").encode()[:_NAME_LENGTH].ljust(_NAME_LENGTH, b"\0")


async def set_password(call: Call) -> bytes:
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
        raise Refused(Code.LENGTH_INVALID)
    try:
        password = given.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        raise Refused(Code.INVALID_FIELD) from None
    if not password or "\0" in password:
        raise Refused(Code.INVALID_FIELD)
    return password


def _test(account: Account, given: bytes, long: bool) -> None:
    if len(given) != (_LONG if long else _SHORT):
        raise Refused(Code.LENGTH_INVALID)
    kept = account.password.encode()
    if len(kept) > len(given):
        raise Refused(_PASSWORD_WRONG_SIZE)
    if not hmac.compare_digest(kept.ljust(len(given), b"\0"), given):
        raise Refused(_PASSWORD_WRONG)


async def set_payload_access(call: Call) -> bytes:
    data = call.need(6)
    channel(data[0])
    user = _number(data[1])
    if data[1] >> 6 > 1 or data[2] & ~_SOL or any(data[3:]):
        raise Refused(Code.INVALID_FIELD)
    if data[2] & _SOL:
        others = [one for one in call.controller.setting("no_sol", []) if one != user]
        await call.controller.keep(no_sol=[*others, user] if data[1] >> 6 else others)
    return b""


def get_payload_access(call: Call) -> bytes:
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
