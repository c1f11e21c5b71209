"""What is known of a lab at one moment, wherever it came from: a running daemon, the folder of a dead one, an archive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rackless.protocol.messages import LabStatus, Record


@dataclass(frozen=True, slots=True)
class LabEvidence:
    lab: str
    daemon: str
    """`running`, `stopped` by a person, or `not running` though nobody stopped it."""
    status: LabStatus | None = None
    """None while the daemon does not answer."""
    hosts: Sequence[Record] = ()
    machines: Sequence[Record] = ()
    nodes: Sequence[Record] = ()
    requests: Sequence[Record] = ()
    """CertificateSigningRequests of the cluster."""
    free_bytes: int | None = None
    """For the servers' disks, on this computer."""
    memory_available: int | None = None
    interrupted: str = ""
    """What the last `up` was at when it was cut off; empty when it came to its end."""

    @property
    def stands(self) -> bool:
        """Whether there is a cluster that should answer."""
        return self.status is not None and self.status.reached == "cluster"
