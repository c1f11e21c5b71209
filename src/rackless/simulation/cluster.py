"""The cluster of a story: its own API at its VIP, there while most control planes answer, and what runs on its nodes.

Each node asks for a certificate, becomes a Node when it is approved, and renews its Lease for as long as its server runs. All of
that through the API, with the rights and the words that real nodes have; requests of theirs are lost like anybody's.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

from rackless.api.kinds.kind import Caller
from rackless.controllers.nodes.judging import BOOTSTRAPPERS, BOOTSTRAPPERS_OF_ONE, CLIENT, NODE, NODES, SERVING
from rackless.controllers.nodes.life import LEASES
from rackless.drivers.fake.world import LoopClock
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.errors import RacklessError
from rackless.plan.model import LabPlan
from rackless.ports.api import Access
from rackless.ports.resources import Conflict, Record
from rackless.simulation.api import Durable, open_objects
from rackless.simulation.person import Person
from rackless.trust.keys import PrivateKey, make_key
from rackless.trust.requests import make_request

EVERY = 18.0
"""Seconds between two signs of life of a node; whoever is silent for 40 is called NotReady."""
_USAGES = {CLIENT: "client auth", SERVING: "server auth"}


@dataclass
class ClusterStory:
    person: Person
    file: Durable = field(default_factory=Durable)
    """What is in its etcd."""
    silent: set[str] = field(default_factory=set)
    """Nodes whose agent hangs while their server runs."""
    _asked: dict[str, int] = field(default_factory=dict)
    _served: tuple[object, str] | None = None

    def begin(self) -> None:
        asyncio.get_running_loop().create_task(self._live(), context=Context())

    def connection(self, caller: Caller | None = None) -> KubernetesResources:
        access = Access(self._url(self.person.described), self.person.paths.pki / "ca.crt")
        served = self.person.world.served
        return served.open(str(self.person.paths.netns), access, LoopClock(), 0.0, caller=caller)

    def records(self, kind: str) -> dict[str, Record]:
        return self.file.records(kind)

    async def _live(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            plan, lab = self.person.described, self.person.lab
            control = [server.name for server in plan.control_planes]
            up = [name for name in control if lab.answers(name)]
            if not set(control) & set(lab.provisioner.disks):
                self._end(Durable())
            elif len(up) <= len(control) // 2:
                self._end(self.file)
            else:
                await self._serve(plan)
                for name in sorted(lab.nodes.admitted - self.silent):
                    if lab.answers(name):
                        with suppress(RacklessError, Conflict):
                            await self.live_as(name)

    async def _serve(self, plan: LabPlan) -> None:
        place = (str(self.person.paths.netns), self._url(plan))
        if place not in self.person.world.served.places:
            self.person.world.served.places[place] = await open_objects(self.file)
        self._served = place

    def _end(self, file: Durable) -> None:
        self.file = file
        places = self.person.world.served.places
        if self._served in places:
            places.pop(self._served).hub.close()

    @staticmethod
    def _url(plan: LabPlan) -> str:
        return f"https://{plan.api_vip}:6443"

    async def live_as(self, name: str) -> None:
        """What the agent of a node does from time to time."""
        own = self.connection(Caller(f"{NODE}{name}", (NODES, "system:authenticated")))
        node = await own.get("Node", name)
        if node is None:
            if await self._certified(name, CLIENT) and await self._certified(name, SERVING):
                await own.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
                self._asked[name] = self._asked.get(name, 0) + 1
            return
        if _ready(node) != "True":
            status = {**(node.get("status") or {}), "conditions": [_condition("Ready", "True")]}
            addresses = [{"type": "Hostname", "address": name}, {"type": "InternalDNS", "address": name}]
            serves = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}
            await own.patch_status("Node", name, {**status, **serves, "addresses": addresses})
        await self._renew(own, name)

    async def _renew(self, own: KubernetesResources, name: str) -> None:
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": _now("%Y-%m-%dT%H:%M:%S.%fZ")}
        if await own.get("Lease", name, namespace=LEASES) is not None:
            await own.patch("Lease", name, {"spec": spec}, namespace=LEASES)
            return
        metadata = {"name": name, "namespace": LEASES}
        await own.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})

    async def _certified(self, name: str, signer: str) -> bool:
        """Whether somebody has approved of its request, which it makes once for each time that it joins."""
        request = f"{name}-{_USAGES[signer].partition(' ')[0]}-{self._asked.get(name, 0)}"
        if signer == CLIENT:
            caller = Caller(f"system:bootstrap:{name}", (BOOTSTRAPPERS, f"{BOOTSTRAPPERS_OF_ONE}{name}"))
        else:
            caller = Caller(f"{NODE}{name}", (NODES, "system:authenticated"))
        api = self.connection(caller)
        found = await api.get("CertificateSigningRequest", request)
        if found is None:
            hosts = [name] if signer == SERVING else []
            spec = {"request": make_request(a_key(), f"{NODE}{name}", [NODES], hosts), "signerName": signer,
                    "usages": ["digital signature", _USAGES[signer]]}  # fmt: skip
            kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
            await api.create({**kind, "metadata": {"name": request}, "spec": spec})
            return False
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any(each.get("type") == "Approved" for each in conditions)


@cache
def a_key() -> PrivateKey:
    """Whoever asks for a certificate in a story has the same."""
    return make_key()


def _ready(node: Record) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return next((str(each["status"]) for each in conditions if each["type"] == "Ready"), "")


def _condition(type_: str, status: str) -> dict[str, Any]:
    at = _now("%Y-%m-%dT%H:%M:%SZ")
    return {"type": type_, "status": status, "lastHeartbeatTime": at, "lastTransitionTime": at}


def _now(form: str) -> str:
    return datetime.now(UTC).strftime(form)
