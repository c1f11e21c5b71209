"""Just enough Redfish to know whether a BMC will do: reachable, account, system, boot by the scheme's way.

Everything a BMC says is distrusted: sizes are bounded, types are looked at.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from dataclasses import dataclass, field
from typing import Any

from rackless.installer.install_config.bmc_address import BmcAddress

_LIMIT = 1 << 20


class RedfishError(Exception):
    """What went wrong, for a person."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


@dataclass(slots=True)
class RedfishReader:
    address: BmcAddress
    username: str
    password: str = field(repr=False)
    verify: bool = True
    within: float = 10.0
    date: str = ""
    """The last Date header: the BMC's clock."""

    def get(self, path: str) -> dict[str, Any]:
        status, body = self._ask("GET", path)
        return self._object(path, status, body)

    def send(self, method: str, path: str, body: str) -> None:
        """Have the BMC do something. Raises RedfishError when it refuses."""
        status, answer = self._ask(method, path, body)
        if not 200 <= status < 300:
            said = answer[:300].decode(errors="replace")
            raise RedfishError(f"{path} is answered with {status}: {said}", "look at the BMC itself")

    def _ask(self, method: str, path: str, content: str | None = None) -> tuple[int, bytes]:
        connection = self._connection()
        account = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        headers = {"Authorization": f"Basic {account}", "Accept": "application/json"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, path, body=content, headers=headers)
            response = connection.getresponse()
            body = response.read(_LIMIT)
        except ssl.SSLCertVerificationError as error:
            raise RedfishError(
                f"its certificate is not trusted ({error.verify_message})",
                "set disableCertificateVerification: true, or give it a certificate of a known CA",
            ) from error
        except ssl.SSLError as error:
            raise RedfishError(f"TLS failed ({error.reason})", "check whether it speaks https or http there") from error
        except UnicodeError as error:
            raise RedfishError(f"{path!r} is not a path", "correct the path in bmc.address") from error
        except (OSError, http.client.HTTPException) as error:
            raise RedfishError(
                f"it cannot be reached ({error or type(error).__name__})", "check address, port and route"
            ) from error
        finally:
            connection.close()
        self.date = response.getheader("Date") or self.date
        return response.status, body

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self.address.host, self.address.port
        if self.address.transport == "http":
            return http.client.HTTPConnection(host, port, timeout=self.within)
        context = ssl.create_default_context()
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(host, port, timeout=self.within, context=context)

    def _object(self, path: str, status: int, body: bytes) -> dict[str, Any]:
        if status in (401, 403):
            raise RedfishError(
                f"it refuses the account {self.username} ({status})", "correct bmc.username and bmc.password"
            )
        if status == 404:
            raise RedfishError(
                f"it has no {path}", "correct the path in bmc.address; the systems are listed at /redfish/v1/Systems"
            )
        if status != 200:
            raise RedfishError(f"{path} is answered with {status}", "look at the BMC itself")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise RedfishError(f"{path} is not JSON", "is there a Redfish service at this address?") from error
        if not isinstance(found, dict):
            raise RedfishError(f"{path} is not an object", "is there a Redfish service at this address?")
        return found


def examine(client: RedfishReader) -> str:
    """What the BMC says of its system; raises RedfishError where the scheme's way to boot is not there."""
    client.get("/redfish/v1/")
    system = client.get(client.address.path or "/redfish/v1/Systems/1")
    state = str(system.get("PowerState", "?"))
    if client.address.virtual_media:
        return f"account accepted, power {state}, {_virtual_media(client, system)}"
    boot = system.get("Boot")
    targets = boot.get("BootSourceOverrideTarget@Redfish.AllowableValues") if isinstance(boot, dict) else None
    if isinstance(targets, list) and "Pxe" not in targets:
        raise RedfishError("it cannot be told to boot by PXE", "use a virtual-media scheme")
    return f"account accepted, power {state}, boots by PXE when told"


def _virtual_media(client: RedfishReader, system: dict[str, Any]) -> str:
    if virtual_cd(client, system) is not None:
        return "has a virtual CD that takes an image"
    raise RedfishError(
        "it has no virtual CD with InsertMedia", "check its licence, or use a PXE scheme with a provisioning network"
    )


def virtual_cd(client: RedfishReader, system: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Where the drive is that takes an image of a CD, and what is said of it."""
    places = [link_of(system.get("VirtualMedia"))]
    links = system.get("Links")
    managers = links.get("ManagedBy") if isinstance(links, dict) else None
    for manager in managers[:4] if isinstance(managers, list) else ():
        path = link_of(manager)
        if path:
            places.append(link_of(client.get(path).get("VirtualMedia")))
    for place in filter(None, places):
        members = client.get(place).get("Members")
        for member in members[:8] if isinstance(members, list) else ():
            path = link_of(member)
            device = client.get(path) if path else {}
            kinds, actions = device.get("MediaTypes"), device.get("Actions")
            is_disc = isinstance(kinds, list) and bool({"CD", "DVD"} & {str(kind) for kind in kinds})
            if is_disc and isinstance(actions, dict) and "#VirtualMedia.InsertMedia" in actions:
                return path, device
    return None


def link_of(value: object) -> str:
    path = value.get("@odata.id") if isinstance(value, dict) else None
    return path if isinstance(path, str) and path.startswith("/") else ""
