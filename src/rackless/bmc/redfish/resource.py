"""What a resource is: an address, a pure function that renders it, and what may be done to it.

Every module of resources lists its own in `RESOURCES`; `routes` finds one by its URI, and `server` answers requests by
them. `Scope` is what a resource's functions see: the service they belong to and the names in the URI.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rackless.bmc.core.accounts import Account, Session
from rackless.bmc.core.chassis import Chassis
from rackless.bmc.redfish.body import Shape
from rackless.bmc.redfish.messages import Json, missing
from rackless.bmc.redfish.service import Service

ROOT = "/redfish/v1"


@dataclass(frozen=True, slots=True)
class Scope:
    service: Service
    path: str
    names: tuple[str, ...] = ()
    """What stands where the resource's path has braces."""
    account: Account | None = None
    session: Session | None = None
    origin: str = ""
    patient: bool = True
    """False when the client would rather be told later than wait."""

    @property
    def id(self) -> str:
        """The system's id here, which is also the id of its manager and chassis."""
        return self.names[0]

    @property
    def chassis(self) -> Chassis:
        found = self.service.systems.get(self.names[0])
        if found is None:
            raise missing(self.path)
        return found

    def uri(self, *parts: str) -> str:
        return "/".join((ROOT, *parts))

    @property
    def system_uri(self) -> str:
        return self.uri("Systems", self.id)

    @property
    def manager_uri(self) -> str:
        return self.uri("Managers", self.id)

    @property
    def chassis_uri(self) -> str:
        return self.uri("Chassis", self.id)


@dataclass(frozen=True, slots=True)
class Created:
    """The answer to a POST that made something."""

    uri: str
    body: Json
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to a request that goes on after it was answered."""

    monitor: str
    body: Json


Answer = Created | Accepted | Json | None
Render = Callable[[Scope], "Json | Accepted"]
Write = Callable[[Scope, Json], Awaitable[Answer]]
Delete = Callable[[Scope], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Resource:
    path: str
    render: Render | None = None
    stream: Callable[[Scope], AsyncIterator[Json]] | None = None
    """Instead of `render`: what it tells as it happens."""
    patch: Write | None = None
    writable: Shape | Callable[[Scope], Shape] | None = None
    """What PATCH takes; needed with `patch`."""
    fetches: bool = False
    """Whether a PATCH waits for somebody else's server. It keeps no other change waiting, and may be overtaken by one."""
    post: Write | None = None
    accepts: Shape | Callable[[Scope], Shape] | None = None
    """What POST takes; needed with `post`."""
    action: str = ""
    """The action's name, for a path that is an action's target."""
    delete: Delete | None = None
    privilege: str = "ConfigureComponents"
    """What PATCH, POST and DELETE need."""
    read_privilege: str = "Login"
    own: Callable[[Scope], bool] | None = None
    """True when it is the caller's own, for which ConfigureSelf is enough."""
    public: frozenset[str] = frozenset()
    """Methods that need no login."""
    media_type: str = "application/json"

    @property
    def methods(self) -> list[str]:
        return [
            *(["GET", "HEAD"] if self.render else []),
            *(["GET"] if self.stream else []),
            *(["PATCH"] if self.patch else []),
            *(["POST"] if self.post else []),
            *(["DELETE"] if self.delete else []),
        ]


def collection(uri: str, kind: str, name: str, members: Iterable[str]) -> Json:
    links = [{"@odata.id": member} for member in members]
    return {
        "@odata.id": uri,
        "@odata.type": f"#{kind}.{kind}",
        "Name": name,
        "Members": links,
        "Members@odata.count": len(links),
    }


def link(uri: str) -> Json:
    return {"@odata.id": uri}


def status(state: str = "Enabled", health: str | None = "OK") -> Json:
    return {"State": state, "Health": health} if health else {"State": state}


class ResourceRoutes:
    """Finds the resource of a URI: one step per segment, a plain name before a brace."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._root: dict[str, Any] = {}
        for resource in resources:
            node = self._root
            for segment in resource.path.strip("/").split("/"):
                node = node.setdefault("{}" if segment.startswith("{") else segment, {})
            assert "/" not in node, f"{resource.path} is listed twice"
            node["/"] = resource

    def find(self, path: str) -> tuple[Resource, tuple[str, ...]] | None:
        node = self._root
        names: list[str] = []
        for segment in path.strip("/").split("/"):
            if segment in node and segment != "/":
                node = node[segment]
            elif "{}" in node and segment:
                names.append(segment)
                node = node["{}"]
            else:
                return None
        found = node.get("/")
        return (found, tuple(names)) if found is not None else None
