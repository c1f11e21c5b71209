"""`rackless bootstrap`: the parts that run on a bootstrap machine, each started by a unit of its Ignition config."""

from __future__ import annotations

from pathlib import Path

import click

from rackless.cli.groups import SuggestingGroup
from rackless.cli.options import json_option
from rackless.cluster.openshift.faults import PLAYED_AFTERWARDS, InstallFault

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
_json = json_option("Each line is a JSON object and nothing else; without it, a mark stands before it.")


@click.group(cls=SuggestingGroup)
def bootstrap() -> None:
    """Parts of an install that run on the bootstrap machine; units there start them."""


@bootstrap.command()
@click.option("--root", required=True, type=_FOLDER, help="The folder with manifests/ and openshift/.")
@click.option("--kubeconfig", required=True, type=_FILE, help="The API that they are brought into.")
@_json
def manifests(root: Path, kubeconfig: Path, as_json: bool) -> None:
    """Bring the manifests into the API, in order, and try again what it refuses."""
    from rackless.operations.bootstrap.parts import apply_manifests
    from rackless.operations.bootstrap.running import run, teller

    tell = teller(as_json)
    run(apply_manifests(root, kubeconfig, tell), tell)


@bootstrap.command(name="machine-configs")
@click.option("--folder", required=True, type=_FOLDER, help="The rendered configs, ROLE.ign.")
@click.option("--certificate", required=True, type=_FILE, help="What the server shows.")
@click.option("--key", required=True, type=_FILE, help="Its key.")
@click.option("--address", default="", help="The address to listen on; without it, all.")
@click.option("--port", default=22623, show_default=True, help="The port to listen on.")
@_json
def machine_configs(folder: Path, certificate: Path, key: Path, address: str, port: int, as_json: bool) -> None:
    """Give new machines the rendered config of their role, until stopped."""
    from rackless.operations.bootstrap.parts import serve_machine_configs
    from rackless.operations.bootstrap.running import run, teller

    tell = teller(as_json)
    run(serve_machine_configs(folder, certificate, key, address, port, tell), tell)


@bootstrap.command()
@click.option("--release", required=True, type=_FILE, help="Says where it is, and its checksum.")
@click.option("--mount", required=True, type=click.Path(path_type=Path), help="Where it is mounted.")
@_json
def payload(release: Path, mount: Path, as_json: bool) -> None:
    """Fetch the payload from the release server and mount it."""
    from rackless.operations.bootstrap.payload import fetch_payload
    from rackless.operations.bootstrap.running import run, teller

    tell = teller(as_json)
    run(fetch_payload(release, mount, tell), tell)


@bootstrap.command()
@click.option("--kubeconfig", required=True, type=_FILE, help="The API with the hosts.")
@click.option(
    "--payload", "folder", required=True, type=click.Path(path_type=Path), help="Where the payload is mounted."
)
@click.option("--interface", required=True, help="Whose address agents and BMCs find us at.")
@click.option(
    "--provisioning", default="", help="The NIC on the network that hosts boot from, with an address of ours."
)
@click.option(
    "--whole", is_flag=True, help="For a cluster: MachineSets and health checks, too, and Ironic begins anew."
)
@_json
def metal3(kubeconfig: Path, folder: Path, interface: str, provisioning: str, whole: bool, as_json: bool) -> None:
    """Run Ironic, its file server and the controllers of hosts, Machines and Nodes, while this machine holds the Lease."""
    from rackless.operations.bootstrap.leading import run_metal3
    from rackless.operations.bootstrap.running import run, teller

    tell = teller(as_json)
    run(run_metal3(kubeconfig, folder, interface, tell, provisioning=provisioning, whole=whole), tell)


_place = click.option(
    "--place", type=click.Path(path_type=Path, file_okay=False), default=Path("/"), hidden=True, help="Instead of /."
)


@bootstrap.command(name="join")
@click.option("--cluster", required=True, help="The cluster's name.")
@click.option("--domain", required=True, help="Its domain.")
@click.option("--vip", required=True, help="The address of its API.")
@_place
@_json
def join_control_plane(cluster: str, domain: str, vip: str, place: Path, as_json: bool) -> None:
    """On a node of the control plane: become a member of etcd and serve the API."""
    from ipaddress import ip_address

    from rackless.operations.bootstrap.handover import Place, join
    from rackless.operations.bootstrap.running import run, teller

    tell, at = teller(as_json), Place(place) if place == Path("/") else Place.inside(place)
    run(join(cluster, domain, ip_address(vip), tell, at), tell)


@bootstrap.command(name="hand-over")
@click.option("--root", required=True, type=_FOLDER, help="The folder with the cluster's keys.")
@click.option("--vip", required=True, help="The address of its API.")
@_place
@_json
def hand_over_bootstrap(root: Path, vip: str, place: Path, as_json: bool) -> None:
    """On the bootstrap machine: wait for the control plane, give it the API's address, and leave etcd."""
    from ipaddress import ip_address

    from rackless.operations.bootstrap.handover import Place, hand_over
    from rackless.operations.bootstrap.running import run, teller

    tell, at = teller(as_json), Place(place) if place == Path("/") else Place.inside(place)
    run(hand_over(root, ip_address(vip), tell, at), tell)


@bootstrap.command()
@click.option("--apps", required=True, help="The domain of what runs in the cluster.")
@click.option(
    "--fail", "fault", type=click.Choice([fault.value for fault in PLAYED_AFTERWARDS]), help="What is to go wrong."
)
@_json
def operators(apps: str, fault: str | None, as_json: bool) -> None:
    """On a control plane of a rehearsal: write what the installer waits for after its bootstrap."""
    from rackless.operations.bootstrap.running import run, teller
    from rackless.operations.rehearsal.operators import run_operators

    tell = teller(as_json)
    run(run_operators(apps, tell, InstallFault(fault) if fault else None), tell)
