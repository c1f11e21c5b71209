"""The Kubernetes APIs of a fake world: records in memory, served while a process serves them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from rackless.drivers.fake.script import Script
from rackless.ports.api import NAMESPACE, Access, ApiConnection, ApiUnreachable
from rackless.ports.resources import RecordEvent, Resources

AGAIN = 0.2
Place = tuple[object, str]
"""A network namespace and a URL in it."""


@dataclass
class FakeApis:
    script: Script
    served: dict[Place, Resources] = field(default_factory=dict)

    def open(
        self, network: Callable[[], object], access: Access, *, patience: float, namespace: str | None = None
    ) -> ApiConnection:
        return cast(ApiConnection, _Connection(self, network, access.url, patience, namespace or NAMESPACE))


_NAMESPACED = ("get", "list", "patch", "patch_status", "delete")
"""The calls that take a namespace; `create` and `apply` have it in their record."""


class AnswerLost(Exception):
    """The connection broke after the request had its effect."""


def _subject(arguments: tuple[Any, ...]) -> str:
    words = [part if isinstance(part, str) else _name(part) for part in arguments if isinstance(part, str | dict)]
    return " ".join(word for word in words if word)


def _name(record: Any) -> str:
    """Kind and name of a record; empty for a patch, which has no name."""
    name = (record.get("metadata") or {}).get("name")
    return f"{record.get('kind')} {name}" if name else ""


class _Connection:
    """Passes every call on to the records that are served at its URL at that moment, and waits while none are."""

    def __init__(
        self, apis: FakeApis, network: Callable[[], object], url: str, patience: float, namespace: str
    ) -> None:
        self._apis = apis
        self.namespace = namespace
        self._network = network
        self._url = url
        self._patience = patience

    async def ensure_namespace(self) -> None:
        await self._served("ensure_namespace")

    async def close(self) -> None: ...

    async def watch(self, kind: str, **more: Any) -> AsyncIterator[RecordEvent]:
        resources = await self._served("watch", kind)
        async for event in resources.watch(kind, **more):
            await self._served("event", kind)  # an API that does not answer sends no events
            yield event

    def __getattr__(self, method: str) -> Any:
        async def call(*arguments: Any, **more: Any) -> Any:
            subject = _subject(arguments)
            while True:
                resources = await self._served(method, subject)
                place = {"namespace": self.namespace} if method in _NAMESPACED else {}
                done = await getattr(resources, method)(*arguments, **{**place, **more})
                try:
                    await self._apis.script.answer("api", method, subject)
                    return done
                except AnswerLost:  # nobody knows whether the request arrived: the real client sends it again, too
                    if not self._patience:
                        raise ApiUnreachable("the Kubernetes API does not answer", why="its answer was lost") from None

        return call

    async def _served(self, method: str, subject: str = "") -> Resources:
        try:
            await self._apis.script.meet("api", method, subject)
        except AnswerLost:  # here the request is lost, and not its answer
            if not self._patience:
                raise ApiUnreachable("the Kubernetes API does not answer", why="the connection broke") from None
        waited = 0.0
        while (found := self._apis.served.get((self._network(), self._url))) is None:
            if waited >= self._patience:
                raise ApiUnreachable("the Kubernetes API does not answer", why=f"nobody serves {self._url}")
            await asyncio.sleep(AGAIN)
            waited += AGAIN
        return found
