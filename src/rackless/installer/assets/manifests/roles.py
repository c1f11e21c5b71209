"""Which host takes which part, as the installer decides it: roles first, then the hosts without one in their order. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rackless.installer.install_config.building import struct, structs
from rackless.installer.install_config.config import Config, HostEntry, MachinePool

MASTER, ARBITER, WORKER = "master", "arbiter", "worker"


@dataclass(frozen=True, slots=True)
class Placed:
    host: HostEntry
    role: str
    machine: int | None
    """Of the Machine that it is for; None: it waits for one of a MachineSet."""
    pool: MachinePool | None
    hints: dict[str, Any]


def place(config: Config) -> tuple[Placed, ...]:
    taken = {MASTER: 0, ARBITER: 0}
    wanted = {MASTER: config.control_plane.replicas, ARBITER: config.arbiter.replicas if config.arbiter else 0}
    pools = {MASTER: config.control_plane, ARBITER: config.arbiter}
    hints = _hints(config)
    placed = []
    for host in config.hosts:
        role = _role(host, taken, wanted)
        machine = None
        if role in taken:
            machine = taken[role]
            taken[role] += 1
        pool = pools.get(role) or next((one for one in config.compute if one.name == WORKER), None)
        placed.append(Placed(host, role, machine, pool, hints.get(host.at, {})))
    return tuple(placed)


def _role(host: HostEntry, taken: dict[str, int], wanted: dict[str, int]) -> str:
    """A master too many waits as a worker would."""
    for role in (MASTER, ARBITER):
        if (host.role == role or not host.has_role) and taken[role] < wanted[role]:
            return role
    return WORKER


def _hints(config: Config) -> dict[str, dict[str, Any]]:
    metal = struct(struct(config.values, "platform"), "baremetal")
    return {
        f"platform.baremetal.hosts[{place}]": dict(struct(host, "rootDeviceHints"))
        for place, host in enumerate(structs(metal, "hosts"))
    }
