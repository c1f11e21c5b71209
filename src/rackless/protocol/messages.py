"""What can be asked of labd and what it answers, each as a frozen value; the list of exchanges is at the end.

`rackless status --json`, `power --json` and `bmc fault --json` print these values, so a field's name is part of what users see.
A field that is added needs a default: a daemon of an earlier version does not send it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rackless.protocol.exchange import Exchange, Nothing
from rackless.run.parts import Part

Record = Mapping[str, object]
"""A Kubernetes object, word for word: its fields are the API's, not ours."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """The process that answers at a lab's socket; the fields are empty where that is no labd."""

    pid: int = 0
    version: str = ""
    build: str = ""


# the lab as it is


@dataclass(frozen=True, slots=True)
class LabSeen:
    """What the planner needs to know of a lab."""

    servers: Mapping[str, str]
    networks: tuple[str, ...]
    stages: tuple[str, ...]
    differing: Mapping[str, str] = field(default_factory=dict)
    resting: tuple[str, ...] = ()
    grown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StageStatus:
    name: str
    reached: bool


@dataclass(frozen=True, slots=True)
class ServerStatus:
    name: str
    role: str
    address: str
    bmc: str
    power: str | None
    host: str | None
    error: str
    node: str | None
    machine: str | None = None
    """The phase of the Machine that has its host; empty for one that has none yet."""
    boot: BootTarget | None = None
    """What its next start is from; None while its BMC is not seen."""
    boot_once: bool = False
    """Whether somebody asked its BMC for that, and for one start only."""
    media: str | None = None
    """The URL of what is in its virtual drive."""


@dataclass(frozen=True, slots=True)
class MetalStatus:
    """A server of `hosts` in lab.yaml, which the lab did not make."""

    name: str
    bmc: str
    mac: str
    taken: bool
    """Whether somebody said that the lab may have it; until then nothing is asked of it."""
    power: str | None
    """As its host's record has it; None where nothing was asked of it."""
    host: str | None
    error: str
    node: str | None = None
    machine: str | None = None
    """The phase of the Machine that has its host, as in ServerStatus."""


@dataclass(frozen=True, slots=True)
class ApiPlaces:
    """Where the lab's Kubernetes API is reached."""

    inside: str
    host: str | None


@dataclass(frozen=True, slots=True)
class EtcdMember:
    name: str
    healthy: bool
    leader: bool
    version: str
    problem: str


@dataclass(frozen=True, slots=True)
class EtcdStatus:
    healthy: int
    members: tuple[EtcdMember, ...]
    leader: str | None
    complete: bool
    detail: str


@dataclass(frozen=True, slots=True)
class VipStatus:
    address: str
    holders: tuple[str, ...]
    holder: str | None
    ready: bool
    detail: str


@dataclass(frozen=True, slots=True)
class FaultStatus:
    """A fault that somebody asked for at a BMC."""

    trouble: str
    server: str | None
    operation: str | None
    probability: float
    count: int | None
    seconds: float
    status: int
    rate: int
    id: int
    happened: int
    text: str


InstallState = Literal["running", "complete", "failed", "cut off"]


@dataclass(frozen=True, slots=True)
class InstallStatus:
    """How an installer stands that makes the lab's cluster (`method: openshift`)."""

    payload: str
    state: InstallState
    phase: str
    """The last phase that the installer announced."""
    detail: str = ""
    """Why it failed; empty while all is well."""
    code: int | None = None
    """Its exit code, once it has ended."""


@dataclass(frozen=True, slots=True)
class LabStatus:
    lab: str
    domain: str
    daemon: str
    reached: str | None
    stages: tuple[StageStatus, ...]
    cut_off: tuple[str, ...]
    servers: tuple[ServerStatus, ...]
    api: ApiPlaces | None
    faults: tuple[FaultStatus, ...]
    parts: tuple[Part, ...]
    warnings: tuple[str, ...]
    etcd: EtcdStatus | None
    vip: VipStatus | None
    metal: tuple[MetalStatus, ...] = ()
    install: InstallStatus | None = None


# hosts

HostVerb = Literal["inspect", "clean", "retry", "deprovision", "adopt", "provision", "take"]


@dataclass(frozen=True, slots=True)
class HostList:
    hosts: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class LabObjects:
    """What the lab's APIs hold beside hosts: Machines in labd's, Nodes and certificate requests in the cluster's."""

    machines: tuple[Record, ...] = ()
    nodes: tuple[Record, ...] = ()
    requests: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class WantObjectEvents:
    """Kubernetes Events about one object; without a kind and a name, about all."""

    kind: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class ObjectEvents:
    events: tuple[Record, ...] = ()
    """Kubernetes Events word for word: the latest ones only, the latest first."""


@dataclass(frozen=True, slots=True)
class WishedImage:
    url: str
    checksum: str = ""
    format: str | None = None


@dataclass(frozen=True, slots=True)
class HostWish:
    verb: HostVerb
    host: str
    wait: bool
    """Whether labd answers only when the wish is done or has failed."""
    image: WishedImage | None = None
    user_data: str = ""
    replace: bool = False


@dataclass(frozen=True, slots=True)
class HostDone:
    host: str
    changed: bool
    state: str


@dataclass(frozen=True, slots=True)
class NodeList:
    nodes: tuple[str, ...]


# the lab and its servers


@dataclass(frozen=True, slots=True)
class BeginUp:
    """An `up` as far as the last of these goals begins: it asks for one after the other."""

    goals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReachGoal:
    goal: str


@dataclass(frozen=True, slots=True)
class PauseServers:
    force: bool


@dataclass(frozen=True, slots=True)
class Loss:
    """An action of a plan that loses something."""

    subject: str
    verb: Literal["remove", "recreate"]
    reason: str


@dataclass(frozen=True, slots=True)
class CarryOutLosses:
    losses: tuple[Loss, ...]


@dataclass(frozen=True, slots=True)
class ServerList:
    servers: tuple[str, ...]


PowerAction = Literal["on", "off", "cycle", "reset", "nmi", "shutdown", "status"]


@dataclass(frozen=True, slots=True)
class PressPower:
    server: str
    action: PowerAction


@dataclass(frozen=True, slots=True)
class PowerState:
    server: str
    power: str | None


# BMCs

BootTarget = Literal["disk", "cdrom", "network", "removable", "setup", "none"]
"""What a server is started from instead of what its firmware would choose; `none` takes that back."""


@dataclass(frozen=True, slots=True)
class BmcSeen:
    """One BMC as it stands."""

    server: str
    power: str | None
    media: str | None
    """The URL of what is in its virtual drive."""
    boot: BootTarget
    once: bool
    """Whether only the next start is from there."""
    first: BootTarget | None = None
    """What its firmware tries first where `boot` is none."""


@dataclass(frozen=True, slots=True)
class WantBmc:
    server: str


@dataclass(frozen=True, slots=True)
class SensorSeen:
    name: str
    value: float | None
    """None of what cannot be read, such as a fan that stands still."""
    unit: str
    low: float | None
    """The lower critical limit, where there is one."""
    high: float | None


@dataclass(frozen=True, slots=True)
class AuditSeen:
    """Somebody asked a BMC to change something."""

    at: float
    protocol: str
    client: str
    user: str | None
    action: str
    outcome: str
    ok: bool
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BmcLogSeen:
    """A line of a BMC's own event log."""

    at: float
    text: str
    warning: bool


@dataclass(frozen=True, slots=True)
class BmcInside:
    """What one BMC knows beside how it stands: the latest first."""

    server: str
    sensors: tuple[SensorSeen, ...] = ()
    audit: tuple[AuditSeen, ...] = ()
    log: tuple[BmcLogSeen, ...] = ()


@dataclass(frozen=True, slots=True)
class BmcsSeen:
    bmcs: tuple[BmcSeen, ...]


@dataclass(frozen=True, slots=True)
class InsertMedia:
    server: str
    image: str
    """A URL, or a file that was offered to the lab before: labd opens no path that somebody names."""


@dataclass(frozen=True, slots=True)
class EjectMedia:
    server: str


@dataclass(frozen=True, slots=True)
class SetBoot:
    server: str
    device: BootTarget
    once: bool = True


# keys


@dataclass(frozen=True, slots=True)
class WantKubeconfig:
    cluster: bool = False
    """For the API of the cluster on the nodes, and not for the lab's own."""
    inside: bool = False
    """For whoever is inside the lab: the lab's own API at its own address."""
    whichever: bool = False
    """For the cluster's API once there is one, else for the lab's own."""


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    text: str = field(repr=False)
    cluster: bool = False
    """Whether it is for the API of the cluster on the nodes."""


@dataclass(frozen=True, slots=True)
class SshKeys:
    """The key by which ssh is let in on nodes."""

    key: str = field(repr=False)
    known_hosts: str
    """The keys by which nodes are known; empty where none was given them by us."""


# what a server shows


@dataclass(frozen=True, slots=True)
class LookAt:
    server: str
    lines: int = 0
    """How many of the last lines of its console."""


@dataclass(frozen=True, slots=True)
class Screen:
    png: str = field(repr=False)
    """In base64."""


@dataclass(frozen=True, slots=True)
class ConsoleSeen:
    log: str
    terminal: str | None
    """The terminal to type at, which only root can open; None while the server is off."""
    lines: tuple[str, ...]


# files of the asker's own


ANY_FORMAT = "any"
"""The format of a file whose sender does not say which it is."""


@dataclass(frozen=True, slots=True)
class OfferedFile:
    """A file whose bytes were sent: the lab's file server has it."""

    path: str
    """The name by which later requests call the file; it is no path of this computer."""
    format: str


# workers


@dataclass(frozen=True, slots=True)
class ScaleWorkers:
    wanted: int


@dataclass(frozen=True, slots=True)
class Scaled:
    before: int
    wanted: int
    spare: int
    """Hosts that no Machine has."""


# remedies


@dataclass(frozen=True, slots=True)
class ApplyRemedy:
    """What `rackless why` found and a person wants done: labd looks again, and does it if it still finds the same."""

    rule: str
    subject: str


@dataclass(frozen=True, slots=True)
class RemedyOutcome:
    applied: bool
    why: str
    """What was done, or why nothing was."""


# faults at BMCs


@dataclass(frozen=True, slots=True)
class FaultWish:
    trouble: str
    server: str | None = None
    operation: str | None = None
    probability: float = 1.0
    count: int | None = None
    seconds: float = 5.0
    status: int = 503
    rate: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class FaultList:
    faults: tuple[FaultStatus, ...]


@dataclass(frozen=True, slots=True)
class ClearFaults:
    ids: tuple[int, ...]
    """The faults to clear; empty clears all."""


@dataclass(frozen=True, slots=True)
class ClearedFaults:
    cleared: int


HEALTH = Exchange("health", Nothing, Daemon)
STATUS = Exchange("status", Nothing, LabStatus)
OBSERVE = Exchange("observe", Nothing, LabSeen)
OBSERVE_ALL = Exchange("observe-all", Nothing, LabSeen)
HOSTS = Exchange("hosts", Nothing, HostList, bare="hosts")
OBJECTS = Exchange("objects", Nothing, LabObjects)
FAULTS = Exchange("faults", Nothing, FaultList, bare="faults")
BMCS = Exchange("bmcs", Nothing, BmcsSeen)
BMC = Exchange("bmc", WantBmc, BmcInside, works=True)
OBJECT_EVENTS = Exchange("object-events", WantObjectEvents, ObjectEvents, works=True)

BEGIN = Exchange("begin", BeginUp, LabSeen, works=True, root=True)
REACH = Exchange("reach", ReachGoal, Nothing, works=True, root=True)
"""The stages of one goal; those of the goals before it have been carried out."""
HOST = Exchange("host", HostWish, HostDone, works=True)
FORGET_NODES = Exchange("forget-nodes", Nothing, NodeList, works=True, root=True, bare="nodes")
PAUSE = Exchange("rest", PauseServers, ServerList, works=True, root=True, bare="servers")
"""Called `rest` between a command and labd: a command of this version stops a lab whose daemon is of an earlier one."""
REMOVE = Exchange("remove", CarryOutLosses, Nothing, works=True, root=True)
POWER = Exchange("power", PressPower, PowerState, works=True)
INSERT_MEDIA = Exchange("insert-media", InsertMedia, BmcSeen, works=True)
EJECT_MEDIA = Exchange("eject-media", EjectMedia, BmcSeen, works=True)
SET_BOOT = Exchange("set-boot", SetBoot, BmcSeen, works=True)
KUBECONFIG = Exchange("kubeconfig", WantKubeconfig, Kubeconfig, works=True)
SSH_KEYS = Exchange("ssh-keys", Nothing, SshKeys, works=True)
SCREEN = Exchange("screen", LookAt, Screen, works=True)
CONSOLE = Exchange("console", LookAt, ConsoleSeen, works=True)
SCALE = Exchange("scale", ScaleWorkers, Scaled, works=True)
REMEDY = Exchange("remedy", ApplyRemedy, RemedyOutcome, works=True)
ADD_FAULT = Exchange("add-fault", FaultWish, FaultStatus, works=True)
CLEAR_FAULTS = Exchange("clear-faults", ClearFaults, ClearedFaults, works=True, bare="cleared")
SERVE_RELEASE = Exchange("serve-release", Nothing, Nothing, works=True, root=True)
"""For an install: what is in the lab's folder for it is offered at the lab's gateway from now on."""
TELL = Exchange("tell", Nothing, Nothing, works=True, root=True)
"""Nothing is asked: it brings what the asker did by itself, for the lab's log."""
STOP = Exchange("stop", Nothing, Nothing, works=True, root=True)
