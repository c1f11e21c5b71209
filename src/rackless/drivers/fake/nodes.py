"""Nodes that answer when their servers are on and have a system: `ports.nodes.Nodes` without a network."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from rackless.drivers.fake.script import Script
from rackless.ports.nodes import Admission, Members, Quorum, QuorumMember, Vip
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

    async def ssh_banner(self, address: str, within: float) -> str | None:
        await self.script.meet("nodes", "ssh_banner", address)
        return "SSH-2.0-fake" if self.answers(address) else None

    @asynccontextmanager
    async def members(
        self, servers: Sequence[tuple[str, str]], tls: ssl.SSLContext, patience: float
    ) -> AsyncIterator[Members]:
        yield _FakeMembers(self, servers)

    async def vip(self, address: Ip, bridge: str, names: Mapping[str, str], tls: ssl.SSLContext) -> Vip:
        await self.script.meet("nodes", "vip", str(address))
        holder = next((name for name in sorted(set(names.values())) if self.answers(name)), None)
        return Vip(address, (holder,) if holder else (), "" if holder else "no answer")

    async def objects(self, api: Ip, tls: ssl.SSLContext) -> list[dict[str, Any]]:
        await self.script.meet("nodes", "objects", str(api))
        self._join()
        return [self._object(name) for name in sorted(self.joined)]

    async def admit(self, api: Ip, tls: ssl.SSLContext, admissions: Sequence[Admission]) -> list[str]:
        await self.script.meet("nodes", "admit", str(api))
        made = [admission.name for admission in admissions if admission.name not in self.admitted]
        for name in made:
            self.script.change("nodes", "admit", name)
        self.admitted.update(made)
        self._join()
        return made

    async def dismiss(self, api: Ip, tls: ssl.SSLContext, admission: Admission) -> None:
        await self.script.meet("nodes", "dismiss", admission.name)
        if admission.name in self.admitted:
            self.script.change("nodes", "dismiss", admission.name)
        self.admitted.discard(admission.name)
        self.joined.discard(admission.name)

    def _join(self) -> None:
        """A node that has booted and is approved joins by itself."""
        self.joined |= {name for name in self.admitted if self.answers(name)}

    def _object(self, name: str) -> dict[str, Any]:
        ready = {"type": "Ready", "status": "True" if self.answers(name) else "Unknown", "message": "as faked"}
        status = {"conditions": [ready], "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}
        return {"metadata": {"name": name}, "status": status}


@dataclass
class _FakeMembers:
    nodes: FakeNodes
    servers: Sequence[tuple[str, str]]

    async def observe(self) -> Quorum:
        await self.nodes.script.meet("nodes", "members")
        up = [name for name, address in self.servers if self.nodes.answers(address)]
        return Quorum(
            tuple(
                QuorumMember(name, True, leader=name == up[0], members=len(self.servers), version="3.fake")
                if name in up and len(up) > len(self.servers) // 2
                else QuorumMember(name, False, problem="no etcd listening")
                for name, _ in self.servers
            )
        )
