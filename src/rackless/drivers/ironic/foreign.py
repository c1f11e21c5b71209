"""`ports.ironic.ForeignProvisioning`: an Ironic that is not the lab's, with an error for each way in which it cannot be used."""

from __future__ import annotations

from dataclasses import dataclass

from rackless.drivers.ironic.client import Busy, IronicClient, IronicRefused, IronicUnreachable, Untrusted
from rackless.drivers.ironic.provisioner import IronicProvisioner
from rackless.errors import LabError
from rackless.ports.ironic import ForeignAccess, Guest


@dataclass(frozen=True, slots=True)
class ForeignIronic:
    access: ForeignAccess

    def open(self, guest: Guest) -> IronicProvisioner:
        access = self.access
        return IronicProvisioner(access.url, access.username, access.password, access.ca, guest)

    async def forget_all(self, guest: Guest) -> list[str]:
        async with self.open(guest) as provisioner:
            return await provisioner.forget_all()

    async def check(self) -> None:
        """Raises LabError with what is wrong and where it is set."""
        access = self.access
        try:
            async with IronicClient(access.url, access.username, access.password, access.ca, timeout=15.0) as client:
                drivers = await client.drivers()
                await client.nodes()  # the drivers may be open to everybody
        except Untrusted as error:
            raise LabError(
                f"the Ironic at {access.url} shows a certificate that is not trusted",
                why=str(error),
                hint="name the CA that signed it in provisioner.ca",
            ) from error
        except (IronicUnreachable, Busy) as error:
            raise LabError(
                f"the Ironic at {access.url} does not answer",
                why=str(error),
                hint=f"it must be reachable from inside the lab: `rackless exec -- curl -k {access.url}/`",
            ) from error
        except IronicRefused as error:
            raise LabError(
                f"the Ironic at {access.url} does not let us in"
                if error.status in (401, 403)
                else f"the Ironic at {access.url} cannot be used",
                why=f"HTTP {error.status}: {error}",
                hint="check provisioner.url, and provisioner.credentials: the username and the file with its password",
            ) from error
        if "redfish" not in drivers:
            raise LabError(
                f"the Ironic at {access.url} does not speak Redfish",
                why=f"its drivers: {', '.join(sorted(drivers)) or 'none'}",
                hint="enable the hardware type redfish there",
            )
