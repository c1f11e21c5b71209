"""`rackless host …`: the hosts, as BareMetalHost records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from rackless.cli import host_view
from rackless.cli.groups import SuggestingGroup
from rackless.cli.options import confirm, console_for, lab_name, lab_options, listing_options, print_as, print_json
from rackless.cli.progress import shown
from rackless.codec import encode
from rackless.errors import InputError
from rackless.events import Bus
from rackless.operations import hosts as host_operations
from rackless.operations.lab_registry import require_lab
from rackless.protocol.messages import HostDone, HostVerb, HostWish
from rackless.run.paths import Roots

FORMATS = ("qcow2", "raw", "live-iso")
_REGISTERS = "`rackless up --until hosts` registers the lab's servers"


@click.group(cls=SuggestingGroup)
def host() -> None:
    """Hosts of the lab: known by their BMCs, kept as BareMetalHost records."""


def _host_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("host_name", metavar="HOST", shell_complete=_complete)(command)


def _wish_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every verb that changes a host has."""
    command = click.option("--json", "as_json", is_flag=True, help="Events as JSON lines, the result last.")(command)
    command = click.option(
        "--wait/--no-wait", default=True, show_default=True, help="Wait until it is done, or has failed."
    )(command)
    command = click.option("--all", "everyone", is_flag=True, help="Every host of the lab.")(command)
    return lab_options(click.argument("hosts", metavar="HOST...", nargs=-1, shell_complete=_complete)(command))


def _asking(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(command)


def _complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The hosts of the lab, for the shell's completion; nothing when labd does not answer."""
    try:
        records = _records(context.params.get("file"), context.params.get("name"))
    except Exception:  # a completion never complains
        return []
    return [name for record in records if (name := record["metadata"]["name"]).startswith(incomplete)]


def _image_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option(
        "--format", "form", type=click.Choice(FORMATS), help="[found in the file, or from the URL's ending]"
    )(command)
    return click.option("--checksum", default="", help="md5, sha256 or sha512; a local file's own is computed.")(
        command
    )


@host.command("list")
@lab_options
@listing_options
def list_hosts(file: Path | None, name: str | None, form: str) -> None:
    """List the hosts."""
    records = _records(file, name)
    if print_as(form, records):
        return
    table, wide = Table(box=None, pad_edge=False, header_style="dim"), form == "wide"
    more = ("POWERED", "CONSUMER", "BOOT MAC", "IMAGE") if wide else ()
    for column in ("NAME", "STATE", "ONLINE", "ERROR", "BMC", *more):
        table.add_column(column, no_wrap=True)
    for record in records:
        status = record.get("status", {})
        state = status.get("provisioning", {}).get("state", "")
        bmc = record["spec"].get("bmc", {}).get("address", "").partition("/redfish/")[0]
        online = str(record["spec"]["online"]).lower()
        cells = [record["metadata"]["name"], state, online, status.get("errorType", ""), bmc]
        table.add_row(*cells, *(_more_cells(record) if wide else ()))
    console_for(form).print(table)
    if not records:
        click.echo(f"no host is registered yet; {_REGISTERS}", err=True)


def _more_cells(record: dict[str, Any]) -> Iterator[str]:
    spec, status = record["spec"], record.get("status", {})
    yield "on" if status.get("poweredOn") else "off"
    yield (spec.get("consumerRef") or {}).get("name", "-")
    yield spec.get("bootMACAddress", "-")
    yield (status.get("provisioning", {}).get("image") or {}).get("url", "-")


@host.command()
@lab_options
@_host_argument
@listing_options
@click.option("--yaml", "as_yaml", is_flag=True, help="The same as -o yaml.")
def show(file: Path | None, name: str | None, host_name: str, form: str, as_yaml: bool) -> None:
    """Show what is known of HOST: its state and how it came there, its errors, its hardware."""
    records = _records(file, name)
    for record in records:
        if record["metadata"]["name"] == host_name:
            if not print_as("yaml" if as_yaml else form, record):
                console = console_for(form)
                for line in host_view.render(record):
                    console.print(line, soft_wrap=True)
            return
    known = [str(record["metadata"]["name"]) for record in records]
    near = get_close_matches(host_name, known, n=1)
    hint = (
        f"did you mean {near[0]}?"
        if near
        else "`rackless host list` shows the hosts there are"
        if known
        else _REGISTERS
    )
    raise InputError(f"there is no host {host_name}", why=f"there is {', '.join(known)}" if known else "", hint=hint)


@host.command()
@_wish_options
def inspect(
    file: Path | None, name: str | None, hosts: tuple[str, ...], everyone: bool, wait: bool, as_json: bool
) -> None:
    """Read the hardware of HOSTs again; they must be available."""
    lab = lab_name(file, name)
    _wish("inspect", lab, _named(lab, hosts, everyone), wait, as_json)


@host.command()
@_wish_options
@click.option(
    "--image", required=True, metavar="URL|FILE", help="The image: a URL, or a file, which the lab then offers."
)
@_image_options
@click.option(
    "--user-data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file for its first boot, such as an Ignition config.",
)
@click.option("--replace", is_flag=True, help="Take off the system that is there.")
def provision(
    file: Path | None,
    name: str | None,
    hosts: tuple[str, ...],
    everyone: bool,
    wait: bool,
    as_json: bool,
    image: str,
    checksum: str,
    form: str | None,
    user_data: Path | None,
    replace: bool,
) -> None:
    """Put an image of your own on HOSTs and boot it.

    A live-iso is booted from the BMC's virtual drive and not written. `rackless up` leaves the hosts alone from then on;
    `rackless host deprovision` gives them back.
    """
    lab, roots, wanted = lab_name(file, name), Roots.from_environment(), _image(image, checksum, form)
    named = _named(lab, hosts, everyone)

    def ask(bus: Bus) -> Coroutine[Any, Any, list[HostDone]]:
        return host_operations.provision(
            lab, named, wanted, roots, bus, user_data=user_data, replace=replace, wait=wait
        )

    _run(ask, as_json)


@host.command()
@_wish_options
@_asking
def deprovision(
    file: Path | None, name: str | None, hosts: tuple[str, ...], everyone: bool, wait: bool, as_json: bool, yes: bool
) -> None:
    """Take the system off HOSTs and clean it; `rackless up` puts the lab's on again."""
    lab = lab_name(file, name)
    named = _named(lab, hosts, everyone)
    _confirm("take the system off", named, yes=yes)
    _wish("deprovision", lab, named, wait, as_json)


@host.command()
@_wish_options
@_asking
def clean(
    file: Path | None, name: str | None, hosts: tuple[str, ...], everyone: bool, wait: bool, as_json: bool, yes: bool
) -> None:
    """Erase what the disks of HOSTs say of themselves, once more; they must be available."""
    lab = lab_name(file, name)
    named = _named(lab, hosts, everyone)
    _confirm("erase the disks of", named, yes=yes)
    _wish("clean", lab, named, wait, as_json)


@host.command()
@_wish_options
@_asking
def take(
    file: Path | None, name: str | None, hosts: tuple[str, ...], everyone: bool, wait: bool, as_json: bool, yes: bool
) -> None:
    """Let the lab have HOSTs of metal, which `hosts` in lab.yaml lists: they are restarted, inspected and cleaned.

    Until this is said nothing is asked of them. `rackless host adopt` leaves on them what is on them.
    """
    lab = lab_name(file, name)
    named = _named(lab, hosts, everyone)
    _confirm("restart, and clean the disks of,", named, yes=yes)
    _wish("take", lab, named, wait, as_json)


@host.command()
@_wish_options
@click.option("--image", metavar="URL|FILE", help="The image that is on it already [only its power is managed].")
@_image_options
def adopt(
    file: Path | None,
    name: str | None,
    hosts: tuple[str, ...],
    everyone: bool,
    wait: bool,
    as_json: bool,
    image: str | None,
    checksum: str,
    form: str | None,
) -> None:
    """Take HOSTs as they are: nothing is inspected, cleaned or written."""
    lab, roots = lab_name(file, name), Roots.from_environment()
    wanted = _image(image, checksum, form) if image else None
    named = _named(lab, hosts, everyone)
    _run(lambda bus: host_operations.adopt(lab, named, wanted, roots, bus, wait=wait), as_json)


@host.command()
@_wish_options
def retry(
    file: Path | None, name: str | None, hosts: tuple[str, ...], everyone: bool, wait: bool, as_json: bool
) -> None:
    """Try at once what has failed on HOSTs, as if nothing had failed before."""
    lab = lab_name(file, name)
    _wish("retry", lab, _named(lab, hosts, everyone), wait, as_json)


def _named(lab: str, hosts: tuple[str, ...], everyone: bool) -> list[str]:
    if bool(hosts) == everyone:
        raise click.UsageError("name hosts or say --all, not both" if everyone else "name a host, or say --all")
    require_lab(lab, Roots.from_environment())
    return [record["metadata"]["name"] for record in _lab_records(lab)] if everyone else list(dict.fromkeys(hosts))


def _confirm(what: str, hosts: list[str], *, yes: bool) -> None:
    """Asks for confirmation, as `destroy` does."""
    if yes:
        return
    confirm(f"{what[0].upper()}{what[1:]} {', '.join(hosts)}?", would=f"this would {what} {', '.join(hosts)}")


def _wish(verb: HostVerb, lab: str, hosts: list[str], wait: bool, as_json: bool) -> None:
    roots, wishes = Roots.from_environment(), [HostWish(verb, host, wait) for host in hosts]
    _run(lambda bus: host_operations.wish_all(lab, wishes, roots, bus), as_json)


def _run(ask: Callable[[Bus], Coroutine[Any, Any, list[HostDone]]], as_json: bool) -> None:
    bus = Bus()
    with shown(bus, as_json=as_json):
        done = asyncio.run(ask(bus))
    if as_json:
        print_json(encode(done[0] if len(done) == 1 else done))


def _image(url: str, checksum: str, form: str | None) -> Any:
    from pydantic import ValidationError

    from rackless.spec.images import ImageSpec

    try:
        return ImageSpec.model_validate(
            {"url": url, "checksum": checksum, "format": form}, context={"folder": Path.cwd()}
        )
    except ValidationError as error:
        said = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise InputError(said, hint="name an image: http://…, https://…, or a file of yours") from error


def _records(file: Path | None, name: str | None) -> list[dict[str, Any]]:
    return _lab_records(lab_name(file, name))


def _lab_records(lab: str) -> list[dict[str, Any]]:
    return [dict(record) for record in asyncio.run(host_operations.hosts(lab, Roots.from_environment()))]
