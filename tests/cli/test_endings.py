"""How a command ends: one exit code for one thing, and the last line a program can read."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rackless.cli import main as entry
from rackless.cli.commands import doctor
from rackless.operations.doctor import Check


def end(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["rackless", *arguments])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def last_line(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["error"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["up", "--untl", "lab", "--json"], "--untl"),
        (["nothing", "--json"], "No such command 'nothing'"),
        (["statsu", "--json"], "Did you mean 'status'?"),
        (["up", "--until", "moon", "--json"], "'moon' is not one of"),
        (["host", "show", "--json"], "Missing argument 'HOST'"),
        (["check", "install-config", "--json"], "Missing argument"),
    ],
)
def test_a_wrong_option_is_an_object_for_programs(
    arguments: list[str], what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end(monkeypatch, *arguments) == 2
    error = last_line(capsys)
    assert what in str(error["what"]) and error["exit_code"] == 2 and "--help" in str(error["hint"])


@pytest.mark.parametrize(
    ("arguments", "program"),
    [
        (["status", "--json"], True), (["status", "-o", "json"], True), (["list", "--output=json", "--nmae"], True),
        (["host", "list", "-ojson"], True), (["status"], False), (["status", "-o", "yaml"], False),
        (["ssh", "ctrl-0", "--", "kubectl", "--json"], False),
    ],
)  # fmt: skip
def test_an_error_has_the_form_that_was_asked_for(
    arguments: list[str],
    program: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RACKLESS_STATE", str(tmp_path))
    assert end(monkeypatch, *arguments) in (2, 4)
    shown = capsys.readouterr()
    assert bool(shown.out) is program and bool(shown.err) is not program


def run_apart(words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "RACKLESS_STATE": str(folder), "ME": f"{sys.executable} -P -m rackless"}
    return subprocess.run(["sh", "-c", words], cwd=folder, env=environment, capture_output=True, text=True)


def test_a_folder_that_was_deleted_under_us_is_told(tmp_path: Path) -> None:
    done = run_apart("mkdir gone; cd gone; rmdir ../gone; $ME status", tmp_path)
    assert done.returncode == 2 and "the folder that you are in was deleted" in done.stderr


def test_closed_files_are_not_mixed_up_with_those_that_are_opened_later(tmp_path: Path) -> None:
    """With its output closed, a command would print into the first file that it opens."""
    show = "import os, sys; from rackless.cli import main as m; m._open_standard_files(); "
    show += "open('seen', 'w').write(str([os.readlink(f'/proc/self/fd/{n}') for n in (0, 1, 2)])); "
    show += "print('x'); sys.stderr.write('x'); sys.exit(len(sys.stdin.read()))"
    done = run_apart(f'{sys.executable} -P -c "{show}" <&- >&- 2>&-', tmp_path)
    assert done.returncode == 0 and (tmp_path / "seen").read_text() == str(["/dev/null"] * 3)
    assert run_apart("$ME init <&- >&- 2>&-", tmp_path).returncode == 0
    assert "x" not in (tmp_path / "seen").read_text() and "version" in (tmp_path / "lab.yaml").read_text()
    refused = run_apart("$ME destroy --name lab <&-", tmp_path)
    assert refused.returncode == 0 and "nothing to do" in refused.stdout


def test_a_wrong_option_shows_a_person_the_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end(monkeypatch, "up", "--untl", "lab") == 2
    shown = capsys.readouterr()
    assert not shown.out and "Usage: rackless up" in shown.err and "--until" in shown.err


def test_a_mistake_of_our_own_is_1_and_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(entry, "cli", broken)
    assert end(monkeypatch, "status", "--json") == 1
    shown = capsys.readouterr()
    error = json.loads(shown.out)["error"]
    assert error["why"] == "KeyError: 'planted'" and "report" in error["hint"]
    assert "Traceback" in shown.err


@pytest.mark.parametrize(("verdict", "code"), [("ok", 0), ("warning", 0), ("missing", 10)])
def test_the_doctor_ends_with_10_when_something_is_missing(
    verdict: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def examine(*_: object) -> list[Check]:
        return [Check("root", verdict, "seen", "mend it")]  # type: ignore[arg-type]

    monkeypatch.setattr(doctor, "examine", examine)
    assert end(monkeypatch, "doctor") == code


def test_a_check_that_finds_something_ends_with_10_and_one_that_cannot_read_with_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("apiVersion: v1\n")
    assert end(monkeypatch, "check", "install-config", str(bad), "--json") == 10
    capsys.readouterr()
    assert end(monkeypatch, "check", "install-config", str(tmp_path / "none"), str(bad), "--json") == 2
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["error"]["exit_code"] == 2 and "none cannot be read" in first["error"]["what"]
    assert second["findings"]
