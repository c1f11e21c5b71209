"""Golden XML: what libvirt is told, word for word. `RACKLESS_GOLDEN=write` writes the files anew."""

import os
from pathlib import Path
from uuid import UUID
from xml.etree import ElementTree as ET

import pytest

from rackless.drivers.libvirt import domain_xml, network_xml
from rackless.plan.addressing import plan_lab
from rackless.ports.hypervisor import BootDevice, Disk, Firmware, Nic, Server
from rackless.spec.lab import LabSpec

GOLDEN = Path(__file__).parent / "golden"
OVMF = (Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.fd"))
TCG = domain_xml.Platform(False, Path("/usr/bin/qemu-system-x86_64"), *OVMF)
KVM = domain_xml.Platform(True, Path("/usr/bin/qemu-system-x86_64"), *OVMF)


def server(firmware: Firmware = Firmware.UEFI) -> Server:
    return Server(
        name="ctrl-0",
        uuid=UUID("6f2d7e0e-8a57-5b0b-9d6c-0123456789ab"),
        memory_mib=1024,
        vcpus=1,
        firmware=firmware,
        disks=(Disk(Path("/lab/disks/ctrl-0.qcow2"), 8 << 30, "RL000000000001"),),
        nics=(Nic("02:00:00:00:00:01", "virbr0"),),
        nvram=Path("/lab/disks/ctrl-0.nvram"),
        console_log=Path("/lab/logs/console/ctrl-0.log"),
    )


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("RACKLESS_GOLDEN") == "write":
        path.write_text(text + "\n")
    assert path.read_text() == text + "\n", f"{name} differs; look, then RACKLESS_GOLDEN=write"


def test_an_emulated_uefi_server() -> None:
    golden("server-tcg.xml", domain_xml.render(server(), TCG))


def test_an_accelerated_bios_server() -> None:
    golden("server-kvm-bios.xml", domain_xml.render(server(Firmware.BIOS), KVM))


def test_the_cluster_network_of_the_default_lab() -> None:
    golden("network.xml", network_xml.render(plan_lab(LabSpec()).cluster))


def test_what_is_rendered_reads_back_as_the_same_server() -> None:
    parsed = domain_xml.parse(domain_xml.render(server(), TCG))
    assert (parsed.name, parsed.memory_mib, parsed.vcpus, parsed.firmware) == ("ctrl-0", 1024, 1, Firmware.UEFI)
    assert (parsed.macs, parsed.media, parsed.boot_first) == (("02:00:00:00:00:01",), None, BootDevice.DISK)
    assert parsed.disks == ((Path("/lab/disks/ctrl-0.qcow2"), "RL000000000001"),)


@pytest.mark.parametrize("device", list(BootDevice))
def test_any_device_can_be_put_first_and_every_device_has_a_place_of_its_own(device: BootDevice) -> None:
    xml = domain_xml.with_first(domain_xml.render(server(), TCG), device)
    assert domain_xml.parse(xml).boot_first is device
    orders = [boot.get("order", "") for boot in ET.fromstring(xml).iter("boot")]
    assert sorted(orders) == ["1", "2", "3"]


def test_the_key_changes_with_the_hardware_and_only_with_it() -> None:
    one = domain_xml.key_of(domain_xml.render(server(), TCG))
    assert one == domain_xml.key_of(domain_xml.render(server(), TCG))
    assert one != domain_xml.key_of(domain_xml.render(server(Firmware.BIOS), TCG))


def test_media_goes_into_the_drive_that_is_always_there_and_comes_out_again() -> None:
    xml = domain_xml.render(server(), TCG)
    assert "boot.iso" in domain_xml.drive_xml(xml, Path("/lab/media/boot.iso"))
    assert "source" not in domain_xml.drive_xml(xml, None)
