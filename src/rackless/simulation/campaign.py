"""Many seeds, each in a forked process of its own, which is gone with all that its story left in memory."""

from __future__ import annotations

import gc
import os
import pickle
import selectors
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackless.simulation.api import compile_schemas
from rackless.simulation.coverage import watched
from rackless.simulation.story import describe_labs, simulate

MEMORY = Path("/dev/shm")
"""Where files are in memory; a story syncs them thousands of times."""


@dataclass(frozen=True, slots=True)
class StoryTold:
    """What came of a seed."""

    seed: int
    kept: tuple[int, ...]
    digest: str
    wrong: tuple[str, ...]
    story: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    lines: frozenset[tuple[str, int]] = frozenset()
    """Lines of code that were run, when they were counted."""


Work = Callable[[], Any]


def tell(
    seed: int,
    keep: Collection[int] | None = None,
    *,
    whole: bool = False,
    count: bool = False,
    known: Collection[tuple[str, int]] = (),
) -> StoryTold:
    """Live through a seed in this process; only for one that ends soon afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="rackless-simulate.", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        if count:
            outcome, lines = watched(lambda: simulate(seed, folder, keep), known)
        else:
            outcome, lines = simulate(seed, folder, keep), frozenset()
        trace = outcome.trace
        assert trace is not None
        return StoryTold(
            seed,
            outcome.kept,
            outcome.digest,
            tuple(outcome.wrong),
            tuple(trace.told()) if outcome.wrong else (),
            tuple(map(str, trace.lines)) if whole else (),
            lines,
        )
    except Exception:
        return StoryTold(seed, tuple(keep or ()), "", (f"the simulator itself failed:\n{traceback.format_exc()}",))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def warm_up() -> None:
    """Live through a calm story, before the first fork: what a process computes once and keeps, no seed has to compute then.

    Nothing that a story left behind is collected, here or in the processes that are forked: that would run what the dead never
    came to.
    """
    gc.disable()
    tell(0, ())
    compile_schemas()
    describe_labs()
    gc.freeze()


def side_by_side(works: Iterable[Work], jobs: int) -> Iterator[Any]:
    """Do each work in a forked process, so many at a time; results come as they are done."""
    ready = selectors.DefaultSelector()
    left = iter(works)
    running = 0
    while True:
        while running < jobs and (work := next(left, None)) is not None:
            handle, pid = _fork(work)
            ready.register(handle, selectors.EVENT_READ, (pid, bytearray()))
            running += 1
        if not running:
            return
        for key, _ in ready.select():
            handle, (pid, data) = key.fd, key.data
            if piece := os.read(handle, 1 << 16):
                data.extend(piece)
                continue
            ready.unregister(handle)
            os.close(handle)
            os.waitpid(pid, 0)
            running -= 1
            yield pickle.loads(bytes(data))


def _fork(work: Work) -> tuple[int, int]:
    """The end of a pipe at which the result of the work can be read, and who does it."""
    near, far = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    if pid := os.fork():
        os.close(far)
        return near, pid
    try:
        os.close(near)
        gc.disable()  # when it would come is nobody's to say, and what it collects may do something at its end
        data = pickle.dumps(work())
        while data:
            data = data[os.write(far, data) :]
    finally:
        os._exit(0)  # nothing of the story is cleaned up: collecting the dead would run what they never came to


def run_seeds(seeds: Iterable[int], jobs: int, *, whole: bool = False, count_every: int = 0) -> Iterator[StoryTold]:
    """Of every `count_every`-th seed the lines of code that it runs are told, but for those that seeds before it have run."""
    known: set[tuple[str, int]] = set()

    def work(seed: int) -> Work:
        count = bool(count_every) and seed % count_every == 0
        return lambda: tell(
            seed, whole=whole, count=count, known=known
        )  # forked when the work begins, with what is known then

    for told in side_by_side(map(work, seeds), jobs):
        known |= told.lines
        yield told
