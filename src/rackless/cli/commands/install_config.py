"""`rackless install-config write|check|explain`: an install-config.yaml for the lab, right for the installer's version.

The file holds the pull secret and the BMCs' passwords, so it is written for its owner only and never printed.
"""

from __future__ import annotations

from pathlib import Path

import click

from rackless.cli.commands.check import install_config as check_file
from rackless.cli.groups import DefaultGroup
from rackless.cli.options import json_option, lab_options, load_spec, print_json
from rackless.errors import InputError
from rackless.installer.install_config import credentials
from rackless.installer.install_config import release as releases
from rackless.installer.install_config.cluster_input import Mirror, ProxyInput
from rackless.installer.install_config.from_lab import PARTS, BmcAccount, Options, from_lab
from rackless.installer.install_config.writing import write
from rackless.operations.output_files import write_output
from rackless.plan.addressing import plan_lab
from rackless.run.paths import LabPaths, Roots

_File = click.Path(path_type=Path, dir_okay=False)


@click.group(name="install-config", cls=DefaultGroup)
def install_config() -> None:
    """Write an install-config.yaml for the lab, check one, or explain a field. Without a command it is `write`."""


@install_config.command(name="write")
@lab_options
@click.option("--version", "version", default=str(releases.NEWEST), show_default=True, help="Version of the installer.")
@click.option("-o", "--output", type=_File, default=Path("install-config.yaml"), show_default=True, help="Where to.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@click.option("--pull-secret", type=_File, help="The pull secret; without it, looked for in the home directory.")
@click.option("--ssh-key", type=_File, help="The public key; without it, looked for in ~/.ssh.")
@click.option("--scheme", default="", help="Scheme of the BMC addresses; without it, what each group of servers says.")
@click.option("--bmc-user", default="admin", show_default=True, help="User of the BMCs.")
@click.option("--bmc-password-file", type=_File, help="A file with the BMCs' password; without it, the lab's own.")
@click.option("--static-bootstrap", is_flag=True, help="Give the bootstrap VM a fixed address.")
@click.option("--static-hosts", is_flag=True, help="Give every host its planned address by NMState, without DHCP.")
@click.option("--vlan", type=click.IntRange(1, 4094), help="With --static-hosts: the VLAN of the addresses.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="SERVER=PART",
    help="A server that takes another part: master, worker, arbiter or none. May be repeated.",
)
@click.option("--proxy", help="HTTP and HTTPS proxy of the cluster.")
@click.option("--no-proxy", help="With --proxy: names and networks that are reached without it, with commas between.")
@click.option(
    "--mirror",
    "mirrors",
    multiple=True,
    metavar="SOURCE=MIRROR",
    help="Where images come from instead. May be repeated.",
)
@click.option("--trust-bundle", type=_File, help="Certificates to trust, for a proxy or mirrors.")
@json_option()
def write_config(
    file: Path | None,
    name: str | None,
    version: str,
    output: Path,
    force: bool,
    pull_secret: Path | None,
    ssh_key: Path | None,
    scheme: str,
    bmc_user: str,
    bmc_password_file: Path | None,
    static_bootstrap: bool,
    static_hosts: bool,
    vlan: int | None,
    roles: tuple[str, ...],
    proxy: str | None,
    no_proxy: str | None,
    mirrors: tuple[str, ...],
    trust_bundle: Path | None,
    as_json: bool,
) -> None:
    """Write an install-config.yaml for the lab."""
    if output.exists() and not force:
        raise InputError(f"{output} is there already", hint="choose another with -o, or say --force")
    plan = plan_lab(load_spec(file, name))
    options = Options(
        releases.parse(version),
        scheme,
        static_bootstrap=static_bootstrap,
        static_hosts=static_hosts,
        vlan=vlan,
        roles=_parts(roles, [server.name for server in plan.servers]),
        proxy=ProxyInput(proxy, proxy, tuple(no_proxy.split(",")) if no_proxy else ()) if proxy else None,
        mirrors=tuple(Mirror(source, (mirror,)) for source, mirror in (_pair(text, "--mirror") for text in mirrors)),
        trust_bundle=_read(trust_bundle, "the certificates") if trust_bundle else "",
    )
    own = LabPaths(Roots.from_environment(), plan.name).secrets / "bmc.password"
    account = BmcAccount(bmc_user, _password(bmc_password_file or own))
    text = write(
        from_lab(
            plan,
            {server.name: account for server in plan.servers},
            credentials.find_pull_secret(pull_secret, Path.home()),
            credentials.find_ssh_key(ssh_key, Path.home()),
            options,
        )
    )
    write_output(output, text)
    if as_json:
        print_json({"file": str(output), "version": str(options.release)})
        return
    click.echo(f"wrote {output} for version {options.release}; it holds secrets and is readable by you only")
    click.echo("keep a copy: the installer consumes the file")


@install_config.command(name="explain")
@click.argument("path", default="")
@click.option("--recursive", is_flag=True, help="Everything below it, too, and not only the next fields.")
@json_option()
def explain_field(path: str, recursive: bool, as_json: bool) -> None:
    """Explain a field, such as platform.baremetal.apiVIPs; without one, list the first."""
    from rackless.installer.install_config import explaining

    text = explaining.explain(path, recursive=recursive)
    print_json({"path": path, "text": text}) if as_json else click.echo(text)


install_config.add_command(check_file, name="check")


def _pair(text: str, option: str) -> tuple[str, str]:
    left, equals, right = text.partition("=")
    if not (left and equals and right):
        raise InputError(f"{option} {text} is not a pair", hint=f"write {option} THIS=THAT")
    return left, right


def _parts(roles: tuple[str, ...], servers: list[str]) -> dict[str, str]:
    parts = dict(_pair(role, "--role") for role in roles)
    for server, part in parts.items():
        if server not in servers:
            raise InputError(f"the lab has no server {server}", hint=f"it has {', '.join(servers)}")
        if part not in PARTS:
            raise InputError(f"{part} is not a part a server can take", hint=f"one of {', '.join(PARTS)}")
    return parts


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{what} in {path} cannot be read", why=str(error), hint="name a file that you may read"
        ) from error


def _password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"the BMCs' password {path} cannot be read",
            why=str(error),
            hint="make the lab first (`rackless up`), run it as root, or name a file with --bmc-password-file",
        ) from error
