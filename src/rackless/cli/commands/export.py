"""`rackless export hosts|ironic|ansible|dhcp`: the lab's servers as metal for somebody else's tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import yaml

from rackless.cli.completing import servers_argument
from rackless.cli.groups import SuggestingGroup
from rackless.cli.options import json_option, lab_name, lab_options, print_json
from rackless.errors import InputError
from rackless.operations import export as operations
from rackless.operations.output_files import write_output
from rackless.run.paths import Roots


@click.group(cls=SuggestingGroup)
def export() -> None:
    """The lab's servers as metal for somebody else's tools."""


def _export_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option("--json", "as_json", is_flag=True, help="JSON instead of YAML.")(command)
    command = click.option(
        "--exposed", is_flag=True, help="The places where `rackless expose` has them, instead of those inside the lab."
    )(command)
    command = click.option(
        "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write it here, for you only."
    )(command)
    return lab_options(servers_argument(command))


def _secret_options(command: Callable[..., Any]) -> Callable[..., Any]:
    help = "Print it with its passwords, where no file is named."
    return _export_options(click.option("--show-secrets", is_flag=True, help=help)(command))


@export.command()
@_secret_options
@click.option("--namespace", default="", help="Of the records [the one they are applied in].")
def hosts(
    file: Path | None,
    name: str | None,
    servers: tuple[str, ...],
    output: Path | None,
    exposed: bool,
    as_json: bool,
    show_secrets: bool,
    namespace: str,
) -> None:
    """BareMetalHosts and their Secrets for any baremetal-operator: of all SERVERS, or of some."""
    _require_place(output, show_secrets)
    found = operations.select(lab_name(file, name), Roots.from_environment(), servers=servers, exposed=exposed)
    records = operations.host_records(found, namespace)
    listed = {"apiVersion": "v1", "kind": "List", "items": records}
    _write(json.dumps(listed) + "\n" if as_json else yaml.safe_dump_all(records, sort_keys=False), output)


@export.command()
@_secret_options
def ironic(
    file: Path | None,
    name: str | None,
    servers: tuple[str, ...],
    output: Path | None,
    exposed: bool,
    as_json: bool,
    show_secrets: bool,
) -> None:
    """An enrolment file for `openstack baremetal create`: of all SERVERS, or of some."""
    _require_place(output, show_secrets)
    found = operations.select(lab_name(file, name), Roots.from_environment(), servers=servers, exposed=exposed)
    _write(_text(operations.enrolment(found), as_json), output)


@export.command()
@_export_options
def ansible(
    file: Path | None,
    name: str | None,
    servers: tuple[str, ...],
    output: Path | None,
    exposed: bool,
    as_json: bool,
) -> None:
    """An inventory for Ansible: of all SERVERS, or of some. It names the files of keys and passwords, and has none in it."""
    lab, roots = lab_name(file, name), Roots.from_environment()
    found = operations.select(lab, roots, servers=servers, exposed=exposed, secrets=False)
    _write(_text(operations.inventory(lab, found, roots), as_json), output)


@export.command()
@lab_options
@json_option("One JSON list of lines.")
def dhcp(file: Path | None, name: str | None, as_json: bool) -> None:
    """Reservations for a DHCP server of others, as lines of dnsmasq: the servers' addresses by MAC, and the bootstrap's."""
    lines = operations.reservations(lab_name(file, name), Roots.from_environment())
    if as_json:
        print_json(lines)
    else:
        click.echo("\n".join(lines))


def _require_place(output: Path | None, show_secrets: bool) -> None:
    if output is None and not show_secrets:
        raise InputError(
            "passwords of BMCs would be printed",
            why="what is exported logs in to them",
            hint="-o FILE writes it for you only; --show-secrets prints it",
        )


def _text(document: operations.Document, as_json: bool) -> str:
    return json.dumps(document) + "\n" if as_json else yaml.safe_dump(document, sort_keys=False)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    write_output(output, text)
