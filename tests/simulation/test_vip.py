"""The VIP of a story: the rules of the program that nodes run, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from rackless.node.vip import holding
from rackless.simulation.vip import VipKeeper, Wire
from rackless.simulation.world import make_world

NAMES = ("ctrl-0", "ctrl-1", "ctrl-2")


class Rack:
    """Machines with the program, who of them leads to a ready API, and whose etcd answers."""

    def __init__(self) -> None:
        self.wire = Wire(self._changed)
        self.ready: set[str] = set(NAMES)
        self.connected: set[str] = set(NAMES)
        self.seen: list[list[str]] = []
        self.running: dict[str, tuple[VipKeeper, asyncio.Task[None]]] = {}

    def _changed(self) -> None:
        self.seen.append(self.wire.holders())

    def start(self, name: str) -> None:
        keeper = VipKeeper(name, lambda: name in self.ready, lambda: name in self.connected, self.wire)
        self.running[name] = keeper, asyncio.get_running_loop().create_task(keeper.run())

    def stop(self, name: str, *, said: bool) -> None:
        keeper, task = self.running.pop(name)
        task.cancel()
        keeper.end(said=said)

    def live(self, story: Coroutine[Any, Any, None]) -> None:
        async def whole() -> None:
            for name in NAMES:
                self.start(name)
            watching = asyncio.get_running_loop().create_task(self._watch())
            await story
            watching.cancel()
            for name in [*self.running]:
                self.stop(name, said=False)
            await asyncio.sleep(0)

        make_world().run(whole())
        assert [holders for holders in self.seen if len(holders) > 1] == []

    async def _watch(self) -> None:
        while True:
            self.seen.append(self.wire.holders())
            await asyncio.sleep(0.2)

    async def await_holder(self, within: float, but: str = "") -> str:
        for _ in range(int(within * 10)):
            if (found := self.wire.holders()) not in ([], [but]):
                return found[0]
            await asyncio.sleep(0.1)
        raise AssertionError(f"still {self.wire.holders()} after {within} s")


@pytest.mark.parametrize(("said", "within"), [(True, 3), (False, 17)], ids=["asked to go", "dead"])
def test_the_vip_goes_from_one_to_another_and_never_to_two(said: bool, within: float) -> None:
    rack = Rack()

    async def story() -> None:
        first = await rack.await_holder(8)
        rack.stop(first, said=said)
        second = await rack.await_holder(within, but=first)
        assert second != first
        await asyncio.sleep(60)
        assert rack.wire.holders() == [second]
        rack.ready.discard(second)
        third = await rack.await_holder(5, but=second)
        assert third not in (first, second)

    rack.live(story())


@pytest.mark.parametrize("seconds", [1, 5, 9, 11, 30, 60])
def test_a_program_that_stands_still_loses_it_before_another_takes_it(seconds: float) -> None:
    rack = Rack()

    async def story() -> None:
        first = await rack.await_holder(8)
        await asyncio.sleep(7.3)
        keeper, _ = rack.running[first]
        keeper.stopped = True
        await asyncio.sleep(seconds)
        keeper.stopped = False
        await asyncio.sleep(60)
        assert len(rack.wire.holders()) == 1

    rack.live(story())


def test_one_whose_etcd_does_not_answer_lets_it_go_and_nobody_has_it_without_a_quorum() -> None:
    rack = Rack()

    async def story() -> None:
        first = await rack.await_holder(8)
        rack.connected.discard(first)
        second = await rack.await_holder(20, but=first)
        rack.connected.clear()
        await asyncio.sleep(holding.HOLD_SECONDS + holding.LOOK_SECONDS)
        assert rack.wire.holders() == []
        rack.connected |= set(NAMES)
        await rack.await_holder(15)
        assert second != first

    rack.live(story())


def test_rules_that_let_others_take_it_too_early_show_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "TAKE_SECONDS", 5.0)
    monkeypatch.setattr(VipKeeper, "others", lambda self: [])
    rack = Rack()

    async def story() -> None:
        first = await rack.await_holder(8)
        rack.running[first][0].stopped = True
        await asyncio.sleep(9)

    with pytest.raises(AssertionError, match="ctrl-0"):
        rack.live(story())
