"""Passwords of BMCs that a site has chosen: read where lab.yaml says, kept in the lab's own folder of secrets.

The files may lie anywhere on the hypervisor; labd does not see all of its folders.
"""

from __future__ import annotations

from rackless.errors import InputError
from rackless.run.files import write_secret
from rackless.run.paths import LabPaths
from rackless.spec.lab import LabSpec
from rackless.spec.places import members


def secret_of(server: str) -> str:
    """The name of a server's secret in the lab."""
    return f"bmc-{server}"


def keep(spec: LabSpec, paths: LabPaths) -> None:
    """Put the passwords where labd finds them. Raises InputError."""
    files = {name: member.bmc.password_file for name, member in members(spec).items()}
    files |= {name: host.password_file for name, host in spec.hosts.items()}
    for name, file in files.items():
        if file is None:
            continue
        try:
            password = file.read_text().strip("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"the password of the BMC of {name} cannot be read", why=f"{file}: {error}") from error
        if not password:
            raise InputError(f"{file} is empty", why=f"it should hold the password of the BMC of {name}")
        write_secret(paths.secrets / f"{secret_of(name)}.password", password + "\n")
