"""An etcd that is full: what the store does about it, and what it says meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from rackless.api.stores import messages, room
from rackless.api.stores.port import StoreUnreachable
from rackless.api.wire import field, integer, parts


class FullEtcd:
    """As much of etcd as has to do with room: live bytes, history, an alarm that refuses writes until it is taken back."""

    def __init__(self, live: int, history: int) -> None:
        self.live, self.history, self.file = live, history, live + history
        self.alarm = True
        self.asked: list[str] = []
        self.away = False

    async def ask(self, method: str, message: bytes) -> bytes:
        self.asked.append(method)
        if self.away:
            raise StoreUnreachable("etcd cannot be reached")
        if method == "Maintenance/Alarm":
            if dict(parts(message)).get(1) == 2:
                self.alarm = False
            return field(2, integer(1, 7) + integer(2, 1)) if self.alarm else b""
        assert method == "KV/Put" and not self.alarm
        return b""

    async def ask_members(self, method: str) -> list[bytes]:
        self.asked.append(method)
        if method == "Maintenance/Defragment":
            self.file = self.live + self.history
        return [integer(3, self.file)]

    async def compact(self) -> None:
        self.history = 0


def room_of(etcd: FullEtcd) -> room.EtcdRoom:
    return room.EtcdRoom(etcd.ask, etcd.ask_members, etcd.compact)


async def test_room_is_made_at_once_where_only_the_history_was_large() -> None:
    etcd = FullEtcd(live=100, history=900)
    space = room_of(etcd)
    space.refused("full")
    assert space.problem == "full"
    assert await space.soon()
    assert not space.problem and not etcd.alarm


async def test_an_etcd_full_of_objects_stays_full_until_some_of_them_are_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "FIRST_PAUSE", 0.001)
    etcd = FullEtcd(live=950, history=50)
    space = room_of(etcd)
    space.refused("full")
    assert not await space.soon()
    assert space.problem == "full" and etcd.alarm, "a small write would fit, and the next ones would not"
    etcd.live, etcd.history = 850, 100
    async with asyncio.timeout(30):
        while space.problem:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert not etcd.alarm
    await space.close()


async def test_who_writes_while_etcd_is_known_to_be_full_is_told_so_without_waiting() -> None:
    etcd = FullEtcd(live=950, history=50)
    space = room_of(etcd)
    space.refused("full")
    assert not await space.soon()
    rounds = etcd.asked.count("Maintenance/Defragment")
    space.refused("still full")
    assert not await space.soon()
    assert etcd.asked.count("Maintenance/Defragment") == rounds
    await space.close()


async def test_an_etcd_that_went_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "FIRST_PAUSE", 0.001)
    etcd = FullEtcd(live=100, history=900)
    etcd.away = True
    space = room_of(etcd)
    space.refused("full")
    assert not await space.soon()
    etcd.away = False
    async with asyncio.timeout(30):
        while space.problem:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_closing_answers_those_who_wait_for_room() -> None:
    etcd = FullEtcd(live=100, history=900)
    never = asyncio.Event()

    async def stuck() -> None:
        await never.wait()

    space = room.EtcdRoom(etcd.ask, etcd.ask_members, stuck)
    space.refused("full")
    waiting = asyncio.create_task(space.soon())
    await asyncio.sleep(0)
    await space.close()
    assert await waiting is False


def test_the_size_of_a_database_is_read_from_a_members_status() -> None:
    assert messages.database_size(field(1, b"") + field(2, b"3.4.23") + integer(3, 123456) + integer(9, 1)) == 123456
