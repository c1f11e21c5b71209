"""AccountService: accounts and the three roles."""

from __future__ import annotations

from dataclasses import replace

from rackless.bmc.accounts import PRIVILEGES, Account
from rackless.bmc.redfish.body import Flag, Needed, OneOf, Shape, Text
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
    return {
        "@odata.id": _SERVICE,
        "@odata.type": SCHEMAS["AccountService"],
        "Id": "AccountService",
        "Name": "Account Service",
        "ServiceEnabled": True,
        "Status": status(),
        "MinPasswordLength": _SHORTEST,
        "MaxPasswordLength": _LONGEST,
        "SupportedAccountTypes": ["Redfish"],
        "LocalAccountAuth": "Enabled",
        "Accounts": link(_ACCOUNTS),
        "Roles": link(_ROLES),
    }


def accounts(scope: Scope) -> Json:
    return collection(
        _ACCOUNTS,
        "ManagerAccountCollection",
        "Accounts",
        (f"{_ACCOUNTS}/{id}" for id, one in scope.service.accounts.by_id.items() if _visible(scope, one)),
    )


def _visible(scope: Scope, account: Account) -> bool:
    """Who may not configure users sees only himself."""
    me = scope.account
    return me is not None and ("ConfigureUsers" in me.privileges or me.username == account.username)


def _one(scope: Scope) -> Account:
    found = scope.service.accounts.by_id.get(scope.names[0])
    if found is None:
        raise missing(scope.path)
    return found


def _render(id: str, one: Account) -> Json:
    return {
        "@odata.id": f"{_ACCOUNTS}/{id}",
        "@odata.type": SCHEMAS["ManagerAccount"],
        "Id": id,
        "Name": "User Account",
        "UserName": one.username,
        "Password": None,
        "RoleId": one.role,
        "Enabled": one.enabled,
        "Locked": False,
        "AccountTypes": ["Redfish"],
        "Links": {"Role": link(f"{_ROLES}/{one.role}")},
    }


def account(scope: Scope) -> Json:
    return _render(scope.names[0], _one(scope))


async def create(scope: Scope, values: Json) -> Answer:
    table = scope.service.accounts
    new = Account(values["UserName"], values["Password"], values["RoleId"], values.get("Enabled", True))
    _refuse_twice(scope, new.username)
    if len(table.by_id) >= _MOST:
        raise Refusal(400, message("CreateLimitReachedForResource"))
    id = str(max((int(known) for known in table.by_id), default=0) + 1)
    await table.put(id, new)
    return Created(f"{_ACCOUNTS}/{id}", _render(id, new))


async def change(scope: Scope, values: Json) -> Answer:
    old = _one(scope)
    if scope.account is not None and "ConfigureUsers" not in scope.account.privileges and values.keys() != {"Password"}:
        raise Refusal(403, message("InsufficientPrivilege"))
    if values.get("UserName", old.username) != old.username:
        _refuse_twice(scope, values["UserName"])
    new = replace(
        old,
        username=values.get("UserName", old.username),
        password=values.get("Password", old.password),
        role=values.get("RoleId", old.role),
        enabled=values.get("Enabled", old.enabled),
    )
    if not (new.enabled and new.role == "Administrator"):
        _keep_an_administrator(scope, "PropertyValueConflict", "RoleId", "Accounts")
    await scope.service.accounts.put(scope.names[0], new)
    if new.username != old.username or not new.enabled:
        scope.service.accounts.close_sessions_of(old.username)
    return None


async def delete(scope: Scope) -> Answer:
    old = _one(scope)
    _keep_an_administrator(scope, "ResourceCannotBeDeleted")
    await scope.service.accounts.remove(scope.names[0])
    scope.service.accounts.close_sessions_of(old.username)
    return None


def _refuse_twice(scope: Scope, username: str) -> None:
    if scope.service.accounts.named(username):
        raise Refusal(400, message("ResourceAlreadyExists", "ManagerAccount", "UserName", username))


def _keep_an_administrator(scope: Scope, key: str, *arguments: str) -> None:
    """Without one nobody could ever mend the accounts again."""
    others = (one for id, one in scope.service.accounts.by_id.items() if id != scope.names[0])
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


def _own(scope: Scope) -> bool:
    return scope.account is not None and _one(scope).username == scope.account.username


_WRITABLE: Shape = {"UserName": _NAME, "Password": _PASSWORD, "RoleId": _ROLE, "Enabled": Flag()}

RESOURCES = (
    Resource(_SERVICE, service),
    Resource(
        _ACCOUNTS,
        accounts,
        post=create,
        accepts={**{name: Needed(kind) for name, kind in _WRITABLE.items() if name != "Enabled"}, "Enabled": Flag()},
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
