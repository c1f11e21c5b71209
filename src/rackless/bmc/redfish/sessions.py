"""SessionService: log in with POST, be known by X-Auth-Token, log out with DELETE."""

from __future__ import annotations

from datetime import UTC, datetime

from rackless.bmc.core.accounts import Session, SessionLimit
from rackless.bmc.core.log import LogKind
from rackless.bmc.redfish.body import Needed, Number, Text
from rackless.bmc.redfish.messages import Json, Refusal, message, missing
from rackless.bmc.redfish.resource import ROOT, Answer, Created, Resource, Scope, collection, link, status
from rackless.bmc.redfish.schemas import SCHEMAS

_SERVICE = f"{ROOT}/SessionService"
WRONG_PASSWORD = "Invalid username or password"
_SESSIONS = f"{_SERVICE}/Sessions"


def service(scope: Scope) -> Json:
    return {
        "@odata.id": _SERVICE,
        "@odata.type": SCHEMAS["SessionService"],
        "Id": "SessionService",
        "Name": "Session Service",
        "ServiceEnabled": True,
        "SessionTimeout": int(scope.service.accounts.session_timeout),
        "Status": status(),
        "Sessions": link(_SESSIONS),
    }


async def set_timeout(scope: Scope, values: Json) -> Answer:
    scope.service.accounts.session_timeout = float(values["SessionTimeout"])
    return None


def sessions(scope: Scope) -> Json:
    found = scope.service.accounts.sessions()
    return collection(_SESSIONS, "SessionCollection", "Sessions", (f"{_SESSIONS}/{one.id}" for one in found))


def _render(one: Session) -> Json:
    return {
        "@odata.id": f"{_SESSIONS}/{one.id}",
        "@odata.type": SCHEMAS["Session"],
        "Id": one.id,
        "Name": "User Session",
        "UserName": one.username,
        "Password": None,
        "CreatedTime": datetime.fromtimestamp(one.created, UTC).isoformat(timespec="seconds"),
        "ClientOriginIPAddress": one.origin,
        "SessionType": "Redfish",
    }


def _one(scope: Scope) -> Session:
    found = scope.service.accounts.session(scope.names[0])
    if found is None:
        raise missing(scope.path)
    return found


def session(scope: Scope) -> Json:
    return _render(_one(scope))


async def log_in(scope: Scope, values: Json) -> Answer:
    accounts = scope.service.accounts
    account = accounts.check(values["UserName"], values["Password"])
    if account is None:
        scope.service.log.add(LogKind.CHANGED, f"A login was refused to {scope.origin}.", warning=True, told=False)
        raise Refusal(401, message("ResourceAtUriUnauthorized", _SESSIONS, WRONG_PASSWORD))
    try:
        opened, token = accounts.open_session(account, scope.origin)
    except SessionLimit:
        raise Refusal(503, message("SessionLimitExceeded"), headers={"Retry-After": "30"}) from None
    return Created(f"{_SESSIONS}/{opened.id}", _render(opened), {"X-Auth-Token": token})


async def log_out(scope: Scope) -> Answer:
    scope.service.accounts.close_session(_one(scope).id)
    return None


def _own(scope: Scope) -> bool:
    return scope.account is not None and _one(scope).username == scope.account.username


RESOURCES = (
    Resource(
        _SERVICE,
        service,
        patch=set_timeout,
        writable={"SessionTimeout": Number(30, 86400)},
        privilege="ConfigureManager",
    ),
    Resource(
        _SESSIONS,
        sessions,
        post=log_in,
        accepts={"UserName": Needed(Text()), "Password": Needed(Text())},
        public=frozenset({"POST"}),
    ),
    Resource(
        f"{_SESSIONS}/{{session}}",
        session,
        delete=log_out,
        privilege="ConfigureManager",
        own=_own,
    ),
)
