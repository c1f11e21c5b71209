"""`rackless completion SHELL`: what a shell needs to complete our words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), default="bash")
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print completions; for bash: `source <(rackless completion bash)`."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "rackless", "_RACKLESS_COMPLETE").source())
