"""The simulator finds bugs: each that is planted is found within so many seeds; two of them here, with a seed that does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.simulation.planted import PLANTED

SEEDS = 500
WITHIN = 3000.0
"""Seconds: a bug may let a story go on and on, and a test does not."""


def hunt(name: str, *numbers: int) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the bug stays in it."""
    words = [sys.executable, "-m", "tests.simulation.planted", name, *map(str, numbers)]
    return subprocess.run(words, capture_output=True, text=True, timeout=WITHIN)


@pytest.mark.parametrize(
    ("name", "seed", "demand"),
    [
        ("ledger_line_after_the_thing", 0, "the_ledger_covers_all_that_exists"),
        ("patch_without_a_version", 52, "nothing_acknowledged_is_lost"),
    ],
)
def test_a_planted_bug_is_found_by_a_known_seed(name: str, seed: int, demand: str) -> None:
    found = hunt(name, seed, 1)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.splitlines()[1].startswith(demand)


@pytest.mark.long("simulate")
@pytest.mark.parametrize("name", sorted(PLANTED))
def test_every_planted_bug_is_found_within_500_seeds(name: str) -> None:
    found = hunt(name, 0, SEEDS)
    assert found.returncode == 0, found.stdout + found.stderr
