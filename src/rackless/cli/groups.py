"""Groups of commands: suggestions for a misspelt command, and a default when no command is named."""

from __future__ import annotations

from difflib import get_close_matches

import click

WHOLE_SENTENCE = 1000
"""Longer than any: click cuts what its list of commands says of one where the line ends."""


class SuggestingGroup(click.Group):
    """A group that says which of its commands a misspelt one may have been, and of each a whole sentence."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = [
            (name, command.get_short_help_str(WHOLE_SENTENCE))
            for name, command in commands.items()
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from error


class DefaultGroup(SuggestingGroup):
    """A group that runs its first command when options follow at once: what used to be a single command can be called as before."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)
