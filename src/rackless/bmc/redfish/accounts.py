"""AccountService: accounts and the three roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rackless.bmc.core.accounts import PRIVILEGES, Account, Lockout
from rackless.bmc.core.log import LogKind
from rackless.bmc.redfish.body import Flag, Needed, Number, OneOf, Shape, Text
from rackless.bmc.redfish.messages import Json, Refusal, message, missing
from rackless.bmc.redfish.resource import ROOT, Answer, Created, Resource, Scope, collection, link, status
from rackless.bmc.redfish.schemas import SCHEMAS

_SERVICE = f"{ROOT}/AccountService"
_ACCOUNTS = f"{_SERVICE}/Accounts"
_ROLES = f"{_SERVICE}/Roles"
_SHORTEST, _LONGEST, _MOST = 8, 64, 16
_PASSWORD = Text(_LONGEST, pattern=rf".{{{_SHORTEST},}}")
_NAME = Text(32, pattern=r"[A-Za-z0-9._@-]+")
_ROLE = OneOf(tuple(PRIVILEGES))


def service(scope: Scope) -> Json:
    lockout = scope.service.accounts.lockout
    return {
        "@odata.id": _SERVICE,
        "@odata.type": SCHEMAS["AccountService"],
        "Id": "AccountService",
        "Name": "Account Service",
        "ServiceEnabled": True,
        "Status": status(),
        "MinPasswordLength": _SHORTEST,
        "MaxPasswordLength": _LONGEST,
        "AccountLockoutThreshold": lockout.threshold,
        "AccountLockoutDuration": lockout.seconds,
        "AccountLockoutCounterResetAfter": lockout.forget_seconds,
        "AccountLockoutCounterResetEnabled": True,
        "SupportedAccountTypes": ["Redfish"],
        "LocalAccountAuth": "Enabled",
        "Accounts": link(_ACCOUNTS),
        "Roles": link(_ROLES),
    }


async def change_service(scope: Scope, values: Json) -> Answer:
    old = scope.service.accounts.lockout
    new = Lockout(
        values.get("AccountLockoutThreshold", old.threshold),
        values.get("AccountLockoutDuration", old.seconds),
        values.get("AccountLockoutCounterResetAfter", old.forget_seconds),
    )
    if new.seconds and new.forget_seconds > new.seconds:  # the specification wants it so
        first, second = "AccountLockoutCounterResetAfter", "AccountLockoutDuration"
        raise Refusal(400, message("PropertyValueConflict", first, second, about=[f"#/{first}"]))
    await scope.service.accounts.set_lockout(new)
    return None


def accounts(scope: Scope) -> Json:
    return collection(
        _ACCOUNTS,
        "ManagerAccountCollection",
        "Accounts",
        (f"{_ACCOUNTS}/{id}" for id, one in scope.service.accounts.by_id.items() if _visible(scope, one)),
    )


def _visible(scope: Scope, account: Account) -> bool:
    """A user without ConfigureUsers sees only their own account."""
    me = scope.account
    return me is not None and ("ConfigureUsers" in me.privileges or me.username == account.username)


def _one(scope: Scope) -> Account:
    found = scope.service.accounts.by_id.get(scope.names[0])
    if found is None:
        raise missing(scope.path)
    return found


def _render(scope: Scope, id: str, one: Account) -> Json:
    return {
        "@odata.id": f"{_ACCOUNTS}/{id}",
        "@odata.type": SCHEMAS["ManagerAccount"],
        "Id": id,
        "Name": "User Account",
        "UserName": one.username,
        "Password": None,
        "RoleId": one.role,
        "Enabled": one.enabled,
        "Locked": scope.service.accounts.is_locked(one.username),
        "AccountTypes": ["Redfish"],
        "Links": {"Role": link(f"{_ROLES}/{one.role}")},
    }


def account(scope: Scope) -> Json:
    return _render(scope, scope.names[0], _one(scope))


async def create(scope: Scope, values: Json) -> Answer:
    new = Account(values["UserName"], values["Password"], values["RoleId"], values.get("Enabled", True))
    made: list[str] = []

    def added(known: Mapping[str, Account]) -> dict[str, Account]:
        _refuse_twice(known, new.username)
        if len(known) >= _MOST:
            raise Refusal(400, message("CreateLimitReachedForResource"))
        made.append(str(max((int(id) for id in known), default=0) + 1))
        return {**known, made[0]: new}

    await scope.service.accounts.change(added)
    _tell(scope, LogKind.CREATED, made[0], new)
    return Created(f"{_ACCOUNTS}/{made[0]}", _render(scope, made[0], new))


async def change(scope: Scope, values: Json) -> Answer:
    id = scope.names[0]
    if values.keys() != {"Password"}:
        _require_users(scope)

    def changed(known: Mapping[str, Account]) -> dict[str, Account]:
        old = _known(scope, known)
        if values.get("UserName", old.username) != old.username:
            _refuse_twice(known, values["UserName"])
        new = replace(
            old,
            username=values.get("UserName", old.username),
            password=values.get("Password", old.password),
            role=values.get("RoleId", old.role),
            enabled=values.get("Enabled", old.enabled),
        )
        if not (new.enabled and new.role == "Administrator"):
            _keep_an_administrator(id, known, "PropertyValueConflict", "RoleId", "Accounts")
        return {**known, id: new}

    table = scope.service.accounts
    if values.get("Locked") is True:
        raise Refusal(400, message("PropertyValueNotInList", "true", "Locked", about=["#/Locked"]))
    await table.change(changed, by=scope.session)
    if values.get("Locked") is False:
        table.unlock(table.by_id[id].username)
    _tell(scope, LogKind.CHANGED, id, table.by_id[id])
    return None


async def delete(scope: Scope) -> Answer:
    _require_users(scope)
    id, gone = scope.names[0], _one(scope)

    def without(known: Mapping[str, Account]) -> dict[str, Account]:
        _known(scope, known)
        _keep_an_administrator(id, known, "ResourceCannotBeDeleted")
        return {other: one for other, one in known.items() if other != id}

    await scope.service.accounts.change(without)
    _tell(scope, LogKind.REMOVED, id, gone)
    return None


def _tell(scope: Scope, kind: LogKind, id: str, one: Account) -> None:
    words = {LogKind.CREATED: "was created", LogKind.CHANGED: "was changed", LogKind.REMOVED: "was deleted"}
    scope.service.log.add(kind, f"The account {one.username} {words[kind]}.", origin=f"{_ACCOUNTS}/{id}")


def _known(scope: Scope, known: Mapping[str, Account]) -> Account:
    if scope.names[0] not in known:
        raise missing(scope.path)
    return known[scope.names[0]]


def _refuse_twice(known: Mapping[str, Account], username: str) -> None:
    if any(one.username == username for one in known.values()):
        raise Refusal(400, message("ResourceAlreadyExists", "ManagerAccount", "UserName", username))


def _keep_an_administrator(id: str, known: Mapping[str, Account], key: str, *arguments: str) -> None:
    """Without one nobody could ever mend the accounts again."""
    others = (one for other, one in known.items() if other != id)
    if not any(one.enabled and one.role == "Administrator" for one in others):
        raise Refusal(400, message(key, *arguments, note="It is the last administrator."))


def roles(scope: Scope) -> Json:
    return collection(_ROLES, "RoleCollection", "Roles", (f"{_ROLES}/{role}" for role in PRIVILEGES))


def role(scope: Scope) -> Json:
    name = scope.names[0]
    if name not in PRIVILEGES:
        raise missing(scope.path)
    return {
        "@odata.id": f"{_ROLES}/{name}",
        "@odata.type": SCHEMAS["Role"],
        "Id": name,
        "RoleId": name,
        "Name": f"{name} Role",
        "IsPredefined": True,
        "AssignedPrivileges": sorted(PRIVILEGES[name]),
    }


def _require_users(scope: Scope) -> None:
    """ConfigureSelf is enough to see one's own account and to change its password, and for nothing else."""
    if scope.account is not None and "ConfigureUsers" not in scope.account.privileges:
        raise Refusal(403, message("InsufficientPrivilege"))


def _own(scope: Scope) -> bool:
    return scope.account is not None and _one(scope).username == scope.account.username


_NEW: Shape = {"UserName": _NAME, "Password": _PASSWORD, "RoleId": _ROLE}
_WRITABLE: Shape = {**_NEW, "Enabled": Flag(), "Locked": Flag()}
_DAY = 86400
_LOCKOUT: Shape = {
    "AccountLockoutThreshold": Number(0, 100),
    "AccountLockoutDuration": Number(0, _DAY),
    "AccountLockoutCounterResetAfter": Number(1, _DAY),
}

RESOURCES = (
    Resource(_SERVICE, service, patch=change_service, writable=_LOCKOUT, privilege="ConfigureUsers"),
    Resource(
        _ACCOUNTS,
        accounts,
        post=create,
        accepts={**{name: Needed(kind) for name, kind in _NEW.items()}, "Enabled": Flag()},
        privilege="ConfigureUsers",
    ),
    Resource(
        f"{_ACCOUNTS}/{{account}}",
        account,
        patch=change,
        writable=_WRITABLE,
        delete=delete,
        privilege="ConfigureUsers",
        read_privilege="ConfigureUsers",
        own=_own,
    ),
    Resource(_ROLES, roles),
    Resource(f"{_ROLES}/{{role}}", role),
)
