"""What is known of a lab at one moment, wherever it came from: a running daemon, the folder of a dead one, an archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rackless.events import count
from rackless.protocol.messages import EtcdMember, LabStatus, Record
from rackless.run.parts import Part

BUSY = 0.5
"""Share of time, above which a server that was not heard of in time may have had no processor to answer with."""
LATE = ("no answer in time", "says it is not healthy", "no leader yet")
"""What a member of etcd says, or does not, that is only slow: it calls itself healthy when it reads a key within a second."""
CONSOLE, JOURNAL = "console/", "journal/"
"""Before a server's name: where its log comes from."""


@dataclass(frozen=True, slots=True)
class NameAnswer:
    """What the lab's DNS says of a name, or of an address when it is asked backwards."""

    question: str
    wanted: tuple[str, ...]
    """Empty where any answer will do."""
    found: tuple[str, ...] = ()
    problem: str = ""
    """Why there was no answer at all."""
    server: str = ""
    """Who was asked."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was seen on the lab's networks: asked there, and nothing left behind."""

    names: tuple[NameAnswer, ...] = ()
    dhcp: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each network, the addresses of DHCP servers that offered a lease to an unknown MAC."""
    dhcp_own: Mapping[str, str] = field(default_factory=dict)
    """For each network, the address of the lab's own DHCP server."""


@dataclass(frozen=True, slots=True)
class Processors:
    """How busy this computer is, over minutes: shares from 0 to 1."""

    cpus: int
    promised: int
    """Of servers that run."""
    waiting: float
    """Of the last five minutes, in which something was ready to run and had no processor."""
    stolen: float = 0.0
    """Taken by the computer that this one is a guest of."""


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
    described: bool = True
    """Whether the lab's description is in its folder; `up` writes it there first of all."""
    interrupted: str = ""
    """What the last `up` was at when it was cut off; empty when it came to its end."""
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Lines of the last minutes, or of a server's last start: `console/SERVER`, `journal/SERVER`."""
    surroundings: Surroundings = field(default_factory=Surroundings)
    processors: Processors | None = None

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

    def absent_nodes(self) -> list[str]:
        """Servers that have a system, and are on, and are no node that answers."""
        servers = self.status.servers if self.status is not None else ()
        return [one.name for one in servers if one.host == "provisioned" and one.power == "on" and one.node != "up"]

    @property
    def starved(self) -> bool:
        """Whether this computer has too few processors for what runs on it."""
        return self.processors is not None and self.processors.waiting >= BUSY

    def sick_members(self) -> list[EtcdMember]:
        """Members of etcd that do not take part. On a computer without a processor to spare, one that is only late does so, as
        long as the API, which reads from etcd, is ready."""
        etcd, vip = (self.status.etcd, self.status.vip) if self.status is not None and self.stands else (None, None)
        slow = self.starved and vip is not None and vip.ready
        members = etcd.members if etcd is not None else ()
        return [one for one in members if not one.healthy and not (slow and one.problem in LATE)]

    @property
    def stands(self) -> bool:
        """Whether there is a cluster that should answer."""
        return self.status is not None and self.status.reached == "cluster"


def _started_again(part: Part) -> str:
    times = "once" if part.restarts == 1 else f"{part.restarts} times"
    return f"{part.name} was started again {times}: it {part.reason.partition(': ')[0]}"
