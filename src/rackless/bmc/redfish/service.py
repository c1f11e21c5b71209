"""One Redfish service: what answers at one address.

Usually one BMC with one system called "1"; an aggregate has many, by UUID. It owns the accounts and sessions of that
address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID, uuid5

from rackless.bmc.accounts import Accounts
from rackless.bmc.chassis import Chassis

_NAMESPACE = UUID("0a7de6c4-3f0c-5f4c-9a53-6b1c7e5d2f10")


@dataclass
class Service:
    address: str
    systems: Mapping[str, Chassis]
    accounts: Accounts
    conditional: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from the check of an If-Match to the end of the change it allows."""

    @property
    def uuid(self) -> UUID:
        """Of the service, and the same after every start."""
        return uuid5(_NAMESPACE, f"service {self.address}")

    def manager_uuid(self, id: str) -> UUID:
        return uuid5(_NAMESPACE, f"manager {self.systems[id].name} at {self.address}")
