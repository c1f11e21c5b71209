"""The `rackless` command: its verbs, and the one place where a failure becomes words and an exit code.

A command's module is imported only when that command runs, so that `--help` is instant.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import os
import sys
from collections.abc import Sequence
from types import ModuleType

import click

from rackless import __version__
from rackless.cli.groups import SuggestingGroup
from rackless.errors import InputError, Interrupted, RacklessError, known

_HERE = "rackless.cli.commands"
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    # what for: {name: (module:attribute, help shown in the list)}
    "A lab": {
        "init": (f"{_HERE}.init:init", "Write a lab.yaml that fits this computer."),
        "validate": (f"{_HERE}.validate:validate", "Check the lab's description."),
        "plan": (f"{_HERE}.plan:plan", "Show what `up` would do, and why."),
        "up": (f"{_HERE}.up:up", "Make the lab, or go on making it."),
        "status": (f"{_HERE}.status:status", "Show what is there now."),
        "down": (f"{_HERE}.down:down", "Stop the lab and keep everything."),
        "stop": (f"{_HERE}.down:down", "The same as `down`."),
        "start": (f"{_HERE}.start:start", "Start a lab that was stopped, as it was described."),
        "destroy": (f"{_HERE}.destroy:destroy", "Remove the lab and leave nothing behind."),
        "list": (f"{_HERE}.list:list_labs", "List the labs on this computer."),
    },
    "See what happens": {
        "web": (f"{_HERE}.web:web", "Show the lab in a browser."),
        "why": (f"{_HERE}.why:why", "Say what is stuck or wrong, what shows it, and what to do."),
        "events": (f"{_HERE}.events:events", "Show what happened to the lab."),
        "logs": (f"{_HERE}.logs:logs", "Show the logs of the lab's parts."),
        "compare": (f"{_HERE}.compare:compare", "Say what was slower in one run than in another."),
        "gather": (f"{_HERE}.gather:gather", "Make an archive for a bug report, without secrets."),
        "doctor": (f"{_HERE}.doctor:doctor", "Say what this computer can do and what it lacks."),
    },
    "Servers and nodes": {
        "power": (f"{_HERE}.power:power", "Switch a server on or off."),
        "console": (f"{_HERE}.console:console", "Watch a server's serial console, or type at it."),
        "screenshot": (f"{_HERE}.screenshot:screenshot", "Take a picture of a server's screen."),
        "ssh": (f"{_HERE}.ssh:ssh", "Open a shell on a node, or run a command there."),
        "cp": (f"{_HERE}.cp:cp", "Copy files to a node or from it."),
        "capture": (f"{_HERE}.capture:capture", "Record the packets of a server."),
        "exec": (f"{_HERE}.inside:exec_inside", "Run a command inside the lab."),
        "shell": (f"{_HERE}.inside:shell", "Open a shell inside the lab."),
    },
    "BMCs, hosts and the cluster": {
        "bmc": (f"{_HERE}.bmc:bmc", "See and use BMCs; make them fail; serve them alone."),
        "host": (f"{_HERE}.host:host", "List, show, inspect, provision, clean, adopt, retry hosts."),
        "scale": (f"{_HERE}.scale:scale", "Say how many workers the cluster should have."),
        "kubeconfig": (f"{_HERE}.kubeconfig:kubeconfig", "Print what kubectl needs, for the hosts or the cluster."),
        "pivot": (f"{_HERE}.pivot:pivot", "Move hosts and Machines to another Kubernetes API, and back."),
    },
    "In and out": {
        "expose": (f"{_HERE}.expose:expose", "Lead ports of this computer to BMCs, APIs and nodes."),
        "unexpose": (f"{_HERE}.expose:unexpose", "Close what `expose` opened."),
        "export": (f"{_HERE}.export:export", "Write the lab's servers as metal for somebody else's tools."),
    },
    "Installers": {
        "install-config": (f"{_HERE}.install_config:install_config", "Write, check and explain an install-config."),
        "check": (f"{_HERE}.check:check", "Check an install-config before its installer does."),
        "explain": (f"{_HERE}.explain:explain", "Explain a field of an install-config or a lab."),
        "rehearse": (f"{_HERE}.rehearse:rehearse", "Run your OpenShift installer against the twin of a site."),
        "install": (f"{_HERE}.install:install", "Install a cluster, by the verbs of openshift-install."),
        "bootstrap": (f"{_HERE}.bootstrap:bootstrap", "Parts of an install that run on its bootstrap machine."),
    },
    "Parts that stand alone": {
        "api": (f"{_HERE}.api:api", "Serve the lab's Kubernetes objects without a cluster."),
        "controllers": (
            f"{_HERE}.controllers:controllers",
            "Look after hosts, Machines and Nodes of any Kubernetes API.",
        ),
    },
    "This computer": {
        "prepare": (f"{_HERE}.prepare:prepare", "Get this computer ready: packages, Ironic, images."),
        "images": (f"{_HERE}.images:images", "List, build, verify and prune the images that labs share."),
        "uninstall": (f"{_HERE}.uninstall:uninstall", "Remove what labs share: images, environments."),
        "completion": (f"{_HERE}.completion:completion", "Print completions for a shell."),
    },
}
COMMANDS = {name: command for section in SECTIONS.values() for name, command in section.items()}


class LazyGroup(SuggestingGroup):
    """A group that knows its commands by name and imports them late."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(_load(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))  # the same column in all sections
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), help) for name, (_, help) in commands.items()])


def _load(module: str) -> ModuleType:
    """Imports a command's module, without garbage collection meanwhile, which is a tenth of the time: what is imported stays."""
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """The build is what commands and labd compare with each other."""
    if not wanted or context.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version
    from platform import python_version

    from rackless.operations.this_computer import libvirt_version
    from rackless.protocol.build import fingerprint

    click.echo(f"rackless, version {__version__}")
    click.echo(f"  {'build':<16} {fingerprint()}")
    click.echo(f"  {'Python':<16} {python_version()}, {sys.executable}")
    click.echo(f"  {'libvirt':<16} {libvirt_version()}")
    for package in ("aiohttp", "pydantic", "cryptography"):
        try:
            found = version(package)
        except PackageNotFoundError:
            found = "not installed"
        click.echo(f"  {package:<16} {found}")
    context.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Say which build this is."
)
def cli() -> None:
    """A rack of bare metal, without the rack.

    `sudo rackless up` makes a lab and a cluster on it; `sudo rackless destroy` leaves nothing of them.
    """


def main() -> None:
    _open_standard_files()
    try:
        _require_folder()
        code = cli(prog_name="rackless", standalone_mode=False)  # what a command gave to `ctx.exit(code)`
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Exit as exit:
        sys.exit(exit.exit_code)
    except click.UsageError as error:
        _refuse(error)
    except click.ClickException as error:
        _end(InputError(error.format_message()))
    except (KeyboardInterrupt, click.exceptions.Abort):
        sys.exit(Interrupted.exit_code)
    except Exception as error:
        _end(known(error) or _own_mistake(error))


def _open_standard_files() -> None:
    """Where input, output or errors are closed (`<&-`), the next file that is opened would be taken for them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, so this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # for all of our life


def _require_folder() -> None:
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise InputError(
            "the folder that you are in was deleted", why="names of files are looked up there", hint="cd to another"
        ) from error


def _for_a_program(words: Sequence[str]) -> bool:
    """Whether the answer is to be JSON: `--json`, or its other spelling where things are listed. What comes after `--` is another
    program's."""
    own = list(itertools.takewhile(lambda word: word != "--", words))
    pairs = list(itertools.pairwise(own))
    named = ("-o", "json") in pairs or ("--output", "json") in pairs
    return named or not {"--json", "-ojson", "--output=json"}.isdisjoint(own)


def _refuse(error: click.UsageError) -> None:
    """Reports a misspelt command or option: to a person with the usage, to a program as JSON."""
    if not _for_a_program(sys.argv[1:]):
        error.show()
        sys.exit(InputError.exit_code)
    path = error.ctx.command_path if error.ctx is not None else "rackless"
    _end(InputError(error.format_message(), hint=f"`{path} --help` says what there is"))


def _own_mistake(error: Exception) -> RacklessError:
    import traceback

    traceback.print_exception(error)
    return RacklessError(
        "rackless has made a mistake",
        why=f"{type(error).__name__}: {error}",
        hint="please report it with the lines above; `rackless gather` makes an archive of the lab for that",
    )


def _end(error: RacklessError) -> None:
    from rackless.cli import failure

    failure.show_json(error) if _for_a_program(sys.argv[1:]) else failure.show(error)
    sys.exit(error.exit_code)
