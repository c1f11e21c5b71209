"""Nodes that answer when their servers are on and have a system: `ports.nodes.Nodes` without a network."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from rackless.drivers.fake.script import Script
from rackless.ports.nodes import Admission, Members, NodesUnreachable, Quorum, QuorumMember, Vip
from rackless.spec.address import Ip


@dataclass
class FakeNodes:
    answers: Callable[[str], bool] = lambda _: False
    """Whether the node at this address, or of this name, answers."""
    script: Script = field(default_factory=Script)
    joined: set[str] = field(default_factory=set)
    """The nodes that have objects in the cluster's API."""
    admitted: set[str] = field(default_factory=set)
    """The nodes whose tokens that API knows."""
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    """What the objects of nodes are labelled with."""
    control_planes: tuple[str, ...] = ()
    """The nodes that have etcd and the API; known once somebody has asked for their quorum. Until then the API answers."""

    async def ssh_banner(self, address: str, within: float) -> str | None:
        await self.script.meet("nodes", "ssh_banner", address)
        return "SSH-2.0-fake" if self.answers(address) else None

    @asynccontextmanager
    async def members(
        self, servers: Sequence[tuple[str, str]], tls: ssl.SSLContext, patience: float
    ) -> AsyncIterator[Members]:
        self.control_planes = tuple(name for name, _ in servers)
        yield _FakeMembers(self, servers)

    async def vip(self, address: Ip, bridge: str, names: Mapping[str, str], tls: ssl.SSLContext) -> Vip:
        await self.script.meet("nodes", "vip", str(address))
        there = self.control_planes or sorted(set(names.values()))
        holder = next((name for name in there if self.answers(name)), None)
        if holder is None:
            return Vip(address, (), "no answer")
        return Vip(address, (holder,), "" if self._serves() else "not ready (etcd has no leader)")

    async def objects(self, api: Ip, tls: ssl.SSLContext) -> list[dict[str, Any]]:
        await self.script.meet("nodes", "objects", str(api))
        self._require_api()
        self._join()
        return [self._object(name) for name in sorted(self.joined)]

    async def admit(self, api: Ip, tls: ssl.SSLContext, admissions: Sequence[Admission]) -> list[str]:
        await self.script.meet("nodes", "admit", str(api))
        self._require_api()
        made = [admission.name for admission in admissions if admission.name not in self.admitted]
        for name in made:
            self.script.change("nodes", "admit", name)
        self.admitted.update(made)
        self._join()
        wanted = {admission.name: dict(admission.labels) for admission in admissions if admission.name in self.joined}
        labelled = [name for name, labels in wanted.items() if not labels.items() <= self.labels.get(name, {}).items()]
        for name in labelled:
            self.labels.setdefault(name, {}).update(wanted[name])
        return [*(f"token of {name}" for name in made), *(f"role of {name}" for name in labelled)]

    async def dismiss(self, api: Ip, tls: ssl.SSLContext, admission: Admission) -> None:
        await self.script.meet("nodes", "dismiss", admission.name)
        self._require_api()
        if admission.name in self.admitted:
            self.script.change("nodes", "dismiss", admission.name)
        self.admitted.discard(admission.name)
        self.joined.discard(admission.name)
        self.labels.pop(admission.name, None)

    def forget_all(self) -> None:
        """The disks of the cluster's nodes are gone, and its objects with them."""
        self.admitted.clear()
        self.joined.clear()
        self.labels.clear()
        self.control_planes = ()

    def _serves(self) -> bool:
        """Whether the API answers: its objects are in etcd, which needs most of the control planes."""
        there = sum(map(self.answers, self.control_planes))
        return not self.control_planes or there > len(self.control_planes) // 2

    def _require_api(self) -> None:
        if not self._serves():
            raise NodesUnreachable("no API answers")

    def _join(self) -> None:
        """A node that has booted and is approved joins by itself."""
        self.joined |= {name for name in self.admitted if self.answers(name)}

    def _object(self, name: str) -> dict[str, Any]:
        ready = {"type": "Ready", "status": "True" if self.answers(name) else "Unknown", "message": "as faked"}
        status = {"conditions": [ready], "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}
        return {"metadata": {"name": name, "labels": dict(self.labels.get(name, {}))}, "status": status}


@dataclass
class _FakeMembers:
    nodes: FakeNodes
    servers: Sequence[tuple[str, str]]

    async def observe(self) -> Quorum:
        await self.nodes.script.meet("nodes", "members")
        up = [name for name, address in self.servers if self.nodes.answers(address)]
        return Quorum(tuple(self._member(name, up) for name, _ in self.servers))

    def _member(self, name: str, up: Sequence[str]) -> QuorumMember:
        if name not in up:
            return QuorumMember(name, False, problem="no etcd listening")
        if len(up) <= len(self.servers) // 2:
            return QuorumMember(name, False, version="3.fake", problem="no leader yet")
        return QuorumMember(name, True, leader=name == up[0], members=len(self.servers), version="3.fake")
