"""How long an `up` takes on this computer: each `up` writes down how long its steps took, and the next one estimates from that."""

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
    """Record the durations of steps from the events on the bus, for a lab with this many servers. Two labs may do so at once: the
    later write may drop what the other one recorded in the same moment, which is one run of twenty."""

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
