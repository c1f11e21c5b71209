"""The page of all commands, made from the commands themselves: `scripts/docs` writes it, a test holds it current."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from rackless.cli.main import COMMANDS, SECTIONS, cli
from rackless.errors import EXIT_CODES

_HEAD = """\
# Commands and exit codes

Written by `scripts/docs` from the commands' own help; `rackless COMMAND --help` says the same.

Every command takes `--json`: one object, or, where work is done, one event a line. `exec` and `ssh` with a command run
it without input and tell its `returncode`, `stdout` and `stderr`; what needs a person at a terminal (`shell`, `ssh`,
`console`) is not opened, and the command line, or the log and the terminal, are told. An error, also a misspelt option, is
the last line: `{"error": {"kind": …, "what": …, "why": …, "hint": …, "log": …, "exit_code": …}}`.

Commands about one lab take `-f FILE` (default `./lab.yaml`, else the default lab) and `--name NAME`.
"""
_TAIL = """\
## Environment

`RACKLESS_LAB` is the lab that is meant where neither `-f` nor a name says so; a shell inside a lab has it, and
sudo does not pass it on.
`RACKLESS_STATE` (`/var/lib/rackless`), `RACKLESS_RUN` (`/run/rackless`), `RACKLESS_CACHE` (`/var/cache/rackless`) move where
things are kept. `RACKLESS_DEBIAN_MIRROR` names where the [images'](../explanation/images.md) packages come from.
"""


def reference() -> str:
    context = click.Context(cli, info_name="rackless")
    commands = "\n".join(_page(context, name) for name in COMMANDS)
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    return f"{_HEAD}\n{_index()}\n\n{commands}\n## Exit codes\n\n| code | meaning |\n|---|---|\n{codes}\n\n{_TAIL}"


def _index() -> str:
    rows = ["| command | what it does |", "|---|---|"]
    for title, commands in SECTIONS.items():
        rows.append(f"| **{title}** | |")
        rows.extend(f"| [`{name}`](#rackless-{name}) | {_cell(help)} |" for name, (_, help) in commands.items())
    return "\n".join(rows)


def _page(context: click.Context, name: str) -> str:
    command = cli.get_command(context, name)
    assert command is not None
    return "\n".join(_sections(command, click.Context(command, info_name=name, parent=context)))


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    yield (
        f"## {context.command_path}"
        if context.parent and context.parent.parent is None
        else f"### {context.command_path}"
    )
    yield ""
    yield _text(command.help or command.short_help or "")
    if isinstance(command, click.Group):
        yield ""
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _sections(inner, click.Context(inner, info_name=name, parent=context))
        return
    yield ""
    usage = " ".join(word for word in command.collect_usage_pieces(context))
    yield f"```\n{context.command_path} {usage}\n```"
    yield ""
    rows = [record for parameter in command.params if (record := parameter.get_help_record(context)) is not None]
    if rows:
        yield "| option | |\n|---|---|"
        yield from (f"| `{_cell(names)}` | {_cell(help)} |" for names, help in rows)
        yield ""


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def _text(help: str) -> str:
    """Paragraphs of a docstring, each on one line; examples kept as they are."""
    paragraphs = re.split(r"\n\s*\n", help.replace("\f", "").strip())
    return "\n\n".join(
        f"```\n{paragraph.replace(chr(8), '').strip(chr(10))}\n```"
        if "\b" in paragraph
        else " ".join(paragraph.split())
        for paragraph in paragraphs
    )
