"""`--forks`: tests that forks run are told as if one process had run them, also when one of the forks dies."""

from pathlib import Path

import pytest

from .test_skips import place, run

__all__ = ["place"]

pytestmark = pytest.mark.slow

MANY = """
import os
import pytest

@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    yield folder
    with open({log!r}, "a") as log:
        log.write(f"down {{os.getpid()}}\\n")

@pytest.mark.parametrize("number", range(40))
def test_with_what_is_shared(shared, number, tmp_path):
    assert os.getpid() != {first}
    (shared / str(number)).touch()
    with open({log!r}, "a") as log:
        log.write(f"ran {{number}}\\n")

def test_that_fails(capsys):
    print("said before it failed")
    assert 1 == 2
"""
DIES = """
import os
import pytest

@pytest.mark.parametrize("number", range(12))
def test_one(number):
    if number == 3:
        os._exit(7)
"""


def test_every_test_runs_once_and_what_failed_is_told(place: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    (place / "test_many.py").write_text(MANY.format(log=str(log), first="os.getppid()"))
    code, told = run(place, "--forks", "3")
    assert code == 1 and "1 failed, 40 passed" in told, told
    assert "said before it failed" in told and "assert 1 == 2" in told
    lines = log.read_text().splitlines()
    assert sorted(line for line in lines if line.startswith("ran")) == sorted(f"ran {number}" for number in range(40))
    ended = [line for line in lines if line.startswith("down")]
    assert 1 < len(ended) == len(set(ended)) <= 3, "each fork has what tests share, and takes it down"


@pytest.mark.parametrize("forks", ["1", "2"])
def test_a_fork_that_dies_fails_its_test_and_no_other_is_lost_untold(place: Path, forks: str) -> None:
    (place / "test_dies.py").write_text(DIES)
    code, told = run(place, "--forks", forks)
    assert code != 0 and "the process that ran test_dies.py::test_one[3] has ended" in told, told
    assert "1 failed, 11 passed" in told, told


def test_it_stops_at_the_first_failure_when_asked_to(place: Path) -> None:
    (place / "test_two.py").write_text("def test_a():\n    assert False\n\n\ndef test_b():\n    pass\n")
    code, told = run(place, "-x", "--forks", "1")
    assert code == 1 and "stopping after 1 failures" in told, told
