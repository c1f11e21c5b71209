"""`rackless rehearse`: a site's own install-config and the real installer, to "Install complete!", before the real day."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import NoReturn

import click

from rackless.cli import rehearsal_view
from rackless.cli.options import DHCP_AT_A_SITE, print_json
from rackless.cli.progress import shown
from rackless.cluster.openshift.faults import STORIES, InstallFault
from rackless.cluster.openshift.report import Report
from rackless.errors import FINDINGS, InputError
from rackless.events import Bus
from rackless.installer.twin.site import Wishes
from rackless.run.paths import Roots
from rackless.spec.networks import BmcAccess, Dhcp

_WAYS = "; ".join(f"{fault.value}: {story}" for fault, story in STORIES.items())
_File = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("source", type=_File, metavar="INSTALL-CONFIG")
@click.option("--installer", type=_File, help="The installer of your release; it is run as it is.")
@click.option(
    "--bmcs",
    type=click.Choice(["twin", "real"]),
    default="twin",
    show_default=True,
    help="Whose BMCs: those of a twin on this computer, or the site's own. Those are only asked; no lab is made, and no "
    "installer is run.",
)
@click.option(
    "--allow",
    "allowed",
    type=click.Choice(["media", "power"]),
    multiple=True,
    help="With --bmcs real: put a disc into every virtual drive and take it out again; switch servers on that are off, and "
    "off again. What somebody uses is left alone.",
)
@click.option("--image", metavar="URL", default="", help="With --allow media: the ISO, where BMCs can fetch it.")
@click.option(
    "--quick",
    is_flag=True,
    help="Ask BMCs and simulate the masters: about a minute. Without it the twin's servers are installed.",
)
@click.option("--name", help="The twin's name [the cluster's].")
@click.option("--dhcp", type=DHCP_AT_A_SITE, default=Dhcp.INSTALLER.value, show_default=True,
              help="Who gets an address at the site.")  # fmt: skip
@click.option("--bmc-access", type=click.Choice([access.value for access in BmcAccess]), default=BmcAccess.DIRECT.value,
              show_default=True, help="Whether the site's BMCs are behind a router of their own.")  # fmt: skip
@click.option("--fail", "fault", type=click.Choice([fault.value for fault in InstallFault]), metavar="WHAT",
              help=f"Let something go wrong: {_WAYS}.")  # fmt: skip
@click.option("--patience", type=click.FloatRange(min=0), metavar="SECONDS",
              help="How long the installer may wait in vain before it is interrupted [20].")  # fmt: skip
@click.option("--keep", is_flag=True, help="Leave the twin there, with what the installer left in it.")
@click.option("--no-install", is_flag=True, help="Refuse, instead of installing, when packages are missing.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder for the report as JSON and JUnit.",
)
@click.option("--json", "as_json", is_flag=True, help="The report as one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but the report.")
def rehearse(
    source: Path,
    installer: Path | None,
    bmcs: str,
    allowed: tuple[str, ...],
    image: str,
    quick: bool,
    name: str | None,
    dhcp: str,
    bmc_access: str,
    fault: str | None,
    patience: float | None,
    keep: bool,
    no_install: bool,
    output: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run your own installer against the twin of a site, to its end.

    The twin has the addresses, names, MACs and BMCs of the install-config. Nothing outside this computer is asked. Exit code 0: all
    was proven; 10: something was not, and the report says what to do about it.

    With --bmcs real the site's own BMCs are asked instead, from this computer, by the addresses and accounts of the install-config.
    """
    if bmcs == "real":
        report = _ask_metal(source, allowed, image, quiet=quiet or as_json)
        _end(report, output, as_json=as_json)
    if allowed or image:
        raise InputError("--allow and --image are for a site's own servers", hint="add --bmcs real")
    if installer is None:
        raise InputError("no installer is named", hint="name that of your release with --installer ./openshift-install")
    from rackless.operations.rehearsal import rehearse as operations

    wishes = Wishes(name, Dhcp(dhcp), BmcAccess(bmc_access))
    wanted = operations.Wanted(
        source, installer, wishes, InstallFault(fault) if fault else None, patience, keep, install=not no_install,
        full=not quick,
    )  # fmt: skip
    bus = Bus()
    with shown(bus, as_json=False, quiet=quiet or as_json):
        report = asyncio.run(operations.rehearse(wanted, Roots.from_environment(), bus))
    _end(report, output, as_json=as_json)


def _ask_metal(source: Path, allowed: tuple[str, ...], image: str, *, quiet: bool) -> Report:
    from rackless.operations.rehearsal.metal import Allowed, MetalWanted, rehearse_metal

    bus = Bus()
    wanted = MetalWanted(source, frozenset(map(Allowed, allowed)), image)
    with shown(bus, as_json=False, quiet=quiet):
        return asyncio.run(rehearse_metal(wanted, bus))


def _end(report: Report, output: Path | None, *, as_json: bool) -> NoReturn:
    from rackless.operations.rehearsal.rehearse import write_report

    places = write_report(report, output) if output else {}
    if as_json:
        print_json(report.as_json())
    else:
        rehearsal_view.show(report)
        for place in places.values():
            click.echo(f"written: {place}")
    sys.exit(0 if report.good else FINDINGS)
