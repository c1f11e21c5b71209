"""Bad input: a clear message, a documented exit code, and nothing half made."""

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from rackless.cli.main import cli
from rackless.errors import RacklessError
from rackless.run.ledger import Ledger
from rackless.run.paths import Roots

REFERENCE = Path(__file__).parents[2] / "docs/reference/commands.md"


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("STATE", "RUN", "CACHE"):
        monkeypatch.setenv(f"RACKLESS_{name}", str(tmp_path / name.lower()))


def refused(*arguments: str) -> RacklessError:
    error = CliRunner().invoke(cli, arguments).exception
    assert isinstance(error, RacklessError), error
    assert re.search(rf"^\| {error.exit_code} \|", REFERENCE.read_text(), re.MULTILINE), "its exit code is documented"
    assert error.hint, "and it says what to do"
    return error


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: [", "not YAML"),
        ("- a", "a lab is a mapping"),
        ("nmae: x", "did you mean name?"),
        ("networks: {bmc: {cidr: 192.168.111.0/24}}", "overlaps"),
        ("networks: {cluster: {bootstrap: {range: 192.168.111.10-192.168.111.30}}}", "overlaps the addresses of"),
        ("networks: {cluster: {api_vip: 10.0.0.5}}", "not an address for a host in 192.168.111.0/24"),
        ("networks: {extra: {a-far-too-long-name: {cidr: 10.0.0.0/24}}}", "15 characters at most"),
        ("networks: {extra: {virbr0: {cidr: 10.0.0.0/24}}}", "taken by the lab itself"),
        ("name: a-name-that-is-far-too-long-for-any-lab-there-is", "32 characters at most"),
        ("storage: not/absolute", "not an absolute path"),
        ("version: 7", "version"),
    ],
)
@pytest.mark.parametrize("command", ["up", "plan", "validate"])
def test_a_bad_description_is_refused_before_anything_is_made(command: str, text: str, words: str) -> None:
    Path("lab.yaml").write_text(text)
    error = refused(command)
    assert error.exit_code == 2 and words in error.why and "lab.yaml" in error.what
    assert os.listdir() == ["lab.yaml"]


def test_a_missing_file_is_named() -> None:
    error = refused("up", "-f", "nowhere.yaml")
    assert error.exit_code == 2 and "nowhere.yaml" in error.what
    assert os.listdir() == []


@pytest.mark.parametrize("command", [["up"], ["uninstall", "--yes"]])
def test_without_root_the_command_that_would_do_it_is_told(
    command: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("sys.argv", ["rackless", *command])
    for name in ("STATE", "RUN", "CACHE"):
        monkeypatch.delenv(f"RACKLESS_{name}")
    error = refused(*command)
    assert error.exit_code == 3 and error.hint == f"sudo rackless {' '.join(command)}"
    monkeypatch.setenv("RACKLESS_LAB", "mine")
    assert refused(*command).hint == f"sudo env RACKLESS_LAB=mine rackless {' '.join(command)}", "sudo forgets it"
    assert os.listdir() == []


def test_a_folder_of_somebody_else_is_not_taken_for_a_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`destroy` would remove it."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "state/lab").mkdir(parents=True)
    (tmp_path / "state/lab/thesis.tex").write_text("years of work")
    error = refused("up", "--until", "lab", "--no-install")
    assert error.exit_code == 4 and error.what == "the name lab is taken"
    (tmp_path / "disks/other").mkdir(parents=True)
    (tmp_path / "disks/other/holiday.jpg").touch()
    Path("lab.yaml").write_text(f"name: other\nstorage: {tmp_path}/disks\n")
    error = refused("up", "--until", "lab", "--no-install")
    assert error.exit_code == 4 and "disks/other is there" in error.why
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "holiday.jpg", "lab.yaml", "thesis.tex",
    ]  # fmt: skip


@pytest.mark.parametrize("command", ["status", "down", "events", "logs", "gather", "exec -- true", "power a on"])
def test_what_concerns_a_lab_that_is_not_there_says_how_to_make_one(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    error = refused(*command.split())
    assert error.exit_code == 4 and error.hint == "`rackless up` makes one"
    for other in ("mine", "lap"):
        Ledger(Roots.from_environment().state / f"{other}.ledger").own("folder", "x")
    assert refused(*command.split()).hint == "say which is meant: --name lap; `rackless up` makes a new one"
