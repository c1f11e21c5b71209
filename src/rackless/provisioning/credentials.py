"""The BMC access of a host, from its spec, its credentials Secret and the lab's CA."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackless.ports.provisioner import BmcLogin, ErrorKind, Failed, HostAccess
from rackless.ports.resources import Reader
from rackless.provisioning.baremetalhost import Host, secret_text
from rackless.provisioning.config_drive import agent_network
from rackless.provisioning.network_data import problem


@dataclass(frozen=True, slots=True)
class NoCredentials(Failed):
    """Nobody can log in at the BMC with what the records say."""


class Incomplete(Exception):
    """The host's BMC cannot be reached with what its records say: the address or the Secret is missing or wrong."""

    def __init__(self, message: str, kind: type[Failed] = Failed) -> None:
        super().__init__(message)
        self.failed = kind(ErrorKind.REGISTRATION, message)


async def host_access(resources: Reader, host: Host, ca: Path | None) -> tuple[HostAccess, str]:
    """The access, and the version of the credentials it was made from. Raises Incomplete."""
    spec = host.spec
    username = password = version = ""
    # A host that goes away must not be held up by credentials that went before it.
    if spec.managed and not host.deleting:
        _require(spec.bmc_address, "spec.bmc.address is empty", NoCredentials)
        _require(spec.credentials_name, "spec.bmc.credentialsName is empty", NoCredentials)
        _require(spec.boot_mac, "spec.bootMACAddress is empty")
        _require(
            spec.architecture in ("", "x86_64"),
            f"spec.architecture is {spec.architecture}, and the deploy ramdisk here is x86_64",
        )
    record = await resources.get("Secret", spec.credentials_name) if spec.credentials_name else None
    if record is not None:
        version = record["metadata"]["resourceVersion"]
        try:
            username = (secret_text(record, "username") or "").strip()
            password = (secret_text(record, "password") or "").strip()
        except ValueError as error:
            raise Incomplete(str(error), NoCredentials) from error
    if spec.managed and not host.deleting:
        secret = f"the BMC secret {spec.credentials_name}"
        _require(record, f"{secret} is not there", NoCredentials)
        _require(username and password, f"{secret} needs a username and a password", NoCredentials)
    bmc = BmcLogin(spec.bmc_address, username, password, ca, spec.verify_certificate)
    access = HostAccess(
        host.name,
        host.uid,
        bmc,
        spec.boot_mac,
        spec.boot_mode,
        spec.root_device,
        spec.clean,
        None if host.deleting else await _network(resources, host),
    )
    return access, version


async def _network(resources: Reader, host: Host) -> dict[str, Any] | None:
    try:
        found = await agent_network(resources, host)
    except ValueError as error:
        raise Incomplete(str(error)) from error
    if found is not None and (why := problem(found)):
        raise Incomplete(f"the network data in secret {host.spec.agent_network_name} cannot be used: {why}")
    return found


def _require(value: object, message: str, kind: type[Failed] = Failed) -> None:
    if not value:
        raise Incomplete(message, kind)
