"""`rackless why` as a person and a script meet it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rackless.cli.commands import why as command
from rackless.cli.main import cli
from rackless.diagnosis.lab_rules import LAB_RULES
from rackless.diagnosis.remedy import Remedy
from rackless.diagnosis.rule import explain
from rackless.errors import FINDINGS, LabError
from rackless.operations.why import WhyAnswer
from rackless.protocol.messages import RemedyOutcome
from tests.diagnosis.test_lab_rules import PLANTED


def failed_run(folder: Path) -> Path:
    (folder / ".openshift_install.log").write_text(
        'time="2026-01-01T00:00:01Z" level=error msg="failed to create bootstrap: bad status: 404 File not found"\n'
    )
    return folder


def test_one_sentence_its_evidence_and_what_to_do(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["why", "--installer-dir", str(failed_run(tmp_path))])
    assert done.exit_code == FINDINGS
    said = " ".join(done.output.split())
    assert said.startswith("✗ the server of the bootstrap's live ISO answered 404 installer/iso-not-found")
    assert (
        "2026-01-01T00:00:01Z .openshift_install.log: failed to create bootstrap: bad status: 404 File not found"
        in said
    )
    assert "do: check OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE" in said


def test_a_log_does_nothing_to_the_terminal(tmp_path: Path) -> None:
    words = "failed to create bootstrap: \x1b[31m[bold]no pool[/bold] \x07 here"
    (tmp_path / ".openshift_install.log").write_text(f'level=error msg="{words}"\n')
    done = CliRunner().invoke(cli, ["why", "--installer-dir", str(tmp_path)])
    assert "[bold]no pool[/bold]" in done.output and "\x1b" not in done.output and "\x07" not in done.output


def test_a_script_gets_findings(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["why", "--installer-dir", str(failed_run(tmp_path)), "--json"])
    (found,) = json.loads(done.output)["findings"]
    assert done.exit_code == FINDINGS
    assert (
        set(found) == {"subject", "rule", "message", "evidence", "remedy", "fix"}
        and found["subject"] == "bootstrap/iso"
    )


def test_nothing_wrong_is_said_and_how_much_was_looked_at(tmp_path: Path) -> None:
    (tmp_path / ".openshift_install.log").write_text('level=info msg="Install complete!"\n')
    done = CliRunner().invoke(cli, ["why", "--installer-dir", str(tmp_path)])
    assert (
        done.exit_code == 0
        and "nothing is wrong with the installer's run" in done.output
        and "rules look" in done.output
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--archive", "FILE"], "cannot be read as an archive"),
        (["--installer-dir", "FOLDER"], "there is no run of openshift-install"),
        (["--archive", "FILE", "--installer-dir", "FOLDER"], "are two questions"),
        (["--name", "nowhere"], "there is no lab named nowhere"),
    ],
)
def test_a_wrong_question_is_answered_with_what_is_wrong(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RACKLESS_STATE", str(tmp_path / "state"))
    (tmp_path / "no.tar.gz").write_bytes(b"nothing")
    places = {"FILE": str(tmp_path / "no.tar.gz"), "FOLDER": str(tmp_path)}
    done = CliRunner().invoke(cli, ["why", *(places.get(word, word) for word in words)])
    assert done.exit_code in (1, 2, 4) and said in (done.output + str(done.exception))


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A lab whose Ironic ended and whose host has a wrong checksum, and what is done about it."""
    done: list[str] = []
    sick = PLANTED["lab/part-down"]
    seen = [*explain(LAB_RULES, sick), *explain(LAB_RULES, PLANTED["host/checksum"])]

    async def look(*_: Any) -> WhyAnswer:
        return WhyAnswer("lab lab", seen, len(LAB_RULES), here=True)

    async def apply(lab: str, remedy: Remedy, *_: Any) -> RemedyOutcome:
        done.append(f"{lab} {remedy.cure} {remedy.name}")
        if len(done) > 1:
            raise LabError("it did not work")
        return RemedyOutcome(True, remedy.offer)

    monkeypatch.setattr(command, "why_lab", look)
    monkeypatch.setattr(command, "apply", apply)
    return done


def test_a_person_is_asked_before_anything_is_done(tried: list[str]) -> None:
    shown = CliRunner().invoke(cli, ["why", "--name", "lab"])
    assert "or: `rackless why --fix`: start ironic now" in shown.output and tried == []
    no = CliRunner().invoke(cli, ["why", "--name", "lab", "--fix"], input="n\n")
    assert "start ironic now?" in no.output and tried == [] and no.exit_code == FINDINGS
    yes = CliRunner().invoke(cli, ["why", "--name", "lab", "--fix"], input="y\n")
    assert "done: start ironic now" in yes.output and tried == ["lab start-parts ironic"]


def test_a_program_gets_what_was_done_and_what_failed(tried: list[str]) -> None:
    for applied, why in ((True, "start ironic now"), (False, "it did not work")):
        done = CliRunner().invoke(cli, ["why", "--name", "lab", "--fix", "--json"])
        (fixed,) = json.loads(done.output)["fixed"]
        assert done.exit_code == FINDINGS and fixed["applied"] is applied and why in fixed["why"]
    assert "not work" in CliRunner().invoke(cli, ["why", "--name", "lab", "--fix", "--yes"]).output


def test_an_archive_is_not_repaired(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["why", "--installer-dir", str(failed_run(tmp_path)), "--fix"])
    assert done.exit_code != 0 and "only read" in str(done.exception)
