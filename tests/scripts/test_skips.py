"""With `--no-new-skips` a skip that nobody has listed fails the run; and the long tests come in parts."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SKIPPED = """
import pytest

def test_that_runs():
    pass

def test_that_does_not():
    pytest.skip("{}")

@pytest.mark.xfail(strict=True)
def test_that_is_known_to_fail():
    raise ValueError
"""
AT_IMPORT = "import pytest\npytest.importorskip('no_such_module', reason='it is not there')\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_addoption, pytest_collection_modifyitems, pytest_configure\n"
        "from tests.conftest import pytest_terminal_summary\n"
    )
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\nmarkers = long(part): as ours\n")
    return tmp_path


def run(place: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, str(place)],
        cwd=place, text=True, capture_output=True, timeout=120, check=False,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # plugins take most of the time
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "workers", [(), ("-p", "xdist", "-n", "1"), ("--forks", "2")], ids=["alone", "workers", "forks"]
)
def test_a_skip_that_nobody_listed_fails_the_run_and_is_told(place: Path, workers: tuple[str, ...]) -> None:
    (place / "test_one.py").write_text(SKIPPED.format("the moon is not full"))
    code, told = run(place, "--no-new-skips", *workers)
    assert code == 1, told
    assert "test_one.py::test_that_does_not: the moon is not full" in told
    assert "known_to_fail" not in told


def test_a_module_that_is_skipped_whole_is_told_by_workers_too(place: Path) -> None:
    (place / "test_one.py").write_text(AT_IMPORT)
    (place / "test_two.py").write_text("def test_that_runs():\n    pass\n")
    code, told = run(place, "--no-new-skips", "-p", "xdist", "-n", "1")
    assert (code, "it is not there" in told) == (1, True), told


def test_a_listed_skip_passes_and_without_the_option_every_skip_does(place: Path) -> None:
    (place / "test_one.py").write_text(SKIPPED.format("this kernel has no VLANs; that this is said was seen"))
    assert run(place, "--no-new-skips")[0] == 0
    (place / "test_one.py").write_text(SKIPPED.format("the moon is not full"))
    assert run(place)[0] == 0


def test_every_listed_skip_has_its_reason_and_a_test_that_says_it() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    for entry in tomllib.loads((ROOT / "tests/skips.toml").read_text())["skip"]:
        assert entry["why"].strip()
        assert sources.count(entry["says"]) > sum(
            entry["says"] in line for line in Path(__file__).read_text().split("\n")
        )


def test_long_tests_are_left_out_listed_by_part_and_run_by_part(place: Path) -> None:
    (place / "test_slow_thing.py").write_text(
        "import pytest\n\ndef test_quick():\n    pass\n\n"
        "@pytest.mark.long\ndef test_of_the_file():\n    pass\n\n"
        "@pytest.mark.long('other')\ndef test_of_another_part():\n    pass\n"
    )
    assert "1 passed, 2 deselected" in run(place)[1]
    assert "2 passed, 1 deselected" in run(place, "--long")[1]
    listed = run(place, "--parts", "-q")[1]
    assert re.findall(r"^(\S+) +(\d+) test$", listed, re.M) == [("other", "1"), ("slow-thing", "1")]
    assert "1 passed, 2 deselected" in run(place, "--part", "slow-thing")[1]
    code, told = run(place, "--part", "nonsense")
    assert (code, "there is: other slow-thing" in told) == (4, True), told
