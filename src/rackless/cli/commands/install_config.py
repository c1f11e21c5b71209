"""`rackless install-config`: an install-config.yaml for the lab, right for the installer's version.

The file holds the pull secret and the BMCs' passwords, so it is written for its owner only and never printed.
"""

from __future__ import annotations

from pathlib import Path

import click

from rackless.cli.options import lab_options, load_spec
from rackless.cluster.install_config import credentials
from rackless.cluster.install_config import release as releases
from rackless.cluster.install_config.from_lab import BmcAccount, Options, from_lab
from rackless.cluster.install_config.writing import write
from rackless.errors import InputError
from rackless.plan.addressing import plan_lab
from rackless.run.files import write_secret
from rackless.run.paths import LabPaths, Roots

_File = click.Path(path_type=Path, dir_okay=False)


@click.command(name="install-config")
@lab_options
@click.option("--version", "version", default=str(releases.NEWEST), show_default=True, help="Version of the installer.")
@click.option("-o", "--output", type=_File, default=Path("install-config.yaml"), show_default=True, help="Where to.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@click.option("--pull-secret", type=_File, help="The pull secret; without it, looked for in the home directory.")
@click.option("--ssh-key", type=_File, help="The public key; without it, looked for in ~/.ssh.")
@click.option("--scheme", default="redfish-virtualmedia+https", show_default=True, help="Scheme of the BMC addresses.")
@click.option("--bmc-user", default="admin", show_default=True, help="User of the BMCs.")
@click.option("--bmc-password-file", type=_File, help="A file with the BMCs' password; without it, the lab's own.")
@click.option("--static-bootstrap", is_flag=True, help="Give the bootstrap machine a fixed address.")
def install_config(
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
) -> None:
    """Write an install-config.yaml for the lab."""
    if output.exists() and not force:
        raise InputError(f"{output} is there already", hint="choose another with -o, or say --force")
    options = Options(releases.parse(version), scheme, static_bootstrap=static_bootstrap)
    plan = plan_lab(load_spec(file, name))
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
    write_secret(output, text)
    click.echo(f"wrote {output} for version {options.release}; it holds secrets and is readable by you only")
    click.echo("keep a copy: the installer consumes the file")


def _password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"the BMCs' password {path} cannot be read",
            why=str(error),
            hint="make the lab first (`rackless up`), run it as root, or name a file with --bmc-password-file",
        ) from error
