"""Who is a member of etcd: joining as a learner, becoming a voter, leaving. Over etcd's JSON gateway."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp

from rackless.errors import RacklessError
from rackless.ports.clock import Clock
from rackless.run.waiting import until

PROMOTED_WITHIN = 900.0
LOOK_EVERY = 1.0
"""Seconds between two tries to become a voter: the next one of the control plane waits for it."""
_ANSWER_SECONDS = 30.0


class EtcdRefused(RacklessError):
    """etcd does not answer, or says no, for now."""


@dataclass(frozen=True, slots=True)
class EtcdPeer:
    id: str
    name: str
    """Empty until it has started for the first time."""
    peer: str
    learner: bool

    @property
    def votes(self) -> bool:
        return bool(self.name) and not self.learner


class EtcdMembership:
    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        self._url = url
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls), timeout=timeout, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def members(self) -> list[EtcdPeer]:
        found = await self._ask("list", {})
        return [_read(each) for each in found.get("members", ())]

    async def add_learner(self, peer: str) -> EtcdPeer:
        return _read((await self._ask("add", {"peerURLs": [peer], "isLearner": True}))["member"])

    async def promote(self, member: EtcdPeer) -> None:
        await self._ask("promote", {"ID": member.id})

    async def remove(self, member: EtcdPeer) -> None:
        await self._ask("remove", {"ID": member.id})

    async def _ask(self, what: str, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            async with self._session.post(f"{self._url}/v3/cluster/member/{what}", json=dict(body)) as answer:
                found = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise EtcdRefused("etcd does not answer", why=f"{type(error).__name__}: {error}") from error
        if answer.status != 200 or not isinstance(found, dict):
            raise EtcdRefused(f"etcd refused to {what} a member", why=str(found)[:300])
        return found


def _read(each: Mapping[str, Any]) -> EtcdPeer:
    peers = each.get("peerURLs") or [""]
    return EtcdPeer(str(each["ID"]), str(each.get("name", "")), str(peers[0]), bool(each.get("isLearner")))


async def ensure_learner(etcd: EtcdMembership, peer: str) -> str:
    """We are among the members, at least as a learner; what etcd wants to be told of the others, `NAME=PEER` each."""
    members = await etcd.members()
    if not any(each.peer == peer for each in members):
        await etcd.add_learner(peer)
        members = await etcd.members()
    return ",".join(f"{each.name}={each.peer}" for each in members if each.name and each.peer != peer)


async def await_voter(etcd: EtcdMembership, peer: str, clock: Clock) -> None:
    """Promoted as soon as it has caught up: until then etcd refuses. Raises GaveUp."""

    async def votes() -> tuple[bool, str]:
        try:
            (mine,) = [each for each in await etcd.members() if each.peer == peer]
            if mine.votes:
                return True, "votes"
            if mine.name:
                await etcd.promote(mine)
            return False, "is a learner" if mine.name else "has not started"
        except (EtcdRefused, ValueError) as error:
            return False, str(error)

    await until(votes, what=f"the etcd member {peer} to vote", within=PROMOTED_WITHIN, every=LOOK_EVERY, clock=clock)
