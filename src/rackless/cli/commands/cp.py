"""`rackless cp SOURCE... TARGET`: files to a node and from it, by scp."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from rackless.cli.completing import files_here_and_there
from rackless.cli.handover import run_here, run_told
from rackless.cli.options import json_option, lab_name, lab_options
from rackless.errors import InputError
from rackless.operations import access, servers
from rackless.operations.this_computer import this_computer
from rackless.run.paths import Roots


@click.command()
@lab_options
@click.argument("words", nargs=-1, required=True, metavar="SOURCE... TARGET", shell_complete=files_here_and_there)
@click.option("-r", "--recursive", is_flag=True, help="Folders, with what is in them.")
@click.option("-p", "--preserve", is_flag=True, help="Keep times and modes.")
@json_option("One JSON object with returncode, stdout, stderr.")
def cp(
    file: Path | None, name: str | None, words: tuple[str, ...], recursive: bool, preserve: bool, as_json: bool
) -> None:
    """Copy files to a node or from it: `rackless cp notes.txt ctrl-0:/tmp/`, `rackless cp ctrl-0:/etc/hostname .`

    NODE:PATH is on a node, where you are the user `core`; everything else is a file of yours. A file whose name has a colon is
    written ./a:b.
    """
    lab, roots = lab_name(file, name), Roots.from_environment()
    node = _node(lab, words, servers.server_names(lab, roots))
    with access.way_in(lab, node, roots, this_computer()) as way:
        places = [f"{way.target}:{word.partition(':')[2]}" if _is_remote(word) else word for word in words]
        flags = [flag for flag, wanted in (("-r", recursive), ("-p", preserve), ("-q", as_json)) if wanted]
        argv = way.scp(flags, places[:-1], places[-1])
        if as_json:
            run_told(argv, {"lab": lab, "node": node})
        run_here(argv)


def _is_remote(word: str) -> bool:
    """As scp reads it: what stands before a colon is a computer, unless a slash comes first."""
    before, colon, _ = word.partition(":")
    return bool(colon) and bool(before) and "/" not in before


def _node(lab: str, words: Sequence[str], known: Sequence[str]) -> str:
    if len(words) < 2:
        raise InputError("what to copy, and where to?", hint="`rackless cp FILE NODE:PATH`, or the other way round")
    remote = [_is_remote(word) for word in words]
    nodes = {word.partition(":")[0] for word, is_remote in zip(words, remote, strict=True) if is_remote}
    if unknown := sorted(nodes - set(known)):
        raise access.unknown_server(lab, unknown, known)
    if len(nodes) != 1 or (remote[-1] and any(remote[:-1])) or (not remote[-1] and not all(remote[:-1])):
        raise InputError(
            "files are copied either to one node or from one node",
            hint="`rackless cp FILE NODE:PATH`, or `rackless cp NODE:PATH FILE`",
        )
    return nodes.pop()
