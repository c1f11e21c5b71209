"""Nodes as they are seen over the network: which answer ssh, whether etcd has its quorum, which one holds the API VIP."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from rackless.events import count
from rackless.spec.address import Ip


@dataclass(frozen=True, slots=True)
class QuorumMember:
    """One control plane's etcd; `problem` says why it does not count."""

    server: str
    healthy: bool
    leader: bool = False
    members: int = 0
    version: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Quorum:
    members: tuple[QuorumMember, ...]

    @property
    def healthy(self) -> int:
        return sum(member.healthy for member in self.members)

    @property
    def leader(self) -> str | None:
        return next((member.server for member in self.members if member.leader), None)

    @property
    def complete(self) -> bool:
        """Every member is there, agrees on their number, and one leads."""
        wanted = len(self.members)
        return wanted > 0 and self.leader is not None and all(m.healthy and m.members == wanted for m in self.members)

    def describe(self) -> str:
        text = f"{self.healthy} of {len(self.members)} members healthy"
        if self.leader:
            return f"{text}, {self.leader} leads"
        waiting = "; ".join(f"{m.server}: {m.problem}" for m in self.members if m.problem)
        return f"{text} ({waiting})" if waiting else text


@dataclass(frozen=True, slots=True)
class Vip:
    address: Ip
    holders: tuple[str, ...] = ()
    """Names of servers; a MAC where it is none of them. One, when all is well."""
    problem: str = ""
    """Why the API does not answer there; empty when it says that it is ready."""

    @property
    def holder(self) -> str | None:
        return self.holders[0] if len(self.holders) == 1 else None

    @property
    def ready(self) -> bool:
        return self.holder is not None and not self.problem

    def describe(self) -> str:
        match self.holders:
            case ():
                return f"{self.address} is held by nobody"
            case (only,):
                held = f"{self.address} is held by {only}"
            case several:
                held = f"{self.address} is held by {count(len(several), 'node')} at once: {', '.join(several)}"
        return f"{held}; the API there: {self.problem or 'ready'}"


@dataclass(frozen=True, slots=True)
class Admission:
    """A node that may join, and what it is."""

    name: str
    token: str = field(repr=False)
    """`ID.SECRET`, as bootstrap tokens are."""
    group: str
    """What the API calls whoever uses the token."""
    labels: Mapping[str, str]
    """Its role: nothing that a node may say of itself."""


class NodesUnreachable(Exception):
    """The cluster's API lost a request: its etcd elects, its address moves. Ask again."""


class Members(Protocol):
    async def observe(self) -> Quorum:
        """Ask every member for itself."""
        ...


class Nodes(Protocol):
    async def ssh_banner(self, address: str, within: float) -> str | None:
        """What an ssh server says first; None when there is none."""
        ...

    def members(
        self, servers: Sequence[tuple[str, str]], tls: ssl.SSLContext, patience: float
    ) -> AbstractAsyncContextManager[Members]:
        """Etcd on these (name, address); asked again and again over the same connections."""
        ...

    async def vip(self, address: Ip, bridge: str, names: Mapping[str, str], tls: ssl.SSLContext) -> Vip:
        """Who of `names`, by MAC, answers for the address on this network, and whether the API there is ready."""
        ...

    async def objects(self, api: Ip, tls: ssl.SSLContext) -> list[dict[str, Any]]:
        """The Node objects in the API at this address. Raises NodesUnreachable."""
        ...

    async def admit(self, api: Ip, tls: ssl.SSLContext, admissions: Sequence[Admission]) -> list[str]:
        """Let these nodes join the API at this address: their tokens are known, and those that have joined are labelled.
        Names of what was changed. Raises NodesUnreachable.

        It is to be called again while nodes boot: a node asks for its certificate when it is up.
        """
        ...

    async def dismiss(self, api: Ip, tls: ssl.SSLContext, admission: Admission) -> None:
        """Take a node that is gone out of the API, and its token. Raises NodesUnreachable."""
        ...
