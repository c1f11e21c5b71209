"""A watch outlives what nobody expected."""

from __future__ import annotations

import asyncio

import pytest

from rackless.drivers.fake.clock import VirtualClock
from rackless.events import Bus, Note
from rackless.run.watching import AGAIN_SECONDS, go_on


class Watch:
    """Fails as it is told, once each, and ends then."""

    def __init__(self, *errors: str) -> None:
        self.clock, self.bus, self.notes = VirtualClock(), Bus(), list[Note]()
        self.bus.subscribe(lambda event: self.notes.append(event) if isinstance(event, Note) else None)
        self._errors = list(errors)
        self.begun: list[float] = []

    async def __call__(self) -> None:
        self.begun.append(self.clock.now())
        if self._errors:
            raise KeyError(self._errors.pop(0))

    async def run(self) -> None:
        await self.clock.run(go_on(self, "looking", self.bus, self.clock))


async def test_one_that_fails_is_told_and_begun_again_after_a_while() -> None:
    watch = Watch("nobody expected this")
    await watch.run()
    first, second = watch.begun
    assert second - first == AGAIN_SECONDS
    (note,) = watch.notes
    assert (note.code, note.level, note.values["what"]) == ("watch-failed", "warning", "looking")
    assert note.values["why"] == "KeyError: 'nobody expected this'"


async def test_the_same_error_in_a_row_is_told_once_and_another_one_again() -> None:
    watch = Watch("a", "a", "b", "a")
    await watch.run()
    assert [note.values["why"] for note in watch.notes] == ["KeyError: 'a'", "KeyError: 'b'", "KeyError: 'a'"]
    assert len(watch.begun) == 5


async def test_one_that_has_nothing_to_do_ends_and_one_that_is_cancelled_too() -> None:
    watch = Watch()
    await watch.run()
    assert len(watch.begun) == 1 and not watch.notes
    task = asyncio.create_task(go_on(asyncio.Event().wait, "looking", watch.bus, watch.clock))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not watch.notes
