"""Which files of the real tier run side by side: `pytest -m "real and not alone" -n 2 --dist loadfile`, as `scripts/test` does.

Each test of the real tier has a pretend host or namespaces of its own, so that files can be neighbours; the tests of one file
follow each other. Tests marked `alone` need the computer for themselves and are run without workers.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.order import GUESTS


class SideBySide(LoadFileScheduling):  # type: ignore[misc]
    """Files in the order in which they were collected, and `GUESTS` as if they were one."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False  # by the number of tests, which says nothing about minutes
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return GUESTS[0] if file in GUESTS else file
