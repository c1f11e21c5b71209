"""A server as libvirt's domain XML, and back. Pure: golden-tested, no connection."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from uuid import UUID
from xml.etree import ElementTree as ET

from rackless.drivers.libvirt import firmware_xml
from rackless.errors import HypervisorError
from rackless.ports.hypervisor import BootDevice, Firmware, FirmwareChoice, Server

NAMESPACE = "https://rackless.invalid/server/1"
ET.register_namespace("rackless", NAMESPACE)

ORDER = (BootDevice.DISK, BootDevice.NETWORK, BootDevice.CDROM)
"""The boot order of a server nobody has told otherwise."""

IGNITION = "opt/com.coreos/config"
"""Where Ignition looks for its config among what the firmware hands over."""

TRANSLATIONS_SHARE = 4
"""An emulated server's translated code may take a quarter of its memory; then QEMU throws all of it away and translates anew. By
itself it keeps 1 GiB, and fills it: a server with 1 GiB of memory then takes 1.7. With too little it does hardly anything
else: 128 MiB were thrown away 23 times in the first four minutes of a bootstrap machine."""


@dataclass(frozen=True, slots=True)
class Platform:
    """What the computer offers: its emulator, its firmware, and whether the CPU can help."""

    kvm: bool
    emulator: Path
    ovmf_code: Path
    ovmf_vars: Path
    secure_code: Path | None = None
    secure_vars: Path | None = None


def translations_mib(memory_mib: int) -> int:
    return max(128, memory_mib // TRANSLATIONS_SHARE)


def render(server: Server, platform: Platform) -> str:
    domain = ET.Element("domain", type="kvm" if platform.kvm else "qemu")
    _add(domain, "name", server.name)
    _add(domain, "uuid", str(server.uuid))
    _add(domain, "memory", str(server.memory_mib), unit="MiB")
    _add(domain, "vcpu", str(server.vcpus))
    if server.ignition is not None:
        _add(_add(domain, "sysinfo", type="fwcfg"), "entry", name=IGNITION, file=str(server.ignition))
    _os(domain, server, platform)
    features = _add(domain, "features")
    _add(features, "acpi")
    _add(features, "apic")
    if server.secure_boot:
        _add(features, "smm", state="on")  # so that only the firmware writes its variables
    if not platform.kvm:
        _add(_add(features, "tcg"), "tb-cache", str(translations_mib(server.memory_mib)), unit="MiB")
    if platform.kvm:
        _add(domain, "cpu", mode="host-passthrough")
    else:  # a plain old model: emulating what nobody uses halves the speed
        cpu = _add(domain, "cpu", mode="custom", match="exact", check="none")
        _add(cpu, "model", "Nehalem", fallback="forbid")
    _add(domain, "clock", offset="utc")
    _add(domain, "on_poweroff", "destroy")
    _add(domain, "on_reboot", "restart")
    _add(domain, "on_crash", "destroy")
    _devices(_add(domain, "devices"), server, platform)
    if server.user is not None:
        label = _add(domain, "seclabel", type="static", model="dac", relabel="yes")
        _add(label, "label", f"+{server.user}:+{server.user}")
    set_order(domain, ORDER)
    key = hashlib.sha256(ET.tostring(domain)).hexdigest()
    metadata = _add(domain, "metadata")
    ET.SubElement(metadata, f"{{{NAMESPACE}}}server", key=key)
    ET.indent(domain)
    return ET.tostring(domain, encoding="unicode")


def _os(domain: ET.Element, server: Server, platform: Platform) -> None:
    os = _add(domain, "os")
    _add(os, "type", "hvm", arch="x86_64", machine="q35")
    if server.secure_boot:
        if platform.secure_code is None:
            raise HypervisorError(
                f"{server.name} wants secure boot, and this computer has no firmware for it",
                why="OVMF with secure boot was not found where distributions keep it",
                hint="install the package ovmf (Debian, Ubuntu) or edk2-ovmf (Fedora)",
            )
        _add(os, "loader", str(platform.secure_code), readonly="yes", secure="yes", type="pflash")
        _add(os, "nvram", str(server.nvram), template=str(platform.secure_vars))
    elif server.firmware is Firmware.UEFI:
        _add(os, "loader", str(platform.ovmf_code), readonly="yes", type="pflash")
        _add(os, "nvram", str(server.nvram), template=str(platform.ovmf_vars))
    else:  # OVMF speaks on the serial console by itself; SeaBIOS has to be told
        _add(os, "bios", useserial="yes")


def _devices(devices: ET.Element, server: Server, platform: Platform) -> None:
    _add(devices, "emulator", str(platform.emulator))
    _add(devices, "controller", type="scsi", index="0", model="virtio-scsi")
    _add(devices, "controller", type="usb", model="none")
    for index, disk in enumerate(server.disks):
        device = _add(devices, "disk", type="file", device="disk")
        # the lab is thrown away as a whole: by default the host's page cache is all the durability it needs
        cache = "writeback" if disk.safe else "unsafe"
        _add(device, "driver", name="qemu", type="qcow2", cache=cache, discard="unmap")
        _add(device, "source", file=str(disk.path))
        if disk.backing is not None:
            _backing(device, disk.backing)
        _add(device, "target", dev=_drive_name(index, disk.bus), bus=disk.bus)
        _add(device, "serial", disk.serial)
        if disk.bus == "scsi":
            _add(device, "address", type="drive", controller="0", bus="0", target="0", unit=str(index))
    drive = _add(devices, "disk", type="file", device="cdrom")
    _add(drive, "driver", name="qemu", type="raw")
    _add(drive, "target", dev=_drive_name(len(server.disks)), bus="scsi")
    _add(drive, "readonly")
    _add(drive, "address", type="drive", controller="0", bus="0", target="0", unit=str(len(server.disks)))
    for nic in server.nics:
        interface = _add(devices, "interface", type="bridge")
        _add(interface, "mac", address=nic.mac)
        _add(interface, "source", bridge=nic.bridge)
        _add(interface, "model", type="virtio")
        if nic.mtu is not None:
            _add(interface, "mtu", size=str(nic.mtu))
        if (
            server.firmware is Firmware.UEFI
        ):  # it boots from a network itself, as real ones do; a BIOS needs the card's ROM
            _add(interface, "rom", enabled="no")
    # a terminal to type at; what it shows is logged, whether or not somebody looks
    serial = _add(devices, "serial", type="pty")
    _add(serial, "log", file=str(server.console_log), append="on")
    _add(serial, "target", port="0")
    _add(_add(devices, "video"), "model", type="vga")
    if server.tpm:
        tpm = _add(devices, "tpm", model="tpm-crb")
        _add(tpm, "backend", type="emulator", version="2.0")
    rng = _add(devices, "rng", model="virtio")
    _add(rng, "backend", "/dev/urandom", model="random")
    # never asked to give memory back; but what a guest frees, it tells, and the computer has it again
    _add(devices, "memballoon", model="virtio", freePageReporting="on")


def _backing(device: ET.Element, image: Path) -> None:
    """Named, so that libvirt leaves its owner as it is: other servers' disks, and the image cache, have the same file."""
    backing = _add(device, "backingStore", type="file")
    _add(backing, "format", type="qcow2")
    _add(_add(backing, "source", file=str(image)), "seclabel", model="dac", relabel="no")
    _add(backing, "backingStore")


def _drive_name(index: int, bus: str = "scsi") -> str:
    return f"{'vd' if bus == 'virtio' else 'sd'}{ascii_lowercase[index]}"


def key_of(xml: str) -> str | None:
    """The content key that `render` wrote into a definition."""
    found = ET.fromstring(xml).find(f"metadata/{{{NAMESPACE}}}server")
    return found.get("key") if found is not None else None


def set_order(domain: ET.Element, order: Sequence[BootDevice]) -> None:
    """Give every bootable device its place; devices of one kind follow each other."""
    for element in [*domain.findall("devices/*/boot/.."), *domain.findall("os")]:
        for boot in element.findall("boot"):
            element.remove(boot)
    place = 1
    for device in order:
        for element in bootable(domain, device):
            element.append(ET.Element("boot", order=str(place)))
            place += 1


def bootable(domain: ET.Element, device: BootDevice) -> list[ET.Element]:
    match device:
        case BootDevice.DISK:
            return [disk for disk in domain.findall("devices/disk[@device='disk']") if not _removable(disk)]
        case BootDevice.CDROM:
            return domain.findall("devices/disk[@device='cdrom']")
        case BootDevice.NETWORK:
            return domain.findall("devices/interface")
        case BootDevice.REMOVABLE:
            return [disk for disk in domain.findall("devices/disk") if _removable(disk)]
        case BootDevice.SETUP:
            return []


def _removable(disk: ET.Element) -> bool:
    target = disk.find("target")
    stick = disk.get("device", "disk") == "disk" and target is not None and target.get("bus") == "usb"
    return stick or disk.get("device") == "floppy"


def order_with_first(device: BootDevice) -> tuple[BootDevice, ...]:
    return (device, *(other for other in (*ORDER, BootDevice.REMOVABLE) if other is not device))


_DEV = {
    "hd": BootDevice.DISK, "cdrom": BootDevice.CDROM, "network": BootDevice.NETWORK, "fd": BootDevice.REMOVABLE,
}  # fmt: skip


def places(domain: ET.Element, device: BootDevice) -> list[int | None]:
    """The place in the boot order of every device of this kind; None where it has none.

    A definition of somebody else may give kinds of devices an order instead of devices: then the first of a kind has it.
    """
    elements = bootable(domain, device)
    kinds = [_DEV.get(boot.get("dev", "")) for boot in domain.findall("os/boot")]
    if device in kinds:
        return [kinds.index(device) + 1 if number == 0 else None for number, _ in enumerate(elements)]
    orders = [element.find("boot") for element in elements]
    return [int(boot.get("order", "0")) if boot is not None else None for boot in orders]


def first_of(domain: ET.Element) -> BootDevice:
    """Which device a definition boots from first; the disk, where it does not say."""
    firsts = {
        device: min((place for place in places(domain, device) if place is not None), default=99)
        for device in BootDevice
    }
    return min(firsts, key=lambda device: firsts[device])


def with_first(xml: str, device: BootDevice) -> str:
    domain = ET.fromstring(xml)
    set_order(domain, order_with_first(device))
    return ET.tostring(domain, encoding="unicode")


OWN_DRIVE = "ua-rackless-media"
"""The alias of a drive that we added to somebody else's definition."""


def media_drive(domain: ET.Element) -> ET.Element | None:
    """The drive virtual media go into: the one we added, else the first there is."""
    drives = bootable(domain, BootDevice.CDROM)
    own = (drive for drive in drives if (alias := drive.find("alias")) is not None and alias.get("name") == OWN_DRIVE)
    return next(own, drives[0] if drives else None)


def drive_xml(xml: str, image: Path | None) -> str | None:
    """The CD drive of a definition with `image` in it, or empty: what an update of the device takes.

    None when the definition has no drive."""
    domain = ET.fromstring(xml)
    drive = media_drive(domain)
    if drive is None:
        return None
    _fill(drive, image, user_of(domain))
    return ET.tostring(drive, encoding="unicode")


def with_media(xml: str, image: Path | None) -> str:
    """The whole definition with `image` in its CD drive, which is added where there is none."""
    domain = ET.fromstring(xml)
    drive = media_drive(domain)
    if drive is None and image is not None:
        drive = _add_drive(domain)
    if drive is not None:
        _fill(drive, image, user_of(domain))
    return ET.tostring(domain, encoding="unicode")


def _fill(drive: ET.Element, image: Path | None, user: int | None) -> None:
    for name in ("source", "backingStore"):
        for element in drive.findall(name):
            drive.remove(element)
    drive.set("type", "file")
    if image is not None:
        source = ET.Element("source", file=str(image))
        if user is not None:  # the image may be in other drives, too: it stays root's, and its readers are let in
            ET.SubElement(source, "seclabel", model="dac", relabel="no")
        drive.insert(1, source)


def user_of(domain: ET.Element) -> int | None:
    """The user its emulator runs as, where `render` said so."""
    label = domain.findtext("seclabel[@model='dac'][@type='static']/label", "")
    owner = label.partition(":")[0].removeprefix("+")
    return int(owner) if owner.isdecimal() else None


def _add_drive(domain: ET.Element) -> ET.Element:
    """On the bus every firmware of this kind of machine boots from."""
    devices = domain.find("devices")
    assert devices is not None
    kind = domain.find("os/type")
    arch, machine = (kind.get("arch", ""), kind.get("machine", "")) if kind is not None else ("", "")
    bus = "scsi" if arch not in ("x86_64", "i686") else "sata" if "q35" in machine else "ide"
    prefix = "hd" if bus == "ide" else "sd"
    taken = {target.get("dev") for target in devices.findall("disk/target")}
    name = next(name for letter in "cdefghijklmnopqrstuvwxyzab" if (name := prefix + letter) not in taken)
    if bus == "scsi" and devices.find("controller[@type='scsi']") is None:
        _add(devices, "controller", type="scsi", index="0", model="virtio-scsi")
    drive = _add(devices, "disk", type="file", device="cdrom")
    if domain.get("type") in ("qemu", "kvm"):
        _add(drive, "driver", name="qemu", type="raw")
    _add(drive, "target", dev=name, bus=bus)
    _add(drive, "readonly")
    _add(drive, "alias", name=OWN_DRIVE)
    return drive


@dataclass(frozen=True, slots=True)
class Parsed:
    name: str
    uuid: UUID
    memory_mib: int
    vcpus: int
    firmware: FirmwareChoice
    macs: tuple[str, ...]
    disks: tuple[tuple[Path, str], ...]
    media: Path | None
    boot_first: BootDevice


def parse(xml: str) -> Parsed:
    return parse_element(ET.fromstring(xml))


def parse_element(domain: ET.Element) -> Parsed:
    drive = media_drive(domain)
    media = drive.find("source") if drive is not None else None
    file = _location(media) if media is not None else None
    factor = {"KiB": 1024, "MiB": 1, "GiB": 1 / 1024}
    memory = domain.find("memory")
    assert memory is not None
    return Parsed(
        name=domain.findtext("name", ""),
        uuid=UUID(domain.findtext("uuid", "")),
        memory_mib=int(int(memory.text or "0") / factor.get(memory.get("unit", "KiB"), 1024)),
        vcpus=int(domain.findtext("vcpu", "1")),
        firmware=firmware_xml.chosen(domain),
        macs=tuple(mac.get("address", "") for mac in domain.findall("devices/interface/mac")),
        disks=tuple(
            (Path(_location(source)), disk.findtext("serial", ""))
            for disk in domain.findall("devices/disk[@device='disk']")
            if (source := disk.find("source")) is not None
        ),
        media=Path(file) if file else None,
        boot_first=first_of(domain),
    )


def _location(source: ET.Element) -> str:
    """Whatever says where the bytes are: a file, a device, a volume in a pool, a name on the network."""
    return next((value for name in ("file", "dev", "volume", "name", "dir") if (value := source.get(name))), "")


def _add(parent: ET.Element, tag: str, text: str | None = None, **attributes: str) -> ET.Element:
    element = ET.SubElement(parent, tag, attributes)
    element.text = text
    return element
