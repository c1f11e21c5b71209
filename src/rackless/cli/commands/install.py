"""`rackless install …`: the files that an install is made of, with openshift-install's verbs and habits.

Here only, exit codes are openshift-install's: a script that runs that installer can run this command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click

from rackless.cli import failure
from rackless.cli.options import confirm, json_option, print_json
from rackless.cluster.bootstrap.following import BootstrapFailed, InfrastructureFailed
from rackless.errors import GaveUp, RacklessError, known
from rackless.events import Bus, Event, Note
from rackless.installer.assets.catalogue import GRAPH
from rackless.installer.assets.drawing import FORMS, draw
from rackless.installer.assets.install_config import FILE, NoInstallConfig
from rackless.installer.assets.store import FilesWrong
from rackless.operations.install.assets import LOG, create

GENERIC, INSTALL_CONFIG, INFRASTRUCTURE, BOOTSTRAP, INTERRUPTED = 1, 3, 4, 5, 8
"""openshift-install's exit codes: any other failure; install-config wrong or missing; VM not made; bootstrap did not finish;
interrupted."""


class _Install(click.Group):
    """Ends with openshift-install's exit codes instead of ours."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.exceptions.Abort):
            sys.exit(INTERRUPTED)
        except RacklessError as error:
            failure.show_json(_coded(error)) if "--json" in sys.argv else failure.show(error)
            sys.exit(_coded(error).exit_code)


def _coded(error: RacklessError) -> RacklessError:
    found = known(error) or error
    wrong = isinstance(found, NoInstallConfig) or (
        isinstance(found, FilesWrong) and any(mistake.file == FILE for mistake in found.mistakes)
    )
    late = isinstance(found, BootstrapFailed | GaveUp)
    made = isinstance(found, InfrastructureFailed)
    found.exit_code = INSTALL_CONFIG if wrong else INFRASTRUCTURE if made else BOOTSTRAP if late else GENERIC
    return found


@click.group(name="install", cls=_Install)
def install() -> None:
    """Install a cluster from an install-config, as openshift-install does.

    Exit codes, here only: 0 done; 1 something went wrong; 3 the install-config is wrong or not there; 4 the bootstrap machine
    could not be made; 5 it did not come to its end; 8 interrupted.
    """


@install.group(name="create")
def create_group() -> None:
    """Make the files of a target.

    Files in the folder that you changed, or put there, are taken and override what would be made. What went into a target
    leaves the folder and stays in its state file, so that the next target goes on from there.
    """


_dir = click.option(
    "--dir", "folder", type=click.Path(path_type=Path, file_okay=False), default=Path(), help="The folder [.]."
)


@create_group.command(name="install-config")
@_dir
@json_option()
def create_install_config(folder: Path, as_json: bool) -> None:
    """Check install-config.yaml and write it anew with everything said, defaults and MACs too."""
    _create(folder, "install-config", as_json)


@create_group.command(name="manifests")
@_dir
@json_option()
def create_manifests(folder: Path, as_json: bool) -> None:
    """Write the objects that the cluster is given, into manifests/ and openshift/; add your own there.

    Takes install-config.yaml away.
    """
    _create(folder, "manifests", as_json)


@create_group.command(name="ignition-configs")
@_dir
@json_option()
def create_ignition_configs(folder: Path, as_json: bool) -> None:
    """Write what machines are told at their first boot: bootstrap.ign, master.ign, worker.ign; auth/ and metadata.json.

    Takes the manifests away; they are in bootstrap.ign.
    """
    _create(folder, "ignition-configs", as_json)


@create_group.command(name="cluster")
@_dir
@click.option("--name", help="The lab to install in; without it, the one of the cluster's name.")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines.")
def create_cluster(folder: Path, name: str | None, as_json: bool) -> None:
    """Make the bootstrap machine in a lab, let it provision the control plane and hand over, and take it away.

    Then the cluster looks after its hosts itself and installs its workers. The lab is made before, as far as its BMCs:
    `rackless up --until bmc`.
    """
    from rackless.operations.install import cluster as install_cluster

    _follow(install_cluster.create_cluster, folder, name, as_json)


@install.group(name="wait-for")
def wait_group() -> None:
    """Wait for something that an install goes through."""


@wait_group.command(name="bootstrap-complete")
@_dir
@click.option("--name", help="The lab it is in; without it, the one of the cluster's name.")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines.")
def wait_for_bootstrap(folder: Path, name: str | None, as_json: bool) -> None:
    """Wait until the bootstrap machine has handed over to the control plane."""
    from rackless.operations.install import cluster as install_cluster

    _follow(install_cluster.await_bootstrap, folder, name, as_json)


@wait_group.command(name="install-complete")
@_dir
@click.option("--name", help="The lab it is in; without it, the one of the cluster's name.")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines.")
def wait_for_install(folder: Path, name: str | None, as_json: bool) -> None:
    """Wait until the cluster looks after its hosts and its workers have joined."""
    from rackless.operations.install import cluster as install_cluster

    _follow(install_cluster.await_install, folder, name, as_json)


@install.group(name="gather")
def gather_group() -> None:
    """Gather what tells why an install did not come to its end."""


@gather_group.command(name="bootstrap")
@_dir
@click.option("--name", help="The lab it is in; without it, the one of the cluster's name.")
@click.option(
    "--key", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A private key for ssh [the lab's]."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The archive [log-bundle-TIME.tar.gz].")
@json_option()
def gather_bootstrap(folder: Path, name: str | None, key: Path | None, output: Path | None, as_json: bool) -> None:
    """Consoles, and as far as the bootstrap machine answers its journal, Ironic's log and the objects of its API."""
    import asyncio
    import time

    from rackless.operations.install.gather import gather_bootstrap as gather
    from rackless.operations.this_computer import this_computer
    from rackless.run.paths import Roots

    target = output or folder / f"log-bundle-{time.strftime('%Y%m%d%H%M%S')}.tar.gz"
    found = asyncio.run(gather(folder, name, target, key, Roots.from_environment(), this_computer()))
    if as_json:
        print_json(found)
        return
    for what, why in found["absent"].items():
        click.echo(f"{what}: {why}", err=True)
    click.echo(
        f"{found['file']}: {found['files']} files, {found['bytes'] >> 10} KiB; look through it before giving it away"
    )


@install.group(name="destroy")
def destroy_group() -> None:
    """Take away what an install made."""


@destroy_group.command(name="bootstrap")
@_dir
@click.option("--name", help="The lab it is in; without it, the one of the cluster's name.")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines.")
def destroy_bootstrap(folder: Path, name: str | None, as_json: bool) -> None:
    """Take the bootstrap machine away, with its disk."""
    from rackless.operations.install import destroy as install_destroy

    _follow(install_destroy.destroy_bootstrap, folder, name, as_json)


@destroy_group.command(name="cluster")
@_dir
@click.option("--name", help="The lab it is in; without it, the one of the cluster's name.")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def destroy_cluster(folder: Path, name: str | None, as_json: bool, yes: bool) -> None:
    """Switch the cluster's servers off and forget the install; the lab stays, as it was before it."""
    from rackless.operations.install import destroy as install_destroy

    if not yes:
        confirm(
            f"End the cluster of {folder}, and its keys?", would=f"this would end the cluster of {folder}, and its keys"
        )
    _follow(install_destroy.destroy_cluster, folder, name, as_json)


def _follow(work: Callable[..., Coroutine[Any, Any, None]], folder: Path, name: str | None, as_json: bool) -> None:
    """Runs the work in the lab and shows its progress."""
    import asyncio

    from rackless.cli.progress import shown
    from rackless.operations.this_computer import this_computer
    from rackless.run.paths import Roots

    bus = Bus()
    with shown(bus, as_json=as_json):
        asyncio.run(work(folder, name, Roots.from_environment(), bus, this_computer()))


def _create(folder: Path, target: str, as_json: bool) -> None:
    bus = Bus()
    told: list[dict[str, str]] = []

    def tell(event: Event) -> None:
        if isinstance(event, Note):
            told.append({"level": event.level, "message": event.message})
            if not as_json:
                warning = click.style("warning: ", fg="yellow", bold=True) if event.level == "warning" else ""
                click.echo(f"{warning}{event.message}", err=True)

    bus.subscribe(tell)
    places = create(folder, target, bus)
    if as_json:
        print_json({"target": target, "folders": [str(place) for place in places], "notes": told})
        return
    click.echo(f"{GRAPH.target(target).title} created in: {', '.join(str(place) for place in places)}")
    click.echo(f"what was done is in {folder / LOG}", err=True)


@install.command(name="graph")
@click.option("--as", "form", type=click.Choice(FORMS), default="text", show_default=True, help="How to draw it.")
@json_option()
def graph(form: str, as_json: bool) -> None:
    """Draw what is made of what."""
    if as_json:
        print_json(
            {
                "targets": {target.name: [asset.name for asset in target.assets] for target in GRAPH.targets},
                "assets": [
                    {
                        "name": asset.name,
                        "title": asset.title,
                        "needs": [need.name for need in asset.needs],
                        "files": list(asset.files),
                        "once": asset.chance,
                    }
                    for asset in GRAPH.assets
                ],
            }
        )
        return
    click.echo(draw(GRAPH, form), nl=False)
