"""Notes about one request, collected while it is answered: for the audit log and for faults on demand."""

from __future__ import annotations

import asyncio

from aiohttp import web

from rackless.bmc.core.audit import AuditEntry, harmless
from rackless.bmc.core.faults import Faults, Operation, Trouble
from rackless.bmc.redfish.messages import Refusal, message
from rackless.bmc.redfish.resource import ROOT, Resource, Scope

_LOOKING = ("GET", "HEAD", "OPTIONS")
_SESSIONS = (f"{ROOT}/SessionService/Sessions", f"{ROOT}/SessionService/Sessions/{{session}}")
_OF_ONE_SERVER = tuple(f"{ROOT}/{kind}/{{" for kind in ("Systems", "Managers", "Chassis"))


class Dropped(Exception):
    """The connection ends here, without an answer."""


class Trace:
    __slots__ = ("_dropped", "_request", "_scope", "body", "operation", "server", "user")

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._scope: Scope | None = None
        self._dropped = False
        self.server: str | None = None
        self.operation = Operation.OTHER
        self.user: str | None = None
        self.body: object = None

    @property
    def changes(self) -> bool:
        return self._request.method not in _LOOKING

    @property
    def path(self) -> str:
        return self._request.path

    def found(self, scope: Scope, resource: Resource | None) -> None:
        self._scope = scope
        self.operation = _operation(self._request.method, resource)
        systems = scope.service.systems
        if resource is not None and resource.path.startswith(_OF_ONE_SERVER):
            chassis = systems.get(scope.names[0])
        else:  # the BMC of one server; an aggregate has no such
            chassis = next(iter(systems.values())) if scope.service.of_one else None
        self.server = chassis.name if chassis is not None else None

    def drop(self) -> None:
        self._dropped = True
        raise Dropped

    def entry(self, status: int) -> AuditEntry:
        user = self.user
        if status == 201 and self.operation is Operation.LOGIN and isinstance(self.body, dict):
            user = str(self.body.get("UserName"))
        return AuditEntry(
            protocol="redfish",
            bmc=self._scope.service.address if self._scope else "",
            server=self.server,
            client=self._request.remote or "",
            user=user,
            action=f"{self._request.method} {self._request.path}",
            outcome="dropped" if self._dropped else str(status),
            ok=status < 400,
            details=harmless(self.body),
        )


def _operation(method: str, resource: Resource | None) -> Operation:
    if method in _LOOKING:
        return Operation.READ
    path = resource.path if resource is not None else ""
    if path in _SESSIONS:
        return Operation.LOGIN
    if resource is not None and resource.action == "ComputerSystem.Reset":
        return Operation.POWER
    if "/VirtualMedia" in path:
        return Operation.MEDIA
    return Operation.BOOT if path == f"{ROOT}/Systems/{{system}}" else Operation.OTHER


async def stumble(faults: Faults, trace: Trace) -> None:
    """Let go wrong what shall go wrong before the request is looked at."""
    where = (trace.server, trace.operation)
    if fault := faults.strike(Trouble.DELAY, *where):
        await asyncio.sleep(fault.seconds)
    if faults.strike(Trouble.DROP, *where):
        trace.drop()
    if fault := faults.strike(Trouble.REFUSE, *where):
        raise Refusal(fault.status, message("GeneralError", note="A fault was asked for."))
    if faults.strike(Trouble.WRONG_PASSWORD, *where):
        refused = message("ResourceAtUriUnauthorized", trace.path, "Invalid username or password")
        raise Refusal(401, refused, headers={"WWW-Authenticate": 'Basic realm="Redfish"'})
