"""`rackless init`: a commented lab.yaml that fits this computer, or one that is the twin of a site."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path, PurePosixPath

import click

from rackless.cli.options import DHCP_AT_A_SITE, json_option, print_json
from rackless.errors import InputError
from rackless.operations.output_files import write_output
from rackless.run.paths import Roots
from rackless.spec.networks import BmcAccess, Dhcp
from rackless.spec.profiles import Profile


@click.command()
@click.option("--profile", type=click.Choice([profile.value for profile in Profile]), help="Which servers.")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, dir_okay=False),
    help="An install-config.yaml: the lab becomes the twin of that site.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("lab.yaml"), show_default=True)
@click.option("--name", help="The lab's name [lab; with --from the cluster's].")
@click.option(
    "--dhcp",
    type=DHCP_AT_A_SITE,
    default=Dhcp.INSTALLER.value,
    show_default=True,
    help="With --from: who gets an address at the site.",
)
@click.option(
    "--bmc-access",
    type=click.Choice([access.value for access in BmcAccess]),
    default=BmcAccess.DIRECT.value,
    show_default=True,
    help="With --from: whether the site's BMCs are behind a router of their own.",
)
@click.option("--gateway", help="With --from: the router of the machine network, where the file names none.")
@click.option("--force", is_flag=True, help="Replace the file when it exists.")
@json_option()
def init(
    profile: str | None,
    source: Path | None,
    output: Path,
    name: str | None,
    dhcp: str,
    bmc_access: str,
    gateway: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write a lab.yaml that fits this computer, with a word on every field that one may want to change.

    With --from it describes the twin of a site: the same addresses, names, MACs, BMC addresses and accounts. The passwords of
    the BMCs are written into files beside it that only you can read.
    """
    if output.exists() and not force:
        raise InputError(f"{output} is there already", hint="add --force to replace it, or -o FILE to write another")
    if source is not None:
        _twin(source, output, name, Dhcp(dhcp), BmcAccess(bmc_access), _address(gateway), as_json=as_json)
        return
    from rackless.operations.sizing import choose_method, choose_profile
    from rackless.spec.template import render

    roots = Roots.from_environment()
    chosen, why = choose_profile(profile, roots)
    method, because = choose_method(roots)
    write_output(output, render(name or "lab", chosen, why, method), mode=0o644)
    if as_json:
        print_json(
            {"file": str(output), "profile": chosen.value, "why": why, "method": method.value, "because": because}
        )
    else:
        says = f"{output}: {chosen.value}; {why}\ncluster: {method.value}; {because}"
        click.echo(f"{says}\nnext: rackless validate, rackless plan, sudo rackless up")


def _address(text: str | None) -> IPv4Address | None:
    try:
        return IPv4Address(text) if text else None
    except ValueError as error:
        raise InputError(f"--gateway {text} is not an IPv4 address", hint="such as --gateway 192.0.2.1") from error


def _twin(
    source: Path,
    output: Path,
    name: str | None,
    dhcp: Dhcp,
    access: BmcAccess,
    gateway: IPv4Address | None,
    *,
    as_json: bool,
) -> None:
    from rackless.installer.twin import rendering
    from rackless.installer.twin.reading import read_twin
    from rackless.installer.twin.site import Wishes

    made = read_twin(source, Wishes(name, dhcp, access, gateway))
    folder = output.with_name(f"{output.stem}.passwords")
    for file, password in rendering.password_files(made).items():
        write_output(folder / file, password)
    folder.chmod(0o700)
    write_output(output, rendering.render(made, source.name, PurePosixPath(folder.name)), mode=0o644)
    if as_json:
        print_json(
            {
                "file": str(output),
                "passwords": str(folder),
                "cluster": made.domain,
                "servers": [server.name for server in made.servers],
                "deviations": list(made.deviations),
            }
        )
        return
    click.echo(f"{output}: the twin of {made.domain}, {len(made.servers)} servers; passwords in {folder}, yours only")
    for line in made.deviations:
        click.echo(f"  otherwise than at the site: {line}")
    click.echo(
        f"next: rackless validate -f {output}, or rackless rehearse {source} --installer ./openshift-install --quick"
    )
