"""What is known of a lab at one moment, wherever it came from: a running daemon, the folder of a dead one, an archive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rackless.events import count
from rackless.protocol.messages import LabStatus, Record
from rackless.run.parts import Part


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
    expired: Sequence[tuple[str, str]] = ()
    """Certificates of the lab that are over: the file in its folder of secrets, and when it ended."""
    build: str = ""
    """How the daemon that answers is not of the version that asks; empty when it is."""
    kept: bool = False
    """Whether the holder runs, which starts a daemon that ended."""
    interrupted: str = ""
    """What the last `up` was at when it was cut off; empty when it came to its end."""

    def summary(self) -> str:
        """What there was to look at."""
        if self.status is None:
            return "what is in the lab's folder"
        parts, servers = self.status.parts, self.status.servers
        found = [count(len(parts), "program"), count(len(servers), "server"), count(len(self.hosts), "host")]
        found += [count(len(self.nodes), "node")] if self.nodes else []
        found += ["etcd", "the API VIP"] if self.stands and self.status.etcd and self.status.vip else []
        return f"the daemon, {', '.join(found)}"

    def healed(self) -> list[str]:
        """Programs that ended and were started again, and run."""
        parts = self.status.parts if self.status is not None else ()
        return [_started_again(part) for part in parts if part.running and part.restarts]

    @property
    def stands(self) -> bool:
        """Whether there is a cluster that should answer."""
        return self.status is not None and self.status.reached == "cluster"


def _started_again(part: Part) -> str:
    times = "once" if part.restarts == 1 else f"{part.restarts} times"
    return f"{part.name} was started again {times}: it {part.reason.partition(': ')[0]}"
