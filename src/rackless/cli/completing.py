"""What a shell offers after a command: names of servers and fields. A completion never complains: where names cannot
be found out, none is offered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

from rackless.cli.options import lab_name

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def offering(names: Callable[[click.Context], Iterable[str]]) -> Complete:
    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        try:
            known = list(names(context))
        except Exception:
            return []
        given = context.params.get(parameter.name or "")
        said = set(given) if isinstance(given, tuple | list) else set()
        return [name for name in known if name.startswith(incomplete) and name not in said]

    return complete


def lab_of(context: click.Context) -> str:
    return lab_name(context.params.get("file"), context.params.get("name") or context.params.get("lab"))


def _servers(context: click.Context) -> list[str]:
    from rackless.operations.servers import server_names
    from rackless.run.paths import Roots

    return server_names(lab_of(context), Roots.from_environment())


def _actions(context: click.Context) -> list[str]:
    from typing import get_args

    from rackless.protocol.messages import PowerAction

    named = bool(context.params.get("words")) or bool(context.params.get("everyone"))
    return [*([] if context.params.get("everyone") else _servers(context)), *(get_args(PowerAction) if named else ())]


def _fields(_: click.Context) -> list[str]:
    from rackless.spec.explain import fields, plain

    return sorted({"lab", "install-config", *(plain(one.path) for one in fields())})


def files_here_and_there(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """`NODE:`, or else the shell's own completion of files."""
    nodes = [CompletionItem(f"{name}:") for name in servers(context, parameter, incomplete)]
    return nodes or [CompletionItem(incomplete, type="file")]


servers, actions = offering(_servers), offering(_actions)
fields = offering(_fields)
server_argument: Callable[[Callable[..., Any]], Callable[..., Any]] = click.argument("server", shell_complete=servers)
servers_argument: Callable[[Callable[..., Any]], Callable[..., Any]] = click.argument(
    "servers", nargs=-1, shell_complete=servers
)
