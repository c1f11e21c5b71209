"""The man page `rackless(1)`, made from the commands themselves: `scripts/docs` writes it, the wheel carries it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import click

from rackless.cli.main import COMMANDS, cli
from rackless.errors import EXIT_CODES

_PLACES = {
    "RACKLESS_LAB": "the lab that is meant where no -f and no name says so, before ./lab.yaml; sudo does not pass it on",
    "RACKLESS_STATE": "what must survive a restart of the computer [/var/lib/rackless]",
    "RACKLESS_RUN": "what must not [/run/rackless]",
    "RACKLESS_CACHE": "what labs share [/var/cache/rackless]",
    "RACKLESS_DEBIAN_MIRROR": "where the packages of the images come from",
}


def manual() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    context = click.Context(cli, info_name="rackless")
    yield '.TH RACKLESS 1 "" rackless "User Commands"'
    yield ".SH NAME"
    yield rf"rackless \- {_text(cli.help or '')}"
    yield ".SH SYNOPSIS"
    yield r".B rackless"
    yield r"COMMAND [\fIOPTIONS\fR] [\fIARGUMENTS\fR]"
    yield ".SH COMMANDS"
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        yield from _command(command, click.Context(command, info_name=name, parent=context))
    yield ".SH EXIT STATUS"
    yield from _pairs((str(code), meaning) for code, meaning in EXIT_CODES.items())
    yield ".SH ENVIRONMENT"
    yield from _pairs(_PLACES.items())


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, click.Context(inner, info_name=name, parent=context))
        return
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_text(f'{context.command_path} {usage}')}"
    yield _text(command.help or command.short_help or "")
    rows = [record for parameter in command.params if (record := parameter.get_help_record(context)) is not None]
    yield from _pairs(rows)


def _pairs(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, meaning in rows:
        yield ".TP"
        yield rf"\fB{_text(name)}\fR"
        yield _text(meaning)


def _text(text: str) -> str:
    """One line, with the characters escaped that roff would interpret."""
    plain = re.sub(r"\s+", " ", text).strip().replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{plain}" if plain[:1] in (".", "'") else plain
