from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from rackless.cli.words import message
from rackless.controllers.runtime.cache import Cache
from rackless.controllers.runtime.controller import Happened, Result, Wake, own
from rackless.controllers.runtime.queue import Queue
from rackless.controllers.runtime.recorder import Recorder
from rackless.controllers.runtime.runtime import Runtime
from rackless.drivers.fake.clock import VirtualClock
from rackless.drivers.fake.resources import MemoryResources
from rackless.events import Bus, Note
from rackless.ports.resources import Conflict, Key, Record, RecordEvent, Refused

THING = "Thing"


def thing(name: str, **spec: Any) -> Record:
    return {"apiVersion": "test/v1", "kind": THING, "metadata": {"name": name}, "spec": spec}


def at(name: str) -> Key:
    return Key(THING, "metal3", name)


@dataclass
class Things:
    """A controller that counts its looks, and does what the test says."""

    cache: Cache
    act: Callable[[Record], Result] = lambda _: Result()
    looks: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)
    pause: Callable[[], Any] | None = None
    more: Sequence[Wake] = ()
    name: str = "things"

    @property
    def wakes(self) -> Sequence[Wake]:
        return (own(self.cache, lambda before, after: before["spec"] != after["spec"]), *self.more)

    async def reconcile(self, key: Key, record: Record | None) -> Result:
        assert key.name not in self.busy, "two looks at once"
        if record is None:
            self.gone.append(key.name)
            return Result()
        self.looks.append(key.name)
        self.busy.add(key.name)
        try:
            if self.pause is not None:
                await self.pause()
            return self.act(record)
        finally:
            self.busy.discard(key.name)

    def troubled(self, record: Record, error: Exception) -> Mapping[str, Any] | None:
        return {**record.get("status", {}), "error": str(error)}

    def stopped(self, key: Key) -> None:
        self.left.append(key.name)


@dataclass
class Bench:
    clock: VirtualClock = field(default_factory=VirtualClock)
    resources: MemoryResources = field(default_factory=MemoryResources)
    seen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bus = Bus()
        self.bus.subscribe(lambda event: self.seen.append(message(event)) if isinstance(event, Note) else None)
        self.runtime = Runtime(self.clock, self.bus, Recorder(now=lambda: f"{self.clock.now():.0f}"))
        self.things = Things(self.runtime.cache(self.resources, THING))
        self.loop = self.runtime.add(self.things)
        self.loop.chance = lambda: 1.0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.runtime.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def wait(self, seconds: float = 0.01) -> None:
        await self.clock.run(self.clock.sleep(seconds))


async def test_what_is_there_and_what_comes_is_looked_at_once_each() -> None:
    bench = Bench()
    await bench.resources.apply(thing("one"))
    async with bench.running():
        await bench.wait()
        await bench.resources.apply(thing("two"))
        await bench.wait()
    assert bench.things.looks == ["one", "two"]
    assert sorted(bench.things.left) == ["one", "two"]


async def test_changes_during_a_look_are_one_more_look_afterwards() -> None:
    bench = Bench()
    bench.things.pause = lambda: bench.clock.sleep(10)
    await bench.resources.apply(thing("one"))
    async with bench.running():
        await bench.wait(1)
        for size in range(5):
            await bench.resources.apply(thing("one", size=size))
        await bench.wait(100)
    assert bench.things.looks == ["one", "one"]


async def test_a_status_that_is_our_own_writing_wakes_nobody() -> None:
    bench = Bench()
    bench.things.act = lambda record: Result(status={"seen": record["spec"]})
    await bench.resources.apply(thing("one", size=1))
    async with bench.running():
        await bench.wait(100)
    assert bench.things.looks == ["one"]
    assert (await bench.resources.list(THING))[0]["status"] == {"seen": {"size": 1}}


async def test_a_look_costs_one_write_and_no_read() -> None:
    bench = Bench()
    bench.things.act = lambda record: Result(status={"seen": record["spec"]})
    await bench.resources.apply(thing("one", size=1))
    bench.resources.calls.clear()
    async with bench.running():
        await bench.wait(100)
    assert bench.resources.calls == {f"watch {THING}": 1, f"patch {THING}": 1}


async def test_who_reads_next_reads_what_was_written_last() -> None:
    bench = Bench()
    seen: list[int] = []

    def count(record: Record) -> Result:
        number = record.get("status", {}).get("count", 0)
        seen.append(number)
        return Result(0.0 if number < 5 else None, status={"count": number + 1})

    bench.things.act = count
    await bench.resources.apply(thing("one"))
    async with bench.running():
        await bench.wait(1)
    assert seen == [0, 1, 2, 3, 4, 5]
    assert bench.loop.counts.conflicts == 0


async def test_somebody_elses_write_in_between_is_looked_at_and_decided_anew() -> None:
    bench = Bench()
    seen: list[Any] = []

    def decide(record: Record) -> Result:
        seen.append(record["spec"].get("size"))
        return Result(status={"size": record["spec"].get("size")})

    async def meanwhile() -> None:
        if not seen:
            bench.things.pause = None
            await bench.resources.apply(thing("one", size=2))

    bench.things.act, bench.things.pause = decide, meanwhile
    await bench.resources.apply(thing("one", size=1))
    async with bench.running():
        await bench.wait(1)
    assert seen[0] == 1 and seen[-1] == 2
    assert bench.loop.counts.conflicts == 1
    assert (await bench.resources.list(THING))[0]["status"] == {"size": 2}


async def test_while_a_watch_says_nothing_conflicts_are_looked_at_ever_more_rarely() -> None:
    """A watch that hangs for an hour let the same object be looked at twenty times a second."""
    bench = Bench()

    async def refuse(*_: Any, **__: Any) -> Record:
        raise Conflict("it is another version by now")

    bench.resources.patch_status = refuse  # type: ignore[method-assign]
    bench.things.act = lambda record: Result(status={"seen": record["spec"]})
    await bench.resources.apply(thing("one"))
    async with bench.running():
        await bench.wait(1)
        assert len(bench.things.looks) == 5
        await bench.wait(59)
    assert len(bench.things.looks) < 25


async def test_an_exception_is_the_trouble_of_one_object_and_told_there() -> None:
    bench = Bench()

    def act(record: Record) -> Result:
        if record["metadata"]["name"] == "bad":
            raise KeyError("surprise")
        return Result(60.0)

    bench.things.act = act
    for name in ("bad", "good", "other"):
        await bench.resources.apply(thing(name))
    async with bench.running():
        await bench.wait(200)
    assert bench.things.looks.count("good") == bench.things.looks.count("other") == 4
    # after 1, 2, 4, 8, 16, 32, 64 seconds
    assert bench.things.looks.count("bad") == bench.loop.counts.errors == 8
    bad = await bench.resources.get(THING, "bad")
    assert bad and bad["status"] == {"error": "'surprise'"}
    (event,) = await bench.resources.list("Event")
    assert event["involvedObject"]["name"] == "bad" and event["type"] == "Warning"
    assert (event["reason"], event["count"]) == ("ReconcileFailed", 8)
    assert event["firstTimestamp"] == "0" and event["lastTimestamp"] == "127"
    assert [line for line in bench.seen if "surprise" in line] == bench.seen[:1]


async def test_after_a_success_the_next_failure_is_a_first_one() -> None:
    bench = Bench()
    results: Iterator[Result | Exception] = iter([KeyError("a"), KeyError("b"), Result(10.0), KeyError("c"), Result()])
    times: list[float] = []

    def act(record: Record) -> Result:
        times.append(bench.clock.now())
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    bench.things.act = act
    await bench.resources.apply(thing("one"))
    async with bench.running():
        await bench.wait(100)
    assert times == [0.0, 1.0, 3.0, 13.0, 14.0]


async def test_what_is_written_and_refused_is_tried_again_and_stops_nobody() -> None:
    class Strict(MemoryResources):
        async def patch_status(self, kind: str, name: str, status: Any, **more: Any) -> Record:
            if name == "bad":
                raise Refused("no", why="not like this")
            return await super().patch_status(kind, name, status, **more)

    bench = Bench(resources=Strict())
    bench.things.act = lambda _: Result(status={"state": "well"})
    await bench.resources.apply(thing("bad"))
    await bench.resources.apply(thing("good"))
    async with bench.running():
        await bench.wait(10)
    good = await bench.resources.get(THING, "good")
    assert good and good["status"] == {"state": "well"}
    assert bench.things.looks.count("bad") == 4


async def test_a_watch_that_fails_is_told_and_begun_again_and_what_went_meanwhile_is_noticed() -> None:
    class Shaky(MemoryResources):
        broken = 0

        async def watch(self, kind: str, **more: Any) -> AsyncGenerator[RecordEvent, None]:
            async for event in super().watch(kind, **more):
                if Shaky.broken:
                    Shaky.broken -= 1
                    raise Refused("the watch is refused", why="not today")
                yield event

    bench = Bench(resources=Shaky())
    await bench.resources.apply(thing("one"))
    await bench.resources.apply(thing("two"))
    async with bench.running():
        await bench.wait(1)
        Shaky.broken = 3
        await bench.resources.apply(thing("three"))
        await bench.resources.delete(THING, "one")
        await bench.wait(100)
    assert bench.things.looks == ["one", "two", "three"]
    assert bench.things.gone == ["one"]
    assert [line for line in bench.seen if "not heard of" in line] == bench.seen
    assert len(bench.seen) == 1


async def test_only_those_whom_a_change_concerns_are_woken() -> None:
    clock, resources = VirtualClock(), MemoryResources()
    runtime = Runtime(clock, Bus())
    cache, secrets = runtime.cache(resources, THING), runtime.cache(resources, "Secret")
    cache.index("secret", lambda record: [record["spec"]["secret"]])
    wake = Wake(secrets, lambda before, after: cache.having("secret", (after or before or {})["metadata"]["name"]))
    things = Things(cache, more=[wake])
    runtime.add(things)
    for number in range(500):
        await resources.apply(thing(f"n{number}", secret=f"s{number}"))
    await resources.apply({"kind": THING, "metadata": {"name": "odd"}, "spec": {}})
    task = asyncio.create_task(runtime.run())
    await clock.run(clock.sleep(1))
    things.looks.clear()
    resources.calls.clear()
    await resources.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "unrelated"}})
    await clock.run(clock.sleep(1))
    assert things.looks == []
    await resources.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s7"}})
    await clock.run(clock.sleep(1))
    assert things.looks == ["n7"]
    await resources.apply(thing("n7", secret="s8"))
    await resources.delete("Secret", "s7")
    await clock.run(clock.sleep(1))
    assert things.looks == ["n7", "n7"]
    assert resources.calls == {"apply Secret": 2, f"apply {THING}": 1, "delete Secret": 1}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_not_more_than_so_many_are_looked_at_at_once() -> None:
    bench = Bench()
    most = 0

    async def pause() -> None:
        nonlocal most
        most = max(most, len(bench.things.busy))
        await bench.clock.sleep(1)

    bench.things.pause, bench.loop.at_once = pause, 3
    for number in range(10):
        await bench.resources.apply(thing(f"n{number}"))
    async with bench.running():
        await bench.wait(10)
    assert most == 3 and len(bench.things.looks) == 10


async def test_an_answer_that_comes_late_does_not_bring_a_deleted_record_back() -> None:
    resources = MemoryResources()
    cache = Cache(resources, THING)
    late = await resources.apply(thing("one"))
    following = asyncio.create_task(cache.follow())
    await cache.synced.wait()
    await resources.delete(THING, "one")
    await asyncio.sleep(0)
    cache.put(late)
    assert cache.get(at("one")) is None
    again = await resources.apply(thing("one"))
    await asyncio.sleep(0)
    cache.put(again)
    assert cache.get(at("one")) == again
    following.cancel()


async def test_an_older_version_does_not_replace_a_newer_one() -> None:
    resources = MemoryResources()
    cache = Cache(resources, THING)
    old = await resources.apply(thing("one", size=1))
    new = await resources.apply(thing("one", size=2))
    heard: list[tuple[Record | None, Record | None]] = []
    cache.listen(lambda before, after: heard.append((before, after)))
    for record in (new, old, new):
        cache.put(record)
    assert cache.get(at("one")) == new
    assert heard == [(None, new)]


async def test_an_event_that_has_expired_is_written_anew() -> None:
    bench = Bench()
    record = await bench.resources.apply(thing("one"))
    async with bench.running():
        for _ in range(2):
            bench.runtime.recorder.tell(bench.resources, "test", record, Happened("Seen", "it was seen"))
        await bench.wait()
        (event,) = await bench.resources.list("Event")
        assert event["count"] == 2
        await bench.resources.delete("Event", event["metadata"]["name"])
        bench.runtime.recorder.tell(bench.resources, "test", record, Happened("Seen", "it was seen"))
        await bench.wait()
    (event,) = await bench.resources.list("Event")
    assert event["count"] == 1


async def test_events_that_cannot_be_written_hold_nobody_up() -> None:
    class Deaf(MemoryResources):
        async def create(self, record: Record) -> Record:
            raise Refused("no events here")

    bench = Bench(resources=Deaf())
    bench.things.act = lambda _: Result(1.0, events=(Happened("Seen", "again"),))
    await bench.resources.apply(thing("one"))
    async with bench.running():
        await bench.wait(100.5)
    assert len(bench.things.looks) == 101 and bench.runtime.recorder.dropped == 101


class Odd(MemoryResources):
    """Answers the writing of an Event as nobody foresaw."""

    async def create(self, record: Record) -> Record:
        if record["kind"] == "Event":
            raise KeyError("nobody foresaw this")
        return await super().create(record)


async def test_an_event_that_raises_ends_neither_the_controllers_nor_the_other_events() -> None:
    bench = Bench(resources=Odd())
    bench.things.act = lambda _: Result(1.0, events=(Happened("Seen", "again"),))
    await bench.resources.apply(thing("one"))
    async with bench.running():
        await bench.wait(10.5)
    assert len(bench.things.looks) == 11 and bench.runtime.recorder.dropped == 11


async def test_an_event_that_expired_while_it_was_forgotten_is_written_anew() -> None:
    """Each of four writers remembers, and makes room, in one table."""
    bench = Bench()
    recorder, resources = bench.runtime.recorder, bench.resources
    record = await resources.apply(thing("one"))

    async def gone(*_: Any, **__: Any) -> Record:
        recorder._written.clear()
        raise Conflict("it has expired")

    async with bench.running():
        recorder.tell(resources, "test", record, Happened("Seen", "a"))
        await bench.wait(1)
        resources.patch = gone  # type: ignore[method-assign]
        recorder.tell(resources, "test", record, Happened("Seen", "a"))
        await bench.wait(1)
    assert recorder.dropped == 0
    assert len([key for key in resources._records if key.kind == "Event"]) == 2


async def test_a_full_recorder_drops_the_oldest() -> None:
    recorder, resources = Recorder(most=1000), MemoryResources()
    record = await resources.apply(thing("one"))
    for number in range(1500):
        recorder.tell(resources, "test", record, Happened("Seen", str(number)))
    assert (recorder.dropped, recorder.waiting) == (500, 1000)


async def test_a_burst_of_a_thousand_objects_is_told_whole_and_in_the_order_of_each() -> None:
    bench = Bench()
    records = [await bench.resources.apply(thing(f"thing-{number}")) for number in range(1000)]
    for number in range(5):
        for record in records:
            bench.runtime.recorder.tell(bench.resources, "test", record, Happened("Seen", str(number)))
    async with bench.running():
        while bench.runtime.recorder.waiting:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert bench.runtime.recorder.dropped == 0
    told: dict[str, list[str]] = {}
    for key in bench.resources._records:
        if key.kind == "Event":
            event = bench.resources._records[key]
            told.setdefault(event["involvedObject"]["name"], []).append(event["message"])
    assert len(told) == 1000 and set(map(tuple, told.values())) == {("0", "1", "2", "3", "4")}


@pytest.mark.parametrize("after", [None, 5.0])
async def test_a_look_now_does_away_with_one_that_was_due_later(after: float | None) -> None:
    clock = VirtualClock()
    queue = Queue(clock)
    queue.add(at("one"))
    assert await queue.get() == at("one")
    queue.done(at("one"), 3.0)
    assert (len(queue), queue.later) == (0, 1)
    queue.add(at("one"))
    queue.add(at("one"))
    assert (len(queue), queue.later) == (1, 0)
    await queue.get()
    queue.done(at("one"), after)
    assert (len(queue), queue.later) == (0, 0 if after is None else 1)
    queue.close()
    assert queue.later == 0
