import pytest

from rackless.errors import GaveUp
from rackless.run.waiting import until


class VirtualClock:
    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


async def test_a_wait_ends_as_soon_as_the_thing_is_there() -> None:
    clock = VirtualClock()
    seen: list[str] = []

    async def look() -> tuple[bool, str]:
        return clock.time >= 30, "booting" if clock.time < 20 else "almost"

    await until(look, what="the node", within=60, every=5, clock=clock, seen=seen.append)
    assert (clock.time, seen) == (30, ["booting", "almost"])


async def test_a_wait_that_gives_up_says_for_what_how_long_and_what_it_saw_last() -> None:
    async def look() -> tuple[bool, str]:
        return False, "power is off"

    with pytest.raises(GaveUp) as caught:
        await until(look, what="the agent of ctrl-0", within=60, every=5, clock=VirtualClock())
    assert caught.value.what == "gave up waiting for the agent of ctrl-0 after 60 s"
    assert caught.value.why == "last seen: power is off"
