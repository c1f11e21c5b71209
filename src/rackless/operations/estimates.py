"""What runs on this computer teach about the next one: `up` writes down how long its steps took, and tells what is usual."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from rackless.diagnosis.estimates import Estimates, Learner, load, save
from rackless.events import Bus
from rackless.run.paths import Roots


def known_estimates(roots: Roots) -> Estimates:
    return load(roots.durations)


@contextmanager
def learning(bus: Bus, roots: Roots, servers: int) -> Iterator[None]:
    """Learn from what is told on the bus, for a lab with so many servers. Two labs may do so at once: the later to write may
    forget what the other learnt in the same moment, which costs a run of twenty."""

    def keep(learnt: Mapping[str, list[float]]) -> None:
        with suppress(OSError):  # a full disk
            estimates = load(roots.durations)
            estimates.learn(learnt)
            save(roots.durations, estimates)

    learner = Learner(servers, keep)
    unsubscribe = bus.subscribe(learner)
    try:
        yield
    finally:
        unsubscribe()
        learner.flush()
