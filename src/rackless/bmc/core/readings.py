"""What the sensors of a server that does not exist would show: a model, the same for the same hardware and power state.

Pure, and the same for both protocols: IPMI's sensors and Redfish's are these. The figures are made up so that tools have something
sensible to read; they are not the load of the guest. They are whole counts of what an IPMI sensor can tell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rackless.ports.hypervisor import ServerState

WATTS_STEP: Final = 4
RPM_STEP: Final = 40
_STANDBY_WATTS: Final = 8.0


@dataclass(frozen=True, slots=True)
class Readings:
    """None is what cannot be read, as of a fan that stands still because the server is off."""

    watts: float
    inlet_celsius: float
    cpu_celsius: float | None
    fan_rpm: tuple[float | None, ...]


@dataclass(frozen=True)
class Figure:
    """One of them, with its lower and upper critical limit; None where there is none."""

    name: str
    nominal: float
    low: float | None
    high: float | None
    read: Callable[[Readings], float | None]


INLET: Final = Figure("Inlet Temp", 23, None, 45, lambda readings: readings.inlet_celsius)
CPU: Final = Figure("CPU Temp", 45, None, 95, lambda readings: readings.cpu_celsius)
FANS: Final = (
    Figure("Fan 1", 5200, 600, None, lambda readings: readings.fan_rpm[0]),
    Figure("Fan 2", 5200, 600, None, lambda readings: readings.fan_rpm[1]),
)
POWER: Final = Figure("Power", 60, None, None, lambda readings: readings.watts)


def model(server: ServerState, *, on: bool) -> Readings:
    if not on:
        return Readings(_STANDBY_WATTS, 21.0, None, (None, None))
    watts = 36.0 + 9.0 * server.vcpus + 0.4 * server.memory_mib / 1024
    cpu = 40.0 + min(25.0, server.vcpus)
    return Readings(float(WATTS_STEP * round(watts / WATTS_STEP)), 23.0, cpu, (5200.0, 5240.0))
