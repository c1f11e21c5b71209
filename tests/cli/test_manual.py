"""The man page and the completions that come along with the wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import click
from click.testing import CliRunner

from rackless.cli.main import COMMANDS, cli
from rackless.cli.manual import manual

ROOT = Path(__file__).parents[2]
SHARE = ROOT / "src/rackless/cli/share"


def test_the_man_page_and_the_completions_are_current() -> None:
    assert (SHARE / "rackless.1").read_text() == manual(), "run scripts/docs"
    for shell in ("bash", "zsh", "fish"):
        done = CliRunner().invoke(cli, ["completion", shell])
        assert (SHARE / f"completion.{shell}").read_text() == done.output, "run scripts/docs"


def test_the_wheel_puts_them_where_shells_and_man_look() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {Path(source).name for source in wheel["shared-data"]} == {path.name for path in SHARE.iterdir()}
    assert all((ROOT / source).is_file() for source in wheel["shared-data"])
    assert wheel["shared-data"]["src/rackless/cli/share/rackless.1"] == "share/man/man1/rackless.1"


def test_every_command_is_in_the_man_page_and_man_has_nothing_to_say_about_it() -> None:
    page = manual().replace("\\-", "-")
    context = click.Context(cli, info_name="rackless")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        below = [f" {one}" for one in command.list_commands(context)] if isinstance(command, click.Group) else [""]
        for word in below:
            assert re.search(rf"(?m)^\.SS rackless {name}{word}\b", page), f"{name}{word}"
    if shutil.which("groff") is not None:  # a part of man, which small systems do not have
        argv = ["groff", "-man", "-Tutf8", "-ww", "-Wbreak", "-rLL=200n"]
        done = subprocess.run(argv, input=manual(), capture_output=True, text=True, check=True)
        assert "warning: macro" not in done.stderr and "error" not in done.stderr
