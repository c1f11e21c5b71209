"""What `rackless why` knows of a lab from this computer alone, whether its daemon runs or not: room, memory, certificates that are
over, who keeps the daemon, and at what the last `up` was cut off. An archive of `rackless gather` keeps it as `computer.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from rackless.ports.drivers import Drivers
from rackless.run.journal import Journal
from rackless.run.paths import LabPaths
from rackless.trust.expiry import expired


@dataclass(frozen=True, slots=True)
class ComputerSigns:
    """The fields of `LabEvidence` of the same names."""

    free_bytes: int | None = None
    memory_available: int | None = None
    expired: tuple[tuple[str, ...], ...] = ()
    kept: bool = False
    described: bool = True
    interrupted: str = ""


def look_at_computer(paths: LabPaths, drivers: Drivers) -> ComputerSigns:
    told = Journal(paths.journal, paths.goal).read().cut_off
    return ComputerSigns(
        free_bytes=drivers.computer.free_bytes(paths.disks),
        memory_available=drivers.computer.memory().available,
        expired=tuple(
            (file, ended.strftime("%Y-%m-%dT%H:%M:%SZ")) for file, ended in expired(paths.secrets, datetime.now(UTC))
        ),
        kept=drivers.processes.find(paths.holder_pid) is not None,
        described=paths.spec.exists(),
        interrupted=", ".join(f"{action.verb} {action.subject}" for action in told),
    )
