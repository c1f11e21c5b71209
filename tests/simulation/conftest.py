import os
from functools import cache
from pathlib import Path

import pytest

from rackless.images import wheel
from rackless.simulation.person import Person

_load_sources = cache(wheel.load_sources)


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Nobody cuts the power of this computer, so nothing is waited for: a lab comes to a hundred syncs. What a power cut leaves
    of files is the simulator's matter, whose disk counts them. The files of this very package are read for the first lab only."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(wheel, "load_sources", _load_sources)
    return Person(tmp_path)
