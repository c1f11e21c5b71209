"""Forms of what is listed, and watching it."""

from __future__ import annotations

import json
import time
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from rackless.cli import options
from rackless.cli.commands.status import render
from rackless.cli.options import console_for, listing_options, print_as
from rackless.codec import decode
from rackless.protocol.messages import LabStatus
from tests.cli.test_status import LAB

THINGS = [{"name": "a", "count": 1}]


@click.command()
@listing_options
def shows(form: str) -> None:
    if not print_as(form, THINGS):
        click.echo(f"a table, {form}")


def test_things_are_shown_as_a_table_as_json_or_as_yaml() -> None:
    run = CliRunner().invoke
    assert run(shows, []).output == "a table, table\n" and run(shows, ["-o", "wide"]).output == "a table, wide\n"
    for words in (["--json"], ["-o", "json"], ["--json", "-o", "json"]):
        assert json.loads(run(shows, words).output) == THINGS
    assert yaml.safe_load(run(shows, ["-o", "yaml"]).output) == THINGS
    assert run(shows, ["--json", "-o", "yaml"]).exit_code == 2


def test_what_is_watched_is_shown_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    shown = CliRunner().invoke(shows, ["-w", "-o", "json"]).output
    assert [json.loads(line) for line in shown.splitlines() if line.startswith("[")] == [THINGS] * 3
    assert pauses == [options.WATCH_EVERY] * 3


def test_a_wide_status_has_more_columns_and_cuts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    server: dict[str, Any] = {
        "name": "ctrl-0", "role": "control-plane", "address": "192.0.2.20", "bmc": "https://192.0.2.120", "power": "on",
        "host": "provisioned", "error": "", "node": "Ready", "machine": "Running", "boot": "cdrom",
        "media": "http://192.0.2.1:6180/" + "a-long-name" * 20,
    }  # fmt: skip
    found = decode(LabStatus, {**LAB, "servers": [server], "reached": "lab", "etcd": None})
    render(found, console_for("wide"), wide=True)
    assert server["media"] in capsys.readouterr().out
    render(found, console_for("table"))
    assert "MEDIA" not in capsys.readouterr().out
