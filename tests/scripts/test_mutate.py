"""`scripts/mutate` on a small project: it tells a weak test from a strong one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TOOL = Path(__file__).parents[2] / "scripts/mutation"
CODE = '''"""A door."""

from collections.abc import Callable

LIMIT = 3


def judged(by: Callable[[int], bool]) -> Callable[[int], str]:
    def answer(age: int) -> str:
        return "yes" if by(age) else "no"

    return answer


@judged
def open_to(age: int) -> bool:
    """Open, to those of age."""
    if age < LIMIT:
        return False
    return True


def unused() -> int:
    return 5
'''
STRONG = """
from thing.door import open_to

def test_the_door():
    assert [open_to(age) for age in (2, 3, 4)] == ["no", "yes", "yes"]
"""
WEAK = """
from thing.door import open_to

def test_the_door():
    assert open_to(9)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src/thing").mkdir(parents=True)
    (tmp_path / "src/thing/__init__.py").touch()
    (tmp_path / "src/thing/door.py").write_text(CODE)
    (tmp_path / "strong").mkdir()
    (tmp_path / "strong/test_strong.py").write_text(STRONG)
    (tmp_path / "weak").mkdir()
    (tmp_path / "weak/test_weak.py").write_text(WEAK)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    real: none\npythonpath = src\n")
    return tmp_path


def mutate(project: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, str(TOOL), *arguments],
        cwd=project,
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # plugins take most of the time
    )
    return done.returncode, done.stdout + done.stderr


def test_a_strong_test_leaves_only_what_nothing_could_notice(project: Path) -> None:
    code, told = mutate(project, "src/thing/door.py:1-21", "--tests", "strong", "--at-least", "70")
    assert code == 0, told
    survivors = [line.split(": ", 2) for line in told.splitlines() if line.startswith("src/") and "survived" in line]
    assert [(place, what) for place, _, what in survivors] == [("src/thing/door.py:19", "return False → return None")]
    assert "    -    if age < LIMIT:" not in told


def test_a_weak_test_is_found_out(project: Path) -> None:
    code, told = mutate(project, "src/thing/door.py", "--tests", "weak", "--at-least", "90")
    assert code == 10, told
    assert "src/thing/door.py:5: survived: 3 → 4" in told  # run by the import
    assert "src/thing/door.py:18: survived: age < LIMIT → (age <= LIMIT)" in told
    assert "    +    if (age <= LIMIT):" in told
    assert "src/thing/door.py:24: not run by any test: return 5 → return None" in told
    assert "Asked for at least 90 %." in told


def test_an_equivalent_mutant_is_counted_apart(project: Path) -> None:
    (project / "tests").mkdir()
    (project / "tests/mutants.toml").write_text(
        "[[equivalent]]\nfile = 'src/thing/door.py'\nline = 'LIMIT = 3'\nmutant = '3 → 4'\nreason = 'none is four'\n"
    )
    _, told = mutate(project, "src/thing/door.py:5", "--tests", "weak")
    assert "0 killed, 0 survived, 1 equivalent" in told


def test_the_same_seed_draws_the_same_sample(project: Path) -> None:
    told = [
        mutate(project, "src/thing/door.py", "--tests", "weak", "--sample", "3", "--seed", "7")[1] for _ in range(2)
    ]
    assert "drawn by seed 7" in told[0]
    # tried side by side: whichever ends first is told first
    first, second = (sorted(line for line in lines.splitlines() if ".py" in line) for lines in told)
    assert first == second


def test_tests_that_fail_without_a_mutant_are_told(project: Path) -> None:
    (project / "weak/test_weak.py").write_text("def test_nothing():\n    assert False\n")
    code, told = mutate(project, "src/thing/door.py", "--tests", "weak")
    assert (code, "do not pass as they are" in told) == (1, True)


def test_functions_are_found_also_where_the_tests_freeze_what_was_collected(project: Path) -> None:
    """Otherwise every mutant is imported by a pytest of its own, which takes a hundred times as long."""
    (project / "strong/conftest.py").write_text("import gc\n\ndef pytest_collection_finish():\n    gc.freeze()\n")
    _, told = mutate(project, "src/thing/door.py:18", "--tests", "strong", "--list")
    assert "src/thing/door.py:18: killed" in told and "not in place" not in told
