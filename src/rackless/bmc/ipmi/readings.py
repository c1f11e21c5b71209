"""What the sensors of a server that does not exist would show: a model, the same for the same hardware and power state.

Pure. The figures are made up so that tools have something sensible to read; they are not the load of the guest.
"""

from __future__ import annotations

from dataclasses import dataclass

from rackless.ports.hypervisor import ServerState

_STANDBY_WATTS = 6.0


@dataclass(frozen=True, slots=True)
class Readings:
    """None is what cannot be read, as of a fan that stands still because the server is off."""

    watts: float
    inlet_celsius: float
    cpu_celsius: float | None
    fan_rpm: tuple[float | None, ...]


def model(server: ServerState, *, on: bool) -> Readings:
    if not on:
        return Readings(_STANDBY_WATTS, 21.0, None, (None, None))
    watts = 36.0 + 9.0 * server.vcpus + 0.4 * server.memory_mib / 1024
    return Readings(watts, 23.0, 40.0 + min(25.0, server.vcpus), (5200.0, 5240.0))
