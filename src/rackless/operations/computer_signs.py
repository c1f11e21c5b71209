"""What `rackless why` knows of a lab from this computer alone, whether its daemon runs or not: room, memory, certificates that are
over, who keeps the daemon, and at what the last `up` was cut off. An archive of `rackless gather` keeps it as `computer.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rackless.operations.lab_registry import spec_of_other
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


def _disk_folder(paths: LabPaths) -> Path:
    """Where the servers' disks are: below `storage` of lab.yaml, where that is said."""
    spec = spec_of_other(paths)
    return spec.storage / spec.name if spec is not None and spec.storage is not None else paths.disks


def look_at_computer(paths: LabPaths, drivers: Drivers) -> ComputerSigns:
    told = Journal(paths.journal, paths.goal).read().cut_off
    return ComputerSigns(
        free_bytes=drivers.computer.free_bytes(_disk_folder(paths)),
        memory_available=drivers.computer.memory().available,
        expired=tuple(
            (file, ended.strftime("%Y-%m-%dT%H:%M:%SZ")) for file, ended in expired(paths.secrets, datetime.now(UTC))
        ),
        kept=drivers.processes.find(paths.holder_pid) is not None,
        described=paths.spec.exists(),
        interrupted=", ".join(f"{action.verb} {action.subject}" for action in told),
    )
