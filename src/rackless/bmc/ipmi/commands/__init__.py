"""The commands of IPMI by network function and number: one table per module."""

from __future__ import annotations

from typing import Final

from rackless.bmc.ipmi.command import Table
from rackless.bmc.ipmi.commands import (
    chassis,
    dcmi,
    device,
    events,
    inventory,
    network,
    sensors,
    serial,
    session,
    users,
    watch,
)

TABLE: Final[Table] = {
    **session.COMMANDS,
    **device.COMMANDS,
    **watch.COMMANDS,
    **users.COMMANDS,
    **network.COMMANDS,
    **chassis.COMMANDS,
    **sensors.COMMANDS,
    **events.COMMANDS,
    **inventory.COMMANDS,
    **serial.COMMANDS,
    **dcmi.COMMANDS,
}
