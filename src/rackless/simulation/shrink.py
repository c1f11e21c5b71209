"""A failing story made small: faults are left out for as long as the same demand is still not met."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations

from rackless.simulation.campaign import StoryTold, side_by_side, tell

Try = Callable[[tuple[int, ...]], StoryTold]


def broken(told: StoryTold) -> str:
    """The first demand that was not met, by its name."""
    return told.wrong[0].partition(":")[0] if told.wrong else ""


def shrink(failing: StoryTold, attempt: Try | None = None) -> StoryTold:
    """The same failure with the fewest faults that were found to do: none, each alone, each pair, then one less at a time."""
    attempt = attempt or (lambda kept: _forked(failing.seed, kept))
    best = failing
    few: Iterable[tuple[int, ...]] = (kept for many in range(3) for kept in combinations(failing.kept, many))
    for kept in few:
        if len(kept) < len(best.kept) and broken(found := attempt(kept)) == broken(failing):
            return found
    smaller = True
    while smaller:
        smaller = False
        for index in best.kept:
            found = attempt(tuple(kept for kept in best.kept if kept != index))
            if broken(found) == broken(failing):
                best, smaller = found, True
                break
    return best


def _forked(seed: int, kept: tuple[int, ...]) -> StoryTold:
    found: StoryTold = next(side_by_side([lambda: tell(seed, kept)], 1))
    return found
