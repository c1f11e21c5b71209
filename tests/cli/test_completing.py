"""What shells offer after our commands."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from rackless.cli.main import cli
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots
from rackless.spec.load import parse
from tests.cli.test_commands import walk

LAB = "name: mine\nservers: {box: {role: spare, count: 2}}\n"
WITHOUT_NAMES = {"SERVER... TARGET"}


@pytest.fixture(autouse=True)
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabPaths:
    """One that is stopped: no labd answers."""
    monkeypatch.chdir(tmp_path)
    for name in ("STATE", "RUN", "CACHE"):
        monkeypatch.setenv(f"RACKLESS_{name}", str(tmp_path / name.lower()))
    paths = LabPaths(Roots.from_environment(), "mine")
    (paths.logs / "console").mkdir(parents=True)
    (paths.logs / "labd.log").touch()
    paths.spec.write_text(parse(LAB, "lab.yaml").model_dump_json())
    Ledger(paths.ledger).own("folder", "x")
    monkeypatch.setenv("RACKLESS_LAB", "mine")
    return paths


def offered(words: str) -> list[str]:
    """After `rackless`, as bash asks for it: the last word is the one that is being typed."""
    before = words.split(" ")
    environment = {
        "_RACKLESS_COMPLETE": "bash_complete", "COMP_WORDS": f"rackless {words}", "COMP_CWORD": str(len(before)),
    }  # fmt: skip
    done = CliRunner().invoke(cli, [], prog_name="rackless", env=environment)
    assert done.exit_code == 0
    return done.output.split()


@pytest.mark.parametrize(
    "words",
    [
        "console ", "screenshot ", "capture ", "ssh ", "power ", "bmc show ", "bmc boot ", "bmc media insert ", "bmc media eject ",
        "expose bmc ", "unexpose ssh ", "export hosts ", "export ansible ", "bmc fault add delay --server ",
    ],
)  # fmt: skip
def test_servers_are_offered_wherever_one_is_named(words: str) -> None:
    assert offered(words) == ["plain,box-0", "plain,box-1"]
    assert offered(f"{words}box-1") == ["plain,box-1"] and offered(f"{words}x") == []


def test_a_server_that_is_named_is_not_offered_again_and_then_comes_what_to_do() -> None:
    assert offered("expose bmc box-0 ") == ["plain,box-1"]
    assert offered("power box-0 ")[:3] == ["plain,box-1", "plain,on", "plain,off"]
    assert offered("power --all o") == ["plain,on", "plain,off"]


def test_files_on_nodes_and_here_are_offered() -> None:
    assert offered("cp notes.txt box") == ["plain,box-0:", "plain,box-1:"]
    assert offered("cp notes.t") == ["file,notes.t"]


def test_labs_logs_and_fields_are_offered() -> None:
    for words in ("status ", "destroy ", "status --name ", "kubeconfig m", "logs --name "):
        assert offered(words) == ["plain,mine"], words
    assert offered("logs ") == ["plain,labd"]
    assert offered("explain networks.cluster.li")[:2] == [
        "plain,networks.cluster.link",
        "plain,networks.cluster.link.delay",
    ]


def test_without_a_lab_nothing_is_offered_and_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKLESS_LAB", "other")
    assert offered("console ") == offered("logs ") == []
    monkeypatch.setenv("RACKLESS_STATE", "/proc/self/mem/nowhere")
    assert offered("status ") == []


def test_no_argument_or_option_that_names_a_server_or_a_lab_is_forgotten() -> None:
    names = {"server", "servers", "lab", "name"}
    own = {"init", "install create cluster", "rehearse", "api serve"}
    """Theirs is a name to be, or a certificate's."""
    forgotten = [
        f"{words} {parameter.name}"
        for words, command in walk(cli)
        for parameter in command.params
        if parameter.name in names and words not in own and not words.startswith("install ")
        and parameter._custom_shell_complete is None and not isinstance(parameter.type, click.Choice)
    ]  # fmt: skip
    assert forgotten == []
