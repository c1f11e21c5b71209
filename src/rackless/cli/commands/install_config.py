"""`rackless install-config`: an install-config.yaml for the lab, right for the installer's version.

The file holds the pull secret and the BMCs' passwords, so it is written for its owner only and never printed.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from rackless.cluster.install_config import credentials
from rackless.cluster.install_config import release as releases
from rackless.cluster.install_config.from_lab import BmcAccount, Options, from_lab
from rackless.cluster.install_config.writing import write
from rackless.errors import InputError
from rackless.plan.addressing import plan_lab
from rackless.spec.load import load

_File = click.Path(path_type=Path, dir_okay=False)


@click.command(name="install-config")
@click.option("-f", "--file", "lab", type=_File, help="The lab's file; without one, the default lab.")
@click.option("--name", help="The lab's name, instead of the one in the file.")
@click.option("--version", "version", default=str(releases.NEWEST), show_default=True, help="Version of the installer.")
@click.option("-o", "--output", type=_File, default=Path("install-config.yaml"), show_default=True, help="Where to.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@click.option("--pull-secret", type=_File, help="The pull secret; without it, looked for in the home directory.")
@click.option("--ssh-key", type=_File, help="The public key; without it, looked for in ~/.ssh.")
@click.option("--scheme", default="redfish-virtualmedia+https", show_default=True, help="Scheme of the BMC addresses.")
@click.option("--bmc-user", default="admin", show_default=True, help="User of the BMCs.")
@click.option("--bmc-password-file", type=_File, required=True, help="A file with the BMCs' password.")
@click.option("--static-bootstrap", is_flag=True, help="Give the bootstrap machine a fixed address.")
def install_config(
    lab: Path | None,
    name: str | None,
    version: str,
    output: Path,
    force: bool,
    pull_secret: Path | None,
    ssh_key: Path | None,
    scheme: str,
    bmc_user: str,
    bmc_password_file: Path,
    static_bootstrap: bool,
) -> None:
    """Write an install-config.yaml for the lab."""
    if output.exists() and not force:
        raise InputError(f"{output} is there already", hint="choose another with -o, or say --force")
    options = Options(releases.parse(version), scheme, static_bootstrap=static_bootstrap)
    plan = plan_lab(load(lab, name=name))
    account = BmcAccount(bmc_user, _password(bmc_password_file))
    text = write(
        from_lab(
            plan,
            {server.name: account for server in plan.servers},
            credentials.find_pull_secret(pull_secret, Path.home()),
            credentials.find_ssh_key(ssh_key, Path.home()),
            options,
        )
    )
    _write_private(output, text)
    click.echo(f"wrote {output} for version {options.release}; it holds secrets and is readable by you only")
    click.echo("keep a copy: the installer consumes the file")


def _password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the BMC password {path} cannot be read", why=str(error)) from error


def _write_private(path: Path, text: str) -> None:
    """Never readable by others, not even for a moment; never half a file."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)
