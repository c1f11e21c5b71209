"""An Ironic that runs already: what is kept of how to reach it, and whether it can be used, said before it is needed.

Password and certificate may lie anywhere on the host; labd does not see all of it, so they are kept in the lab's own
folder of secrets, by the host's side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rackless.drivers.ironic.client import Busy, IronicClient, Refused, Unreachable, Untrusted
from rackless.drivers.ironic.provisioner import Guest, IronicProvisioner
from rackless.errors import InputError, LabError
from rackless.run.files import write_secret
from rackless.run.paths import LabPaths
from rackless.spec.provisioner import ProvisionerSpec


@dataclass(frozen=True, slots=True)
class ExternalIronic:
    url: str
    username: str
    password: str = field(repr=False)
    ca: Path | None

    def open(self, guest: Guest) -> IronicProvisioner:
        return IronicProvisioner(self.url, self.username, self.password, self.ca, guest)

    async def check(self) -> None:
        """Raises LabError with what is wrong and where it is set."""
        try:
            async with IronicClient(self.url, self.username, self.password, self.ca, timeout=15.0) as client:
                drivers = await client.drivers()
                await client.nodes()  # the drivers may be open to everybody
        except Untrusted as error:
            raise LabError(
                f"the Ironic at {self.url} shows a certificate that is not trusted",
                why=str(error),
                hint="name the CA that signed it in provisioner.ca",
            ) from error
        except (Unreachable, Busy) as error:
            raise LabError(
                f"the Ironic at {self.url} does not answer",
                why=str(error),
                hint=f"it must be reachable from inside the lab: `rackless exec -- curl -k {self.url}/`",
            ) from error
        except Refused as error:
            raise LabError(
                f"the Ironic at {self.url} does not let us in"
                if error.status in (401, 403)
                else f"the Ironic at {self.url} cannot be used",
                why=f"HTTP {error.status}: {error}",
                hint="check provisioner.url, and provisioner.credentials: the username and the file with its password",
            ) from error
        if "redfish" not in drivers:
            raise LabError(
                f"the Ironic at {self.url} does not speak Redfish",
                why=f"its drivers: {', '.join(sorted(drivers)) or 'none'}",
                hint="enable the hardware type redfish there",
            )


def _password(paths: LabPaths) -> Path:
    return paths.secrets / "provisioner.password"


def _ca(paths: LabPaths) -> Path:
    return paths.secrets / "provisioner-ca.crt"


def keep(spec: ProvisionerSpec, paths: LabPaths) -> None:
    """Put what is needed to reach it where labd finds it. Raises InputError."""
    if spec.credentials is not None:
        password = _read(spec.credentials.password_file, "the password of the provisioner").strip()
        if not password:
            raise InputError(
                f"{spec.credentials.password_file} is empty", why="it should hold the provisioner's password"
            )
        write_secret(_password(paths), password)
    if spec.ca is not None:
        write_secret(_ca(paths), _read(spec.ca, "the CA of the provisioner"))


def load(spec: ProvisionerSpec, paths: LabPaths) -> ExternalIronic:
    username, password = "", ""
    try:
        if spec.credentials is not None:
            username, password = spec.credentials.username, _password(paths).read_text()
    except FileNotFoundError as error:
        raise LabError("the password of the provisioner is not kept yet", hint="run `rackless up`") from error
    return ExternalIronic(spec.url, username, password, _ca(paths) if spec.ca is not None else None)


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{what} cannot be read", why=f"{path}: {error}") from error
