"""The tests that take long are left out unless somebody asks for them; none is hurried on a machine that is busy."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background, for all we start too
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="Run only the tests that take long, such as the kill matrix.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    long = bool(config.getoption("--long"))
    others = [item for item in items if (item.get_closest_marker("long") is not None) is not long]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
