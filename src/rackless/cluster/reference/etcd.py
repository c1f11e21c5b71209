"""The quorum as it is seen from outside: every control plane is asked, and only what it answers counts."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

PATIENCE = 5.0
"""Seconds for one answer, where somebody waits for the whole."""


@dataclass(frozen=True, slots=True)
class Member:
    """One control plane's etcd; `problem` says why it does not count."""

    server: str
    healthy: bool
    leader: bool = False
    members: int = 0
    version: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Quorum:
    members: tuple[Member, ...]

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


class Observer:
    """Asks the members again and again over the same connections: on a slow node a TLS handshake costs a second."""

    def __init__(self, servers: Sequence[tuple[str, str]], tls: ssl.SSLContext, patience: float = PATIENCE) -> None:
        self._servers = servers
        self._tls = tls
        self._patience = patience
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Observer:
        timeout = aiohttp.ClientTimeout(total=self._patience)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._tls), timeout=timeout)
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def observe(self) -> Quorum:
        """Ask each (name, address) for itself."""
        assert self._session is not None
        return Quorum(tuple(await asyncio.gather(*(_ask(self._session, name, at) for name, at in self._servers))))


async def _ask(session: aiohttp.ClientSession, name: str, address: str) -> Member:
    base = f"https://{address}:2379"
    try:
        status = await _post(session, f"{base}/v3/maintenance/status")
        if status.get("leader", "0") == "0":
            return Member(name, False, version=status.get("version", ""), problem="no leader yet")
        async with session.get(f"{base}/health") as answer:
            health = await answer.json(content_type=None)
        listed = await _post(session, f"{base}/v3/cluster/member/list")
    except TimeoutError:
        return Member(name, False, problem="no answer in time")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Member(name, False, problem=_reason(error))
    return Member(
        server=name,
        healthy=health.get("health") == "true",
        leader=status["leader"] == status.get("header", {}).get("member_id"),
        members=len(listed.get("members", [])),
        version=status.get("version", ""),
        problem="" if health.get("health") == "true" else "says it is not healthy",
    )


async def _post(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    async with session.post(url, json={}) as answer:
        answer.raise_for_status()
        found: dict[str, Any] = await answer.json(content_type=None)
        return found


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return "no etcd listening"
    return f"{type(error).__name__}: {error}"
