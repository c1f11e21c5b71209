"""The servers of lab.yaml, in groups of one kind."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import model_validator

from rackless.spec.change import Change, setting
from rackless.spec.disks import DiskBus, DiskCache, RootDevice
from rackless.spec.images import ImageSpec
from rackless.spec.members import Member
from rackless.spec.units import Size
from rackless.spec.value import Value

MIB = 1 << 20
GIB = 1 << 30


class Role(StrEnum):
    CONTROL_PLANE = "control-plane"
    WORKER = "worker"
    SPARE = "spare"


class ServerFirmware(StrEnum):
    UEFI = "uefi"
    BIOS = "bios"


class BmcScheme(StrEnum):
    """Metal3's schemes of BMC addresses: each says how a server is driven, and how it boots."""

    REDFISH_VIRTUALMEDIA = "redfish-virtualmedia"
    REDFISH = "redfish"
    IPMI = "ipmi"

    @property
    def boots_over_network(self) -> bool:
        return self is not BmcScheme.REDFISH_VIRTUALMEDIA


class BmcProtocol(StrEnum):
    REDFISH = "redfish"
    IPMI = "ipmi"


class WayToBoot(StrEnum):
    MEDIA = "media"
    NETWORK = "network"


def way_to_boot(bmc: Any, boot: Any) -> tuple[Any, Any]:
    """The BMC scheme and the way to boot that `bmc` and `boot` mean together, as far as they are given.

    Before there was `boot`, the scheme of a BMC said both: `redfish-virtualmedia` was by virtual media, `redfish` and `ipmi`
    over the network.
    """
    if bmc == BmcScheme.REDFISH_VIRTUALMEDIA and boot in (None, WayToBoot.MEDIA):
        bmc, boot = BmcProtocol.REDFISH, boot or WayToBoot.MEDIA
    elif bmc is not None and boot is None:
        boot = WayToBoot.NETWORK
    return bmc or BmcProtocol.REDFISH, boot or WayToBoot.MEDIA


class Elastic(Value):
    """Servers that the lab makes when a Machine finds no host, and takes away when nobody has them."""

    max: int = setting(
        "How many servers the group has at most, those of `count` among them. Their names and addresses are kept for them.",
        Change.LIVE,
        ge=1,
        le=200,
    )


class ServerGroup(Value):
    """Servers of one kind: group `ctrl` of three makes ctrl-0, ctrl-1 and ctrl-2."""

    role: Role = setting(
        "What the servers become: control-plane, worker, or spare (defined, not provisioned by `up`).",
        Change.RECREATE,
        default=Role.WORKER,
    )
    count: int = setting(
        "How many servers. More are added to a running lab; fewer is `recreate` for those that go.",
        Change.LIVE,
        default=1,
        ge=0,
        le=200,
    )
    first: int | None = setting(
        "Host number of the group's first server in every network; without it the next free one, from 20 on.",
        Change.RECREATE,
        default=None,
        ge=20,
        le=65000,
    )
    elastic: Elastic | None = setting(
        "The lab makes further servers of this kind, with their BMCs, when a Machine finds no host, and takes them away "
        "when no Machine has them any more.",
        Change.LIVE,
        default=None,
    )
    memory: Size = setting(
        "Memory of each server. The deploy agent needs 768MiB; 1GiB leaves the node room. OpenShift: control planes "
        "12GiB at least, better 16GiB; workers 8GiB.",
        Change.RESTART,
        default=1 * GIB,
        ge=768 * MIB,
    )
    vcpus: int = setting(
        "Virtual CPUs of each server. OpenShift: control planes 4, workers 2.", Change.RESTART, default=1, ge=1, le=64
    )
    disk: Size = setting(
        "Size of the system disk; thin, so it costs what is used.", Change.RECREATE, default=8 * GIB, ge=2 * GIB
    )
    extra_disks: tuple[Size, ...] = setting(
        "Sizes of further disks, thin and empty.", Change.RECREATE, default=(), max_length=24
    )
    disk_bus: DiskBus = setting(
        "How the disks are attached: `scsi` and `sata` are /dev/sda and so on, `virtio` /dev/vda. The lab's own agent and node "
        "image have no driver for `sata`, which is for installers that bring their own system.",
        Change.RECREATE,
        default=DiskBus.SCSI,
    )
    disk_cache: DiskCache | None = setting(
        "What a sync is worth on these servers; without it as `disk.cache` says for all.", Change.RESTART, default=None
    )
    root_device: RootDevice | None = setting(
        "Which of the disks gets the system; without it Ironic takes the smallest that is large enough.",
        Change.RECREATE,
        default=None,
    )
    extra_nics: int = setting(
        "Further NICs on the cluster network, for bonds and the like; they have no reservation.",
        Change.RESTART,
        default=0,
        ge=0,
        le=8,
    )
    boot: WayToBoot = setting(
        "How the servers boot the deploy agent: `media` from an ISO in the BMC's drive; `network` by PXE and iPXE on the "
        "provisioning network.",
        Change.RECREATE,
        default=WayToBoot.MEDIA,
    )
    bmc: BmcProtocol = setting(
        "The protocol by which the lab's Ironic drives the servers, `redfish` or `ipmi`, which knows no virtual media. The BMCs "
        "answer both in any case. Without `boot` next to it, one that is given boots over the network, as it did before there was "
        "`boot`; `redfish-virtualmedia` is read as redfish with `boot: media`.",
        Change.RECREATE,
        default=BmcProtocol.REDFISH,
    )
    firmware: ServerFirmware = setting("UEFI (OVMF) or BIOS (SeaBIOS).", Change.RECREATE, default=ServerFirmware.UEFI)
    secure_boot: bool = setting(
        "Firmware that starts only what is signed; with Microsoft's keys enrolled.", Change.RECREATE, default=False
    )
    image: ImageSpec | None = setting(
        "An image of your own for these servers, instead of the lab's.", Change.RECREATE, default=None
    )
    tpm: bool = setting("A TPM 2.0 (swtpm).", Change.RECREATE, default=False)
    members: tuple[Member, ...] = setting(
        "The servers one by one, as a site has them, with their own names, MACs, addresses and BMCs; `count` follows from it. "
        "`rackless init --from install-config.yaml` writes them.",
        Change.RECREATE,
        default=(),
        max_length=200,
    )

    @model_validator(mode="before")
    @classmethod
    def _read_way_to_boot(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        bmc, boot = way_to_boot(given.get("bmc"), given.get("boot"))
        return {**given, "bmc": bmc, "boot": boot}

    @model_validator(mode="before")
    @classmethod
    def _count_members(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(members := given.get("members"), list | tuple) and members:
            if given.get("count", len(members)) != len(members):
                raise ValueError(f"count is {given['count']}, and there are {len(members)} members; leave count out")
            return {**given, "count": len(members)}
        return given

    @property
    def scheme(self) -> BmcScheme:
        """The scheme of the BMC's address as Metal3 writes it."""
        if self.bmc is BmcProtocol.IPMI:
            return BmcScheme.IPMI
        return BmcScheme.REDFISH if self.boot is WayToBoot.NETWORK else BmcScheme.REDFISH_VIRTUALMEDIA

    def names(self, prefix: str) -> list[str]:
        """The names of the group's servers; `prefix` is the name of the group."""
        return [member.name for member in self.members] or [f"{prefix}-{index}" for index in range(self.count)]

    def elastic_names(self, prefix: str) -> list[str]:
        """The names of the servers that are made on demand."""
        most = self.elastic.max if self.elastic is not None else 0
        return [] if self.members else [f"{prefix}-{index}" for index in range(self.count, most)]
