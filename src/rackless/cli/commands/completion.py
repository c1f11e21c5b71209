"""`rackless completion SHELL`: the script with which a shell completes our commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from rackless.cli.options import json_option, print_json


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), default="bash")
@json_option()
@click.pass_context
def completion(ctx: click.Context, shell: str, as_json: bool) -> None:
    """Print completions; for bash: `source <(rackless completion bash)`."""
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(ctx.find_root().command, {}, "rackless", "_RACKLESS_COMPLETE").source()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
