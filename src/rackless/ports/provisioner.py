"""The provisioner (Ironic): from a BMC address to an operating system on the host's disk.

Every call is one small idempotent step that never waits: it looks, starts what is missing and says how it stands.
`Again` is not an error, it is "ask me later"; the caller keeps the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol


class ErrorKind(StrEnum):
    """Metal3's words for what went wrong."""

    REGISTRATION = "registration error"
    INSPECTION = "inspection error"
    PREPARATION = "preparation error"
    PROVISIONING = "provisioning error"
    POWER = "power management error"
    ADOPTION = "provisioned registration error"


@dataclass(frozen=True, slots=True)
class Done:
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Again:
    """Under way; ask again `after` seconds. `doing` says what is being done, for people.

    `busy` says that the engine was occupied or away, so that what was asked for has not begun: ask the same again.
    `agent` says that all waits for the host itself to call, which it can only do while it is on.
    """

    after: float
    doing: str = ""
    busy: bool = False
    agent: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    kind: ErrorKind
    message: str


Result = Done | Again | Failed

NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BmcLogin:
    """How a host is reached: Metal3's address (`redfish-virtualmedia://…`), who we are there, and whom to trust."""

    address: str
    username: str
    password: str = field(repr=False)
    ca: Path | None = None
    verify: bool = True
    """False trusts any certificate; without `ca`, True trusts what the system trusts."""


@dataclass(frozen=True, slots=True)
class HostAccess:
    """One host as the provisioner knows it."""

    name: str
    uid: str
    bmc: BmcLogin
    boot_mac: str
    boot_mode: str = "UEFI"
    root_device: Mapping[str, Any] = field(default_factory=dict)
    """Which disk gets the system, as Metal3's `rootDeviceHints`; empty leaves it to the engine."""
    clean: bool = True
    """Whether its disks' metadata is erased before it is given away and after it is taken back."""
    network: Mapping[str, Any] | None = None
    """Addresses that the agent takes instead of asking DHCP, as OpenStack's network_data; told by virtual media."""


@dataclass(frozen=True, slots=True)
class Image:
    url: str
    checksum: str
    checksum_type: str = "sha256"
    format: str = "qcow2"
    method: str = ""
    """The agent's own way to install, by the name of its step (`customDeploy`); it may do without a url."""


@dataclass(frozen=True, slots=True)
class ConfigDrive:
    """What the new system reads at its first boot; `user_data` is the Ignition config as text."""

    user_data: str = field(repr=False)
    meta_data: Mapping[str, Any] = field(default_factory=dict)
    network_data: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EventReceiver:
    """Where a BMC sends its events, and what it tells there besides."""

    destination: str
    context: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class Provisioner(Protocol):
    """`restart` begins anew where the call before has failed, or where an old result should not count."""

    async def register(self, host: HostAccess, *, restart: bool = False) -> Result:
        """Make the host known and its BMC access proven."""
        ...

    async def inspect(self, host: HostAccess, *, restart: bool = False) -> Result:
        """Boot the agent and read the hardware; `Done.detail` is the inventory."""
        ...

    async def prepare(
        self, host: HostAccess, settings: Mapping[str, str] = NO_SETTINGS, *, restart: bool = False
    ) -> Result:
        """Give the firmware these settings where it has others, and clean, so that the host can be given away.

        With `restart` also one that is clean already is cleaned.
        """
        ...

    async def provision(self, host: HostAccess, image: Image, config: ConfigDrive, *, restart: bool = False) -> Result:
        """Write the image and the config drive, and boot from the disk."""
        ...

    async def adopt(self, host: HostAccess, image: Image, *, restart: bool = False) -> Result:
        """Take a host that already has this image as provisioned, and touch nothing on it; Done when it is known so."""
        ...

    async def deprovision(self, host: HostAccess, *, restart: bool = False) -> Result:
        """Take the system off again and clean."""
        ...

    async def power(self, host: HostAccess, on: bool, *, hard: bool = False, restart: bool = False) -> Result:
        """Switch on, or off: by asking the system, unless `hard`. Done when it is so; `powered_on` in the detail."""
        ...

    async def delete(self, host: HostAccess) -> Result:
        """Forget the host; the server is not touched."""
        ...

    async def firmware(self, host: HostAccess) -> Result:
        """The settings of its firmware, as they were when the engine last looked: when it registered or prepared the host.

        `Done.detail` has by name a `value` as text, and what the BMC says that it may be: `attribute_type`,
        `allowable_values`, `lower_bound`, `upper_bound`, `min_length`, `max_length`, `read_only`, `unique`. None at all for a
        BMC that shows no settings.
        """
        ...

    async def media(self, host: HostAccess, url: str | None, *, restart: bool = False) -> Result:
        """Have this image in the host's virtual CD drive, or nothing; for a host that is provisioned."""
        ...

    async def subscribe(self, host: HostAccess, receiver: EventReceiver) -> Result:
        """Have the BMC send its events there, from now on; `Done.detail` has the `id` that the BMC gave the subscription."""
        ...

    async def unsubscribe(self, host: HostAccess, id: str) -> Result:
        """End a subscription; Done also when the BMC does not have it."""
        ...


@dataclass(frozen=True, slots=True)
class Stranger:
    """A discovered server, which is in no lab.yaml: it booted the deploy agent, which reported its hardware."""

    id: str
    inventory: Mapping[str, Any]


class Discovery(Protocol):
    async def strangers(self) -> list[Stranger]:
        """Discovered servers that were not dismissed; none while Ironic does not answer."""
        ...

    async def dismiss(self, stranger: Stranger) -> None:
        """Forget that it came; one that cannot be forgotten now is told again. The server is not touched."""
        ...
