"""What can be asked of a BMC, by network function and command: each module has a table of its own thought."""

from __future__ import annotations

from typing import Final

from rackless.bmc.ipmi.command import Table
from rackless.bmc.ipmi.commands import chassis, device, session

TABLE: Final[Table] = {
    **session.COMMANDS,
    **device.COMMANDS,
    **chassis.COMMANDS,
}
