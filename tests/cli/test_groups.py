"""Words of people: misspelt ones, and those of earlier versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rackless.cli.main import COMMANDS, SECTIONS, cli


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["stauts"], "status"),
        (["host", "inspekt"], "inspect"),
        (["bmc", "lst"], "list"),
        (["export", "ansibel"], "ansible"),
        (["install-config", "chekc"], "check"),
    ],
)
def test_a_misspelt_command_is_guessed_in_groups_too(words: list[str], meant: str) -> None:
    done = run(*words)
    assert done.exit_code == 2 and f"Did you mean {meant!r}?" in done.output


def test_one_verb_has_all_of_install_configs_and_the_old_names_stay(tmp_path: Path) -> None:
    file = tmp_path / "install-config.yaml"
    file.write_text("apiVersion: v1\n")
    new, old = run("install-config", "check", str(file), "--json"), run("check", "install-config", str(file), "--json")
    assert new.output == old.output and new.exit_code == old.exit_code == 10
    field = "platform.baremetal.apiVIPs"
    assert run("install-config", "explain", field).output == run("explain", f"install-config.{field}").output
    written = [run("install-config", *words, "-o", str(file)) for words in ([], ["write"])]
    assert {str(done.exception) for done in written} == {f"{file} is there already"}, "without a word it is `write`"
    assert "Without a command it is `write`" in run("install-config", "--help").output


def test_the_list_of_commands_is_sorted_by_what_they_are_for_and_fits_a_terminal() -> None:
    lines = run("--help").output.splitlines()
    assert [line[:-1] for line in lines if line.endswith(":") and not line.startswith((" ", "Options"))] == [*SECTIONS]
    named = [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in COMMANDS]
    assert named == [*COMMANDS], "each once, on one line"
    assert len(lines) < len(COMMANDS) + 3 * len(SECTIONS) + 12, "no line of a command is broken"


def test_a_group_says_of_each_command_a_whole_sentence() -> None:
    listed = run("bmc", "--help").output.partition("Commands:")[2]
    assert "..." not in listed and "in their drives." in " ".join(listed.split())


@pytest.mark.parametrize("command", ["up", "plan", "validate"])
def test_what_has_another_name_now_is_read_under_the_old_one_with_a_hint(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # `up` goes no further
    for name in ("STATE", "RUN", "CACHE"):
        monkeypatch.setenv(f"RACKLESS_{name}", str(tmp_path / name.lower()))
    Path("lab.yaml").write_text("networks:\n  cluster:\n    dhcp: reserved\n")
    said = run(command).stderr
    assert (
        "hint: lab.yaml:3: networks.cluster.dhcp: `reserved` is called `installer` now; write dhcp: installer" in said
    )
