"""What is installed as root is what the locks list: they agree with pyproject.toml, are whole, and go by content."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from rackless.images import files, nodepython

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = ("requirements.lock", "requirements-dev.lock")


def read_lock(name: str) -> dict[str, Version]:
    return {
        canonicalize_name(found[1]): Version(found[2])
        for found in re.finditer(r"(?m)^([\w.-]+)==([^\s;]+)", (ROOT / name).read_text())
    }


def wanted(lock: str) -> list[Requirement]:
    project = PROJECT["project"]
    lists = [project["dependencies"], PROJECT["build-system"]["requires"], ["editables"]]
    if lock == "requirements-dev.lock":
        lists += project["optional-dependencies"].values()
    return [Requirement(text) for listed in lists for text in listed]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_a_version_that_pyproject_allows_for_everything_it_names(lock: str) -> None:
    pinned = read_lock(lock)
    for requirement in wanted(lock):
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None and requirement.specifier.contains(version), f"{requirement}: run scripts/pin"


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_lists_what_its_packages_need_in_turn(lock: str) -> None:
    """pip is told not to look for more (--no-deps); what is not listed would be missing at run time."""
    pinned = read_lock(lock)
    for name in pinned:
        try:
            needs = requires(name) or []
        except PackageNotFoundError:  # for another Python or another system
            continue
        for requirement in map(Requirement, needs):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                assert canonicalize_name(requirement.name) in pinned, f"{name} needs {requirement}: run scripts/pin"


@pytest.mark.parametrize("lock", LOCKS)
def test_every_entry_of_a_lock_has_hashes_and_none_says_where_from(lock: str) -> None:
    entries = re.split(r"\n(?! )", (ROOT / lock).read_text().strip())[1:]
    assert len(entries) == len(read_lock(lock))
    for entry in entries:
        assert re.fullmatch(r"[\w.-]+==\S+( ; [^\\]+?)?( \\\n    --hash=sha256:[0-9a-f]{64})+", entry), entry


def test_the_tests_run_what_users_run_and_nodes_do_too() -> None:
    users = read_lock(LOCKS[0])
    assert users.items() <= read_lock(LOCKS[1]).items()
    node = dict(re.findall(r"(?m)^([\w.-]+)==(\S+)", files.read(nodepython.REQUIREMENTS).decode()))
    assert {name: Version(version) for name, version in node.items()}.items() <= users.items()


@pytest.mark.parametrize(("script", "lock"), [("rackless", LOCKS[0]), ("scripts/dev", LOCKS[1])])
def test_what_makes_an_environment_installs_by_hash_and_builds_nothing_strange(script: str, lock: str) -> None:
    commands = [line for line in (ROOT / script).read_text().splitlines() if '"${pip[@]}"' in line]
    assert len(commands) == 2 and "install --no-deps)" in (ROOT / script).read_text()
    assert all(word in commands[0] for word in ("--require-hashes", "--only-binary=:all:", lock))
    assert all(word in commands[1] for word in ("--no-index", "--no-build-isolation"))
