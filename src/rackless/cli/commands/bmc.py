"""`rackless bmc …`: the BMCs of a lab, faults in them, and BMCs for any libvirt domains."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackless.cli.commands import bmc_lab
from rackless.cli.completing import servers
from rackless.cli.groups import SuggestingGroup
from rackless.cli.options import json_option, lab_name, lab_options, listing_options, print_as, print_json
from rackless.cli.words import message
from rackless.codec import encode

if TYPE_CHECKING:
    from rackless.operations.serve_bmcs import ServeSettings

TROUBLES = ("delay", "refuse", "drop", "wrong-password", "stuck-power", "failing-media", "slow-download")
OPERATIONS = ("read", "login", "power", "boot", "media", "other")


@click.group(cls=SuggestingGroup)
def bmc() -> None:
    """BMCs: see and use a lab's; make them fail on demand; serve them for any libvirt domains."""


for command in (bmc_lab.list_bmcs, bmc_lab.show, bmc_lab.media, bmc_lab.boot):
    bmc.add_command(command)


@bmc.command()
@click.option(
    "--uri", default="qemu:///system", show_default=True, help="The libvirt connection whose domains to serve."
)
@click.option("--address", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--redfish-port", default=8000, show_default=True, help="The port of Redfish.")
@click.option("--http", is_flag=True, help="Plain HTTP instead of TLS.")
@click.option("--ipmi-base-port", type=int, help="The first port of IPMI; every domain has its own [no IPMI].")
@click.option("--username", default="admin", show_default=True, help="The administrator's name.")
@click.option(
    "--password-file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the administrator's password.",
)
@click.option("--state", type=click.Path(path_type=Path), help="Where images, overrides and certificates are kept.")
@click.option("--max-starting", default=0, help="How many servers may start at once [as many as cores, at least 3].")
@click.option("--json", "as_json", is_flag=True, help="One JSON line per BMC when it is ready.")
def serve(
    uri: str,
    address: str,
    redfish_port: int,
    http: bool,
    ipmi_base_port: int | None,
    username: str,
    password_file: Path,
    state: Path | None,
    max_starting: int,
    as_json: bool,
) -> None:
    """Serve Redfish and IPMI BMCs for all domains of a libvirt connection, until stopped."""
    from rackless.errors import InputError
    from rackless.operations.serve_bmcs import ServeSettings

    password = password_file.read_text().rstrip("\r\n")
    if not password:
        raise InputError(f"the password file {password_file} is empty", hint="write the password into it, on one line")
    folder = state or _folder() / f"{address.replace(':', '_')}-{redfish_port}"
    settings = ServeSettings(
        uri,
        username,
        password,
        folder.absolute(),
        address,
        redfish_port,
        tls=not http,
        ipmi_base_port=ipmi_base_port,
        starting=max_starting,
    )
    asyncio.run(_serve(settings, as_json))


async def _serve(settings: ServeSettings, as_json: bool) -> None:
    from rackless.events import Bus, Event, Note
    from rackless.operations import serve_bmcs as bmc_server
    from rackless.operations.this_computer import this_computer

    bus = Bus()

    def warn(event: Event) -> None:
        if isinstance(event, Note) and event.level == "warning":
            click.echo(message(event), err=True)

    def announce(endpoint: bmc_server.ServedAddress) -> None:
        ipmi = f"  IPMI port {endpoint.ipmi_port}" if endpoint.ipmi_port else ""
        click.echo(json.dumps(asdict(endpoint)) if as_json else f"{endpoint.name}  {endpoint.redfish}{ipmi}")

    def ready(ca: Path | None) -> None:
        gc.freeze()  # modules stay: looking through them for garbage would delay every client
        if not as_json:
            scheme = "https" if settings.tls else "http"
            click.echo(f"ready: {scheme}://{settings.address}:{settings.port}/redfish/v1/")
        if ca is not None:
            click.echo(f"trust this CA: {ca}", err=as_json)

    bus.subscribe(warn)
    serving = asyncio.ensure_future(bmc_server.serve(settings, bus, announce, ready, this_computer()))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        pass


def _folder() -> Path:
    from rackless.run.paths import Roots

    if os.geteuid() == 0 or "RACKLESS_STATE" in os.environ:
        return Roots.from_environment().state / "bmc"
    return Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local/state")) / "rackless/bmc"


@bmc.group(cls=SuggestingGroup)
def fault() -> None:
    """Things that go wrong at BMCs, because you want to see what happens then."""


serving_option = click.option(
    "--serving",
    metavar="ADDRESS:PORT",
    help="Not in a lab, but at the `bmc serve` that listens there, or whose --state folder this is.",
)


def _socket(file: Path | None, name: str | None, serving: str | None) -> Path:
    from rackless.operations import hosts as host_operations
    from rackless.run.paths import Roots

    if serving is None:
        return host_operations.lab_socket(lab_name(file, name), Roots.from_environment())
    if "/" in serving or Path(serving).is_dir():
        return asyncio.run(host_operations.served_socket(Path(serving)))
    address, _, port = serving.rpartition(":")
    return asyncio.run(
        host_operations.served_socket(_folder() / f"{(address or '127.0.0.1').replace(':', '_')}-{port}")
    )


@fault.command()
@lab_options
@serving_option
@click.argument("trouble", type=click.Choice(TROUBLES))
@click.option("--server", shell_complete=servers, help="Only at this server's BMC [every].")
@click.option("--operation", type=click.Choice(OPERATIONS), help="Only requests of this kind [every].")
@click.option("--probability", type=float, default=1.0, show_default=True, help="How often it happens.")
@click.option("--count", type=int, help="After so many times it is over [never].")
@click.option("--seconds", type=float, default=5.0, show_default=True, help="Of a delay.")
@click.option("--status", type=int, default=503, show_default=True, help="Of a refusal.")
@click.option("--rate", type=int, default=65536, show_default=True, help="Bytes per second of a slow download.")
@json_option()
def add(
    file: Path | None,
    name: str | None,
    serving: str | None,
    trouble: str,
    server: str | None,
    operation: str | None,
    probability: float,
    count: int | None,
    seconds: float,
    status: int,
    rate: int,
    as_json: bool,
) -> None:
    """Let TROUBLE happen from now on."""
    from rackless.operations import hosts as host_operations
    from rackless.protocol.messages import FaultWish

    added = asyncio.run(
        host_operations.add_fault(
            _socket(file, name, serving),
            FaultWish(trouble, server, operation, probability, count, seconds, status, rate),
        )
    )
    if as_json:
        print_json(encode(added))
    else:
        click.echo(f"fault {added.id}: {added.text}")


@fault.command("list")
@lab_options
@serving_option
@listing_options
def list_faults(file: Path | None, name: str | None, serving: str | None, form: str) -> None:
    """List the faults there are."""
    from rackless.operations import hosts as host_operations

    found = asyncio.run(host_operations.faults(_socket(file, name, serving)))
    if print_as(form, encode(found)):
        return
    for one in found:
        click.echo(f"fault {one.id}: {one.text}")
    if not found:
        click.echo("no fault was asked for")


@fault.command()
@lab_options
@serving_option
@click.argument("ids", nargs=-1, type=int)
@json_option()
def clear(file: Path | None, name: str | None, serving: str | None, ids: tuple[int, ...], as_json: bool) -> None:
    """Take the faults with these IDS away, or all."""
    from rackless.operations import hosts as host_operations

    gone = asyncio.run(host_operations.clear_faults(_socket(file, name, serving), ids))
    if as_json:
        print_json({"cleared": gone})
    else:
        click.echo(f"{gone} taken away")
