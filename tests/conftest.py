"""The tests that take long are left out unless somebody asks for them; none is hurried on a machine that is busy."""

from __future__ import annotations

import gc
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from tests.forks import Forks
from tests.order import agree_on_the_day, longest_first
from tests.skips import Skips

REAL = Path(__file__).parent / "real"
PARTS = pytest.StashKey[Counter[str]]()

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background, for all we start too
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="Run only the tests that take long, such as the kill matrix.")
    parser.addoption("--part", metavar="PART", help="Of the long tests, run this part.")
    parser.addoption("--parts", action="store_true", help="List the parts of the long tests, and run none.")
    parser.addoption("--forks", type=int, default=0, metavar="N", help="Collect once, and run the tests in N forks.")
    parser.addoption("--no-new-skips", action="store_true", help="Fail when a skip is not listed in tests/skips.toml.")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--no-new-skips"):
        config.pluginmanager.register(Skips(config))
    if config.getoption("--forks"):
        config.pluginmanager.register(Forks(config.getoption("--forks")))
    agree_on_the_day()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    if config.getoption("dist") != "loadfile":
        return None
    from tests.side_by_side import SideBySide  # where there are no workers there may be no xdist

    return SideBySide(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The files of the real tier are not even read where it is left out: that is a seventh of what collecting takes."""
    return True if collection_path == REAL and "not real" in config.getoption("markexpr") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part, parts = config.getoption("--part"), bool(config.getoption("--parts"))
    long = bool(config.getoption("--long")) or part is not None or parts
    wanted = [item for item in items if (item.get_closest_marker("long") is not None) is long]
    if parts:
        config.stash[PARTS] = Counter(map(part_of, wanted))
        wanted = []
    elif part is not None:
        there = sorted({part_of(item) for item in wanted})
        if part not in there:
            raise pytest.UsageError(f"there is no part {part}; there is: {' '.join(there)}")
        wanted = [item for item in wanted if part_of(item) == part]
    if len(wanted) < len(items):
        chosen = set(wanted)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = wanted
    longest_first(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is there now stays: looking for garbage in it, and after every 700 objects, takes a sixteenth of the time."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    if session.config.option.collectonly:
        _let_hypothesis_read_all_modules()


@settings(max_examples=1, database=None)
@given(some.integers(), some.text())
def _let_hypothesis_read_all_modules(number: int, text: str) -> None:
    """Before its first example Hypothesis looks for constants in every module that was imported, and keeps what it found in files:
    nearly two seconds of processor time, which in a fresh clone the unit tier would take."""


def part_of(item: pytest.Item) -> str:
    """What its marker says, or its file: at most an hour each."""
    marker = item.get_closest_marker("long")
    if marker is not None and marker.args:
        return str(marker.args[0])
    return item.path.stem.removeprefix("test_").replace("_", "-")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for part, count in sorted(config.stash.get(PARTS, Counter[str]()).items()):
        terminalreporter.line(f"{part:<32} {count:>3} {'test' if count == 1 else 'tests'}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Coroutines of processes that a test killed are collected while there is an interpreter: at its end, Python 3.11 dies of
    them. A worker of xdist ends without looking."""
    if not hasattr(config, "workerinput"):
        gc.unfreeze()
        gc.collect()
