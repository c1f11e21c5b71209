import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rackless.simulation.person import Person
from rackless.simulation.world import looked_at_once


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    """Nobody cuts the power of this computer, so nothing is waited for: a lab comes to a hundred syncs. What a power cut leaves
    of files is the simulator's matter, whose disk counts them."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    with looked_at_once():
        yield Person(tmp_path)
