"""`ports.pods.Pods` in a Kubernetes API: a list by node, and the eviction subresource."""

from __future__ import annotations

import math

from rackless.drivers.clock import SystemClock
from rackless.drivers.kubernetes.client import LATER, Client, HttpRefused, Json
from rackless.ports.api import Access
from rackless.ports.clock import Clock
from rackless.ports.resources import Record

_BUDGET = 429
"""Says a disruption budget that an eviction would violate; elsewhere it means a server that has too much to do."""


class KubernetesPods:
    def __init__(self, access: Access, *, patience: float = math.inf, clock: Clock | None = None) -> None:
        self._client = Client(access, clock or SystemClock(), patience)

    async def close(self) -> None:
        await self._client.close()

    async def on(self, node: str) -> list[Record]:
        answer = await self._client.call("GET", "/api/v1/pods", query={"fieldSelector": f"spec.nodeName={node}"})
        return list(answer["items"])

    async def evict(self, pod: Record, *, grace: int | None = None) -> str:
        metadata = pod["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        options: Json = {"preconditions": {"uid": metadata["uid"]}}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        try:
            await self._client.call("POST", path, body, later=LATER - {_BUDGET})
        except HttpRefused as refusal:
            if refusal.code in (404, 409):  # it is gone; another one of its name is not ours to end
                return ""
            return refusal.why
        return ""
