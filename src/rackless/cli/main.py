"""The `rackless` command: its verbs, and the one place where a failure becomes words and an exit code.

A command's module is imported only when that command runs, so that `--help` is instant.
"""

from __future__ import annotations

import importlib
import sys

import click

from rackless import __version__
from rackless.errors import RacklessError, known

COMMANDS: dict[str, tuple[str, str]] = {
    # name: (module:attribute, help shown in the list)
    "up": ("rackless.cli.commands.up:up", "Make the lab, or go on making it."),
    "status": ("rackless.cli.commands.status:status", "Show what is there now."),
    "ssh": ("rackless.cli.commands.ssh:ssh", "Open a shell on a node, or run a command there."),
    "host": ("rackless.cli.commands.host:host", "List hosts, show one, take its system off."),
    "bmc": ("rackless.cli.commands.bmc:bmc", "Serve BMCs for any libvirt domains; make a lab's BMCs fail."),
    "check": ("rackless.cli.commands.check:check", "Check an install-config before its installer does."),
    "install-config": ("rackless.cli.commands.install_config:install_config", "Write an install-config for the lab."),
    "explain": ("rackless.cli.commands.explain:explain", "Explain a field of an install-config or a lab."),
    "prepare": ("rackless.cli.commands.prepare:prepare", "Get this machine ready: packages, Ironic, images."),
    "destroy": ("rackless.cli.commands.destroy:destroy", "Remove the lab and leave nothing behind."),
    "api": ("rackless.cli.commands.api:api", "Serve the lab's Kubernetes objects without a cluster."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports them late."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rackless")
def cli() -> None:
    """A rack of bare metal, without the rack."""


def main() -> None:
    try:
        code = cli(standalone_mode=False)  # what `ctx.exit(code)` in a command comes back as
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Exit as exit:
        sys.exit(exit.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (RacklessError, BaseExceptionGroup) as error:
        ours = known(error)
        if ours is None:
            raise
        from rackless.cli import failure

        failure.show(ours)
        sys.exit(ours.exit_code)
    except (KeyboardInterrupt, click.exceptions.Abort):
        sys.exit(130)
