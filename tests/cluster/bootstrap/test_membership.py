"""Joining etcd: as a learner first, and as a voter when it has caught up."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from rackless.cluster.bootstrap.membership import EtcdMembership, await_voter, ensure_learner
from rackless.drivers.fake.clock import VirtualClock

PEER = "https://192.168.111.20:2380"


class Gateway:
    """As much of etcd's JSON gateway as is asked, with its way to write numbers."""

    def __init__(self) -> None:
        self.members: list[dict[str, Any]] = [
            {"ID": "18249187646912138824", "name": "bootstrap", "peerURLs": ["https://bootstrap:2380"]}
        ]
        self.behind = 2
        """So many times a learner is not in sync yet."""

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        match request.match_info["what"]:
            case "add":
                self.members.append({"ID": "7", "peerURLs": body["peerURLs"], "isLearner": body["isLearner"]})
                return web.json_response({"member": self.members[-1], "members": self.members})
            case "promote" if self.behind:
                self.behind -= 1
                error = "etcdserver: can only promote a learner member which is in sync with leader"
                return web.json_response({"error": error, "code": 9}, status=400)
            case "promote":
                next(each for each in self.members if each["ID"] == body["ID"]).pop("isLearner")
            case "remove":
                self.members = [each for each in self.members if each["ID"] != body["ID"]]
        return web.json_response({"members": self.members})


@pytest.fixture
async def gateway() -> AsyncIterator[tuple[Gateway, EtcdMembership]]:
    served = Gateway()
    app = web.Application()
    app.router.add_post("/v3/cluster/member/{what}", served.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with EtcdMembership(f"http://127.0.0.1:{runner.addresses[0][1]}", ssl.create_default_context()) as etcd:
        yield served, etcd
    await runner.cleanup()


class Hurried(VirtualClock):
    async def sleep(self, seconds: float) -> None:
        return


async def test_a_member_is_added_once_and_told_of_the_others(gateway: tuple[Gateway, EtcdMembership]) -> None:
    served, etcd = gateway
    for _ in range(2):
        assert await ensure_learner(etcd, PEER) == "bootstrap=https://bootstrap:2380"
    assert [each.get("isLearner", False) for each in served.members] == [False, True]


async def test_it_votes_when_it_has_started_and_caught_up(gateway: tuple[Gateway, EtcdMembership]) -> None:
    served, etcd = gateway
    await ensure_learner(etcd, PEER)
    served.members[-1]["name"] = "ctrl-0"
    await await_voter(etcd, PEER, Hurried())
    assert served.behind == 0 and [each.votes for each in await etcd.members()] == [True, True]
    await etcd.remove((await etcd.members())[0])
    assert [each.name for each in await etcd.members()] == ["ctrl-0"]
