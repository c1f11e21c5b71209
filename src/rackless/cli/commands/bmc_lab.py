"""`rackless bmc list|show|media|boot`: the BMCs of a lab, without a client of one's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from rackless.cli.completing import server_argument
from rackless.cli.groups import SuggestingGroup
from rackless.cli.options import console_for, json_option, lab_name, lab_options, listing_options, print_as, print_json
from rackless.cli.progress import shown
from rackless.codec import encode
from rackless.errors import InputError
from rackless.events import Bus
from rackless.operations import bmcs as operations
from rackless.operations.bmcs import BmcInfo
from rackless.protocol.messages import BmcSeen, BootTarget
from rackless.run.paths import Roots

TARGETS = ("disk", "cdrom", "network", "setup", "none")


@click.command("list")
@lab_options
@listing_options
def list_bmcs(file: Path | None, name: str | None, form: str) -> None:
    """List the BMCs of the lab: where they answer, and what is in their drives."""
    found = asyncio.run(operations.bmcs(lab_name(file, name), Roots.from_environment()))
    if print_as(form, encode(found)):
        return
    table, wide = Table(box=None, pad_edge=False, header_style="dim"), form == "wide"
    for column in (
        "SERVER",
        "REDFISH",
        "IPMI",
        "USER",
        "POWER",
        "BOOT",
        "MEDIA",
        *(["METAL3", "PASSWORD"] if wide else []),
    ):
        table.add_column(column, no_wrap=column != "MEDIA", overflow="fold")
    for bmc in found:
        table.add_row(
            bmc.server,
            (bmc.redfish or "-").partition("/redfish/")[0],
            str(bmc.ipmi_port or "-"),
            bmc.username,
            (bmc.seen.power if bmc.seen else None) or "unknown",
            _boot(bmc.seen) if bmc.seen else "-",
            (bmc.seen.media if bmc.seen else None) or "-",
            *([bmc.metal3, str(bmc.password_file)] if wide else []),
        )
    (console_for(form) if wide else Console(highlight=False, soft_wrap=True)).print(table)
    if found:
        click.echo(f"password: {found[0].password_file}   CA: {found[0].ca}")


@click.command()
@lab_options
@server_argument
@click.option("--password", "with_password", is_flag=True, help="Print its password, too.")
@listing_options
def show(file: Path | None, name: str | None, server: str, with_password: bool, form: str) -> None:
    """Show where the BMC of SERVER answers, who may log in, where its password is, and how it stands."""
    found = asyncio.run(operations.bmc(lab_name(file, name), server, Roots.from_environment()))
    password = operations.read_password(found) if with_password else None
    if print_as(form, {**encode(found), **({"password": password} if password is not None else {})}):
        return
    for title, value in _facts(found, password):
        click.echo(f"{title:<14}{value}")


def _facts(bmc: BmcInfo, password: str | None) -> Iterator[tuple[str, str]]:
    yield "server", bmc.server
    yield "Redfish", bmc.redfish or "none"
    yield "IPMI", f"{bmc.address}, UDP port {bmc.ipmi_port}" if bmc.ipmi_port else "none"
    yield "Metal3", bmc.metal3
    yield "user", bmc.username
    yield "password", password if password is not None else f"in {bmc.password_file}; --password prints it"
    yield "CA", bmc.ca
    if bmc.seen is None:
        yield "power", "unknown: nobody answers for it; `rackless up` starts the lab"
        return
    yield "power", bmc.seen.power or "unknown"
    yield "boots from", _boot(bmc.seen)
    yield "drive", bmc.seen.media or "empty"


def _boot(seen: BmcSeen) -> str:
    return "as it is set" if seen.boot == "none" else f"{seen.boot}{', once' if seen.once else ''}"


@click.group(cls=SuggestingGroup)
def media() -> None:
    """The virtual CD drive of a server."""


@media.command()
@lab_options
@server_argument
@click.argument("image", metavar="URL|FILE")
@click.option("--boot/--no-boot", default=False, help="Also have the next start be from it.")
@json_option()
def insert(file: Path | None, name: str | None, server: str, image: str, boot: bool, as_json: bool) -> None:
    """Put an ISO into the drive of SERVER. Its BMC fetches a URL itself; a FILE is offered by the lab's file server."""
    from rackless.spec.images import ImageSpec

    lab, roots, bus = lab_name(file, name), Roots.from_environment(), Bus()
    try:
        wanted = ImageSpec.model_validate({"url": image}, context={"folder": Path.cwd()})
    except ValueError as error:
        raise InputError(
            f"{image} is neither an http URL nor a file on this computer",
            hint="name an ISO: http://…, https://…, or a file of yours",
        ) from error
    with shown(bus, quiet=as_json):
        seen = asyncio.run(operations.insert_media(lab, server, wanted, roots, bus))
    if boot:
        seen = asyncio.run(operations.set_boot(lab, server, "cdrom", roots, once=True))
    _tell(seen, as_json)


@media.command()
@lab_options
@server_argument
@json_option()
def eject(file: Path | None, name: str | None, server: str, as_json: bool) -> None:
    """Empty the drive of SERVER."""
    _tell(asyncio.run(operations.eject_media(lab_name(file, name), server, Roots.from_environment())), as_json)


@click.command()
@lab_options
@server_argument
@click.argument("device", type=click.Choice(TARGETS))
@click.option("--once/--always", default=True, show_default=True, help="For the next start only, or for every one.")
@json_option()
def boot(file: Path | None, name: str | None, server: str, device: BootTarget, once: bool, as_json: bool) -> None:
    """Have SERVER start from DEVICE, whatever its firmware would choose; `none` takes that back."""
    seen = asyncio.run(operations.set_boot(lab_name(file, name), server, device, Roots.from_environment(), once=once))
    _tell(seen, as_json)


def _tell(seen: BmcSeen, as_json: bool) -> None:
    if as_json:
        print_json(encode(seen))
    else:
        click.echo(f"{seen.server}: boots from {_boot(seen)}; in its drive: {seen.media or 'nothing'}")
