"""One Redfish service: what answers at one address.

Usually one BMC with one system called "1"; an aggregate has many, by UUID. It owns the accounts, sessions, tasks and
subscriptions of that address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID, uuid5

from rackless.bmc.core.accounts import Accounts
from rackless.bmc.core.chassis import Chassis
from rackless.bmc.core.log import Log
from rackless.bmc.redfish.subscriptions import Subscriptions
from rackless.bmc.redfish.task_list import Tasks

_NAMESPACE = UUID("0a7de6c4-3f0c-5f4c-9a53-6b1c7e5d2f10")


@dataclass
class Service:
    address: str
    systems: dict[str, Chassis]
    accounts: Accounts
    subscriptions: Subscriptions
    port: int = 443
    tls: bool = True
    tasks: Tasks = field(default_factory=Tasks)
    log: Log = field(default_factory=Log)
    """What happened to the BMC itself."""
    ipmi_port: Callable[[str], int | None] = lambda server: None
    """Where the BMC of a server answers IPMI; None where it does not."""
    redfish: bool = True
    """False where only the accounts are used, for IPMI."""
    aggregate: bool = False
    place: str = ""
    """What tells it from other services at its address; empty where it is the only one."""
    conditional: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from the check of an If-Match to the end of the change it allows."""

    @property
    def of_one(self) -> bool:
        """Whether it is the BMC of one server; an aggregate has its systems by UUID, even when it has only one."""
        return len(self.systems) == 1 and not self.aggregate

    @property
    def uuid(self) -> UUID:
        """Of the service, and the same after every start."""
        return uuid5(_NAMESPACE, f"service {self.place or self.address}")

    def manager_uuid(self, id: str) -> UUID:
        return uuid5(_NAMESPACE, f"manager {self.systems[id].name} at {self.address}")

    async def close(self) -> None:
        await self.tasks.close()
        await self.subscriptions.close()
