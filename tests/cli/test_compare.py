"""`rackless compare`, `events --since`, and a run as a trace or a picture, as a person and a script meet them."""

from __future__ import annotations

import io
import json
import tarfile
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from rackless.cli.main import cli
from rackless.diagnosis.estimates import Estimates, save
from rackless.events import to_json
from rackless.protocol.event_log import EventLog
from tests.diagnosis.test_runs import two_runs


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for place in ("STATE", "RUN", "CACHE"):
        monkeypatch.setenv(f"RACKLESS_{place}", str(tmp_path / place.lower()))
    monkeypatch.chdir(tmp_path)
    state = tmp_path / "state"
    (state / "lab").mkdir(parents=True)
    (state / "lab.ledger").write_text("")
    log = EventLog(state / "lab/logs/events.jsonl")
    for event in two_runs():
        log.append(event)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def test_the_last_two_runs_are_compared(lab: Path) -> None:
    said = run("compare", "--name", "lab").output
    assert "ctrl-0: inspecting" in said and "+20.0 s" in said and "2 steps took about as long" in said
    assert "the second took 20.0 s longer" in said and "networks" not in said
    other_way = run("compare", "2", "-2", "--name", "lab").output
    assert "−20.0 s" in other_way and "20.0 s less" in other_way


def test_runs_are_listed_with_their_numbers(lab: Path) -> None:
    found = json.loads(run("compare", "--list", "--json", "--name", "lab").output)
    assert [(one["run"], one["seconds"], one["failed"]) for one in found] == [(1, 36.0, 1), (2, 56.0, 1)]
    assert "56.0 s" in run("compare", "--list", "--name", "lab").output


def test_a_run_may_be_in_an_archive_or_a_file_of_events(lab: Path) -> None:
    lines = "".join(json.dumps(to_json(event)) + "\n" for event in two_runs())
    (lab / "events.jsonl").write_text("no event\n" + lines + '{"event": "of tomorrow"}\n{"cut sho')
    with tarfile.open(lab / "lab.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("rackless-lab/logs/events.jsonl")
        member.size = len(lines)
        archive.addfile(member, io.BytesIO(lines.encode()))
    for first, second in (("lab.tar.gz:1", "lab.tar.gz"), ("events.jsonl:1", "lab.tar.gz:-1")):
        found = json.loads(run("compare", first, second, "--json").output)
        assert [one["run"] for one in found["runs"]] == [1, 2]
        assert found["steps"][0] == {
            "subject": "host/ctrl-0", "phase": "inspecting", "before": 30.0, "after": 50.0, "seconds": 20.0, "noticed": True,
        }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["1", "7"], "has no run 7"),
        (["0", "1"], "has no run 0"),
        (["nowhere.tar.gz", "1"], "nowhere.tar.gz is no run"),
    ],
)
def test_a_run_that_is_not_there_is_said_to_be_missing(words: list[str], said: str, lab: Path) -> None:
    done = run("compare", *words, "--name", "lab")
    assert done.exit_code != 0 and said in str(done.exception)


def test_events_are_told_since_a_moment(lab: Path) -> None:
    late = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(1030))
    assert len(run("events", "--name", "lab", "--since", late).output.splitlines()) == 1
    assert run("events", "--name", "lab", "--since", "10m").output == ""
    assert run("events", "--name", "lab", "--since", "90000d").output.splitlines()[0].endswith("networks  0.0 s")
    assert "neither a number" in run("events", "--name", "lab", "--since", "yesterday").output


def test_a_run_is_written_as_a_trace_and_as_a_picture(lab: Path) -> None:
    done = run("status", "--name", "lab", "--chrome-trace", "run.json", "--svg", "run.svg", "--run", "1")
    assert "run.json: 4 steps of run 1" in done.output and "run.svg" in done.output
    assert len([one for one in json.loads((lab / "run.json").read_text())["traceEvents"] if one["ph"] == "X"]) == 4
    ElementTree.parse(lab / "run.svg")


def test_the_timeline_says_what_is_usual_here(lab: Path) -> None:
    (lab / "state/lab/spec.json").write_text(
        '{"name": "lab", "servers": {"ctrl": {"role": "control-plane", "count": 1}}}'
    )
    save(lab / "cache/durations.json", Estimates({"host: inspecting": [99.0, 100.0, 101.0]}))
    said = run("status", "--timeline", "--name", "lab").output
    assert "usually here" in said and "1 min 40 s" in said
    (phase,) = json.loads(run("status", "--timeline", "--json", "--name", "lab").output)["ctrl-0"]
    assert phase["usual"] == {"median": 100.0, "low": 99.5, "high": 100.5, "runs": 3}
    assert phase["waits"] == "the agent calls"
