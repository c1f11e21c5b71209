"""etcd's quorum, seen over the network: every control plane is asked, and only its own answer counts."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any

import aiohttp

from rackless.ports.nodes import Quorum, QuorumMember

CLIENT_PORT = 2379


class Observer:
    """Asks the members again and again over the same connections: on a slow node a TLS handshake costs a second."""

    def __init__(self, servers: Sequence[tuple[str, str]], tls: ssl.SSLContext, patience: float) -> None:
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


async def _ask(session: aiohttp.ClientSession, name: str, address: str) -> QuorumMember:
    base = f"https://{address}:{CLIENT_PORT}"
    try:
        status = await _post(session, f"{base}/v3/maintenance/status")
        if status.get("leader", "0") == "0":
            return QuorumMember(name, False, version=status.get("version", ""), problem="no leader yet")
        async with session.get(f"{base}/health") as answer:
            health = await answer.json(content_type=None)
        listed = await _post(session, f"{base}/v3/cluster/member/list")
    except TimeoutError:
        return QuorumMember(name, False, problem="no answer in time")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return QuorumMember(name, False, problem=_reason(error))
    return QuorumMember(
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
