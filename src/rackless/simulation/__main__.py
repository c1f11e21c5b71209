"""`scripts/simulate`: seeds, a trace, a small story of what failed. See docs/explanation/simulator.md."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rackless.simulation import coverage
from rackless.simulation.campaign import StoryTold, run_seeds, side_by_side, tell, warm_up
from rackless.simulation.invariants import EXPECTED
from rackless.simulation.shrink import shrink
from rackless.simulation.story import compose

HASH_SEED = "0"
"""Sets of words are gone through in an order that Python draws at its start, unless it is told this."""
MOST_SHRUNK = 5
"""Failing seeds that are made small; the others are named."""


def main() -> None:
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        words = [sys.executable, "-m", "rackless.simulation", *sys.argv[1:]]
        os.execve(sys.executable, words, {**os.environ, "PYTHONHASHSEED": HASH_SEED})
    logging.disable()  # what labd logs is in its log; here it would be told a thousand times
    given = _parse(sys.argv[1:])
    load_everything()
    warm_up()
    if given.seed is not None:
        sys.exit(_one(given.seed, given.faults, given.trace))
    sys.exit(_many(given.first, given.seeds, given.jobs, given.coverage))


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=50, metavar="N", help="live through so many seeds")
    parser.add_argument("--first", type=int, default=0, metavar="S", help="beginning with this one")
    parser.add_argument("--seed", type=int, metavar="S", help="live through this one, and tell its story")
    parser.add_argument("--faults", metavar="I,J…", help="with only these of its faults, as a shrunk story names them")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write down every step of that seed")
    parser.add_argument(
        "--coverage", type=int, default=0, metavar="N", help="count lines at every N-th seed, and fail when few are run"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (2)")
    return parser.parse_args(words)


def load_everything() -> None:
    """Before the first fork, so that no seed has to."""
    import rackless.holder.main
    import rackless.images.catalogue
    import rackless.labd.main  # noqa: F401


def _one(seed: int, faults: str | None, trace: Path | None) -> int:
    kept = None if faults is None else [int(word) for word in faults.split(",") if word]
    told: StoryTold = next(side_by_side([lambda: tell(seed, kept, whole=True)], 1))
    if trace is not None:
        trace.write_text("".join(f"{line}\n" for line in told.whole))
    print(describe(told) if told.wrong else f"seed {seed}: nothing wrong")
    print(f"trace {told.digest}, {len(told.whole)} steps")
    return 1 if told.wrong else 0


def _many(first: int, seeds: int, jobs: int, count_every: int) -> int:
    begun, failed, done = time.monotonic(), list[StoryTold](), 0
    lines: set[tuple[str, int]] = set()
    for told in run_seeds(range(first, first + seeds), jobs, count_every=count_every):
        done += 1
        lines |= told.lines
        if told.wrong:
            failed.append(told)
            print(f"seed {told.seed}: {told.wrong[0]}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{done} of {seeds}", end="", file=sys.stderr, flush=True)
    for told in sorted(failed, key=lambda one: one.seed)[:MOST_SHRUNK]:
        print(f"\n{describe(shrink(told))}")
    seconds = time.monotonic() - begun
    print(f"{done} seeds in {seconds:.0f} s, {len(failed)} wrong")
    covered = not count_every or _covered(lines)
    return 0 if covered and not failed else 1


def _covered(lines: set[tuple[str, int]]) -> bool:
    found = coverage.measured(lines)
    for package, (run, there) in found.items():
        print(f"{package:<14} {run:>5} of {there:>5} lines, {100 * run / there:.0f} %")
    for file, left in coverage.missed(lines):
        print(f"  not run of {file}: {len(left)}: {_ranges(left)}")
    enough = coverage.percent(found) >= coverage.AT_LEAST
    print(f"together {coverage.percent(found):.1f} %{'' if enough else f', and {coverage.AT_LEAST} % are wanted'}")
    return enough


def _ranges(numbers: Sequence[int]) -> str:
    """`3-5, 9`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ", ".join("-".join(map(str, each)) for each in found)


def describe(told: StoryTold) -> str:
    """A failing story for a person: what was expected, what was planted, who did what and when, and how to see it again."""
    scenario = compose(told.seed)
    ending = "up, up" if scenario.again == "up" else scenario.again
    demand, _, seen = (told.wrong[0] if told.wrong else ": nothing wrong").partition(": ")
    planted = [f"  {index}: {scenario.faults[index]}" for index in told.kept] or ["  nothing"]
    return "\n".join(
        (
            f"seed {told.seed}: {demand}",
            f"expected: {EXPECTED.get(demand, 'that the simulator itself works')}",
            f"seen: {seen}",
            *(f"and: {more}" for more in told.wrong[1:]),
            f"the lab: {', '.join(scenario.lab.splitlines()[1:])}",
            f"the person runs: {', '.join(scenario.verbs)}; and when all faults are over: {ending}, destroy",
            f"planted, {len(told.kept)} of the seed's {len(scenario.faults)} faults:",
            *planted,
            "what happened (seconds of the story, who, what they called or `changed:`):",
            *(f"  {line}" for line in told.story),
            f"again: scripts/simulate --seed {told.seed} --faults {','.join(map(str, told.kept)) or ','}",
        )
    )


if __name__ == "__main__":
    main()
