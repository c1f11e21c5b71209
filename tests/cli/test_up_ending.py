"""What `up` says at its end."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from rackless.cli.commands import up as command
from rackless.cli.main import cli
from rackless.errors import InputError


@pytest.fixture(autouse=True)
def lab(monkeypatch: pytest.MonkeyPatch) -> None:
    async def up(*_: Any, **__: Any) -> None:
        return None

    async def timeline(*_: Any) -> dict[str, Any]:
        return {"ctrl-0": []}

    monkeypatch.setattr("rackless.operations.lab.up", up)
    monkeypatch.setattr(command, "host_timeline", timeline)


def run(*words: str) -> str:
    done = CliRunner().invoke(cli, ["up", *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_the_last_line_is_the_command_that_shows_the_lab_in_a_browser() -> None:
    said = run("--name", "site-a").splitlines()
    assert said[-1] == "watch it in a browser: `rackless web --name site-a`" and "ctrl-0" in said[-2]
    assert run("--name", "site-a", "--until", "bmc").splitlines()[-1] == said[-1]


def test_the_stages_of_an_install_by_a_bootstrap_are_refused_where_there_is_none() -> None:
    with pytest.raises(InputError) as refused:
        run("--name", "site-a", "--until", "manifests")
    assert "cluster: {method: ipi}" in refused.value.hint


@pytest.mark.parametrize("option", ["--json", "--quiet"])
def test_programs_and_the_quiet_are_not_told(option: str) -> None:
    assert "browser" not in run(option)
