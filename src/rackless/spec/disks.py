"""How the disks of a lab are kept."""

from __future__ import annotations

from enum import StrEnum

from rackless.spec.change import Change, setting
from rackless.spec.units import Size
from rackless.spec.value import Value


class DiskCache(StrEnum):
    UNSAFE = "unsafe"
    SAFE = "safe"


class DiskBus(StrEnum):
    SCSI = "scsi"
    VIRTIO = "virtio"
    SATA = "sata"


class RootDevice(Value):
    """Which disk a system is written to; all that is said must fit."""

    device_name: str | None = setting(
        "`/dev/sda`, or a name below `/dev/disk/by-path/`.", Change.RECREATE, default=None, pattern="^/dev/.+"
    )
    serial: str | None = setting("Its serial number.", Change.RECREATE, default=None)
    wwn: str | None = setting("Its World Wide Name.", Change.RECREATE, default=None)
    hctl: str | None = setting("Its place on a SCSI bus: `0:0:0:1`.", Change.RECREATE, default=None)
    model: str | None = setting("A part of its model.", Change.RECREATE, default=None)
    vendor: str | None = setting("A part of its vendor.", Change.RECREATE, default=None)
    min_size: Size | None = setting("The least it holds, in whole GiB.", Change.RECREATE, default=None, ge=1 << 30)
    rotational: bool | None = setting("Whether it turns.", Change.RECREATE, default=None)

    @property
    def hints(self) -> tuple[tuple[str, str | int | bool], ...]:
        """As Metal3's `rootDeviceHints`."""
        said: dict[str, str | int | bool | None] = {
            "deviceName": self.device_name,
            "serialNumber": self.serial,
            "wwn": self.wwn,
            "hctl": self.hctl,
            "model": self.model,
            "vendor": self.vendor,
            "minSizeGigabytes": self.min_size >> 30 if self.min_size is not None else None,
            "rotational": self.rotational,
        }
        return tuple((name, value) for name, value in said.items() if value is not None)


class DiskSpec(Value):
    """What all disks of the lab have in common."""

    cache: DiskCache = setting(
        "What a guest's sync is worth. `unsafe`: it returns at once and the hypervisor writes when it likes, so disks are as fast "
        "as memory and etcd never waits; a crash of the computer (not of a server, nor of rackless) may leave them damaged. "
        "`safe`: it returns when the data is on the hypervisor's disk, as on real hardware; etcd is then as slow as that disk.",
        Change.RESTART,
        default=DiskCache.UNSAFE,
    )
