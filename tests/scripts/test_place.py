"""A measurement that makes labs ends what it made, however it ends itself."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[2] / "scripts/benchmarks/parts/place.py"
RACKLESS = """\
import json, os, sys
state = os.environ["RACKLESS_STATE"]
os.makedirs(state, exist_ok=True)
if sys.argv[1] == "list":
    print(json.dumps([{"lab": name} for name in sorted(os.listdir(state))]))
elif sys.argv[1] == "destroy":
    if sys.argv[-1] == "stubborn":
        sys.exit(1)
    os.rmdir(os.path.join(state, sys.argv[-1]))
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """With a `rackless` whose labs are folders, on a computer that has everything."""
    spec = importlib.util.spec_from_file_location("place", FILE)
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/tools").write_text(f"#!/bin/sh\ntouch {tmp_path}/installed\n")
    (tmp_path / "scripts/tools").chmod(0o755)
    (tmp_path / "rackless.py").write_text(RACKLESS)
    monkeypatch.setattr(found, "ROOT", tmp_path)
    monkeypatch.setattr(found, "RACKLESS", [sys.executable, str(tmp_path / "rackless.py")])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("RACKLESS_STATE", "RACKLESS_RUN"):
        monkeypatch.setenv(name, "elsewhere")
    return found


def make(lab: str) -> None:
    os.makedirs(os.path.join(os.environ["RACKLESS_STATE"], lab))


@pytest.mark.parametrize("end", ["well", "failing", "interrupted", "told to end"])
def test_labs_are_ended_and_the_folder_goes_however_it_ends(place: ModuleType, tmp_path: Path, end: str) -> None:
    before, handled = Path.cwd(), signal.getsignal(signal.SIGTERM)
    ways = {"failing": RuntimeError, "interrupted": KeyboardInterrupt, "told to end": SystemExit}

    def measure() -> Path:
        with place.place() as folder:
            assert (tmp_path / "installed").exists(), "what it needs comes first"
            assert Path.cwd() == folder and os.environ["RACKLESS_STATE"] == f"{folder}/state"
            made.append(folder)
            make("lab")
            make("other")
            if end == "told to end":
                os.kill(os.getpid(), signal.SIGTERM)
            elif end in ways:
                raise ways[end]("it was told to")
        return made[0]

    made: list[Path] = []
    if end in ways:
        with pytest.raises(ways[end]):
            measure()
    else:
        measure()
    assert not made[0].exists()
    assert Path.cwd() == before and signal.getsignal(signal.SIGTERM) is handled


def test_a_lab_that_cannot_be_ended_keeps_its_folder_and_is_told(
    place: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with place.place() as folder:
        make("lab")
        make("stubborn")
    told = capsys.readouterr().err
    assert "still there: stubborn" in told and f"RACKLESS_STATE={folder}/state" in told
    assert os.listdir(folder / "state") == ["stubborn"]


def test_without_root_nothing_is_begun(place: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit, match="sudo scripts/bench"), place.place():
        pass
    assert not (tmp_path / "installed").exists()
