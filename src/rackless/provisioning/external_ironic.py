"""Credentials of an Ironic that is not the lab's (`provisioner.url`).

Password and CA certificate may be anywhere on the hypervisor, where labd does not see every folder; so `up` copies them into the
lab's folder of secrets.
"""

from __future__ import annotations

from pathlib import Path

from rackless.errors import InputError, LabError
from rackless.ports.ironic import ForeignAccess
from rackless.run.files import write_secret
from rackless.run.paths import LabPaths
from rackless.spec.provisioner import ProvisionerSpec


def _password(paths: LabPaths) -> Path:
    return paths.secrets / "provisioner.password"


def _ca(paths: LabPaths) -> Path:
    return paths.secrets / "provisioner-ca.crt"


def keep(spec: ProvisionerSpec, paths: LabPaths) -> None:
    """Copy password and CA certificate to where labd finds them. Raises InputError."""
    if spec.credentials is not None:
        password = _read(spec.credentials.password_file, "the password of the provisioner").strip()
        if not password:
            raise InputError(
                f"{spec.credentials.password_file} is empty", why="it should hold the provisioner's password"
            )
        write_secret(_password(paths), password)
    if spec.ca is not None:
        write_secret(_ca(paths), _read(spec.ca, "the CA of the provisioner"))


def load(spec: ProvisionerSpec, paths: LabPaths) -> ForeignAccess:
    username, password = "", ""
    try:
        if spec.credentials is not None:
            username, password = spec.credentials.username, _password(paths).read_text()
    except FileNotFoundError as error:
        raise LabError("the password of the provisioner is not kept yet", hint="run `rackless up`") from error
    return ForeignAccess(spec.url, username, password, _ca(paths) if spec.ca is not None else None)


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{what} cannot be read", why=f"{path}: {error}") from error
