"""`rackless controllers`: the controllers that labd runs for its lab, as a process of their own, for any Kubernetes API."""

from __future__ import annotations

from pathlib import Path

import click

from rackless.cli.groups import SuggestingGroup
from rackless.errors import InputError
from rackless.events import Subscriber

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group(cls=SuggestingGroup)
def controllers() -> None:
    """Hosts, Machines and Nodes are brought to what their objects say."""


@controllers.command()
@click.option("--kubeconfig", required=True, type=_FILE, help="The API with the hosts and Machines.")
@click.option("--nodes-kubeconfig", type=_FILE, help="The API with the Nodes, where that is another one.")
@click.option(
    "--controllers", "names", default="machine,machineset,health,csr,node", show_default=True,
    help="Which: host, machine, machineset, health, csr, node.",
)  # fmt: skip
@click.option("--namespace", help="Where hosts and Machines are; the kubeconfig's, else metal3.")
@click.option("--ironic", metavar="URL", help="The Ironic that provisions, for `host`.")
@click.option("--ironic-ca", type=_FILE, help="The CA of its certificate.")
@click.option("--ironic-user", default="", help="Who we are to it, by HTTP basic authentication.")
@click.option("--ironic-password-file", type=_FILE, help="A file with the password.")
@click.option("--pretend", is_flag=True, help="Provision nothing and say it was done: for trying things out.")
@click.option(
    "--leader-elect/--no-leader-elect", default=True, show_default=True,
    help="Of several such processes one acts, by the Lease rackless-controllers.",
)  # fmt: skip
@click.option("--identity", default="", help="Our name in that election; the host's name and our process number.")
@click.option(
    "--listen", default="127.0.0.1:9446", show_default=True, metavar="ADDRESS:PORT",
    help="Where /metrics, /healthz and /readyz are; empty for nowhere.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Each event as a line of JSON.")
def run(
    kubeconfig: Path,
    nodes_kubeconfig: Path | None,
    names: str,
    namespace: str | None,
    ironic: str | None,
    ironic_ca: Path | None,
    ironic_user: str,
    ironic_password_file: Path | None,
    pretend: bool,
    leader_elect: bool,
    identity: str,
    listen: str,
    as_json: bool,
) -> None:
    """Run them until stopped. On a cluster of somebody else's, too: the kinds must be defined there."""
    from rackless.events import Bus
    from rackless.operations.controllers import Settings, check_names, run_until_stopped
    from rackless.ports.ironic import ForeignAccess

    if ironic and pretend:
        raise InputError("--ironic and --pretend exclude each other", hint="leave one of them out")
    password = ironic_password_file.read_text().strip() if ironic_password_file is not None else ""
    settings = Settings(
        kubeconfig=kubeconfig,
        nodes_kubeconfig=nodes_kubeconfig,
        controllers=check_names([name.strip() for name in names.split(",") if name.strip()]),
        namespace=namespace or "",
        ironic=ForeignAccess(ironic.rstrip("/"), ironic_user, password, ironic_ca) if ironic else None,
        pretend=pretend,
        elect=leader_elect,
        identity=identity,
        listen=_place(listen),
    )
    bus = Bus()
    bus.subscribe(_show(as_json))
    run_until_stopped(settings, bus)


def _place(text: str) -> tuple[str, int] | None:
    if not text:
        return None
    address, colon, port = text.rpartition(":")
    if not colon or not address or not port.isdigit() or int(port) > 65535:
        raise InputError(f"{text!r} is no place to listen", hint="say ADDRESS:PORT, such as 127.0.0.1:9446")
    return address.strip("[]"), int(port)


def _show(as_json: bool) -> Subscriber:
    import json

    from rackless.cli.words import message, to_json
    from rackless.events import Event, Note, StepFinished

    def show(event: Event) -> None:
        if as_json:
            click.echo(json.dumps(to_json(event)))
        elif isinstance(event, Note) and event.level != "progress":
            click.echo(f"{'warning: ' if event.level == 'warning' else ''}{message(event)}")
        elif isinstance(event, StepFinished) and event.outcome == "failed":
            click.echo(f"failed: {event.detail}")

    return show
