"""The firmware in a definition, and the file its variables are in."""

from __future__ import annotations

import struct
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from rackless.drivers.libvirt import domain_xml, firmware_xml, nvram
from rackless.drivers.libvirt.firmware_xml import LEGACY, SECURE, UEFI
from rackless.ports.hypervisor import BootDevice, FirmwareChoice
from tests.drivers.libvirt.test_xml import TCG, foreign, server

FILES = {
    LEGACY: None,
    UEFI: (Path("/fw/code.fd"), Path("/fw/vars.fd")),
    SECURE: (Path("/fw/code.secure.fd"), Path("/fw/vars.keys.fd")),
}


def with_firmware(xml: str, choice: FirmwareChoice) -> ET.Element:
    return ET.fromstring(firmware_xml.with_firmware(xml, choice, FILES))


def test_firmware_goes_all_ways_and_every_kind_keeps_its_own_variables() -> None:
    xml = domain_xml.render(server(), TCG)
    stores = []
    for choice in (SECURE, LEGACY, UEFI, SECURE, UEFI):
        xml = firmware_xml.with_firmware(xml, choice, FILES)
        domain = ET.fromstring(xml)
        assert firmware_xml.chosen(domain) == choice
        assert (domain.find("features/smm") is not None) is choice.secure_boot
        assert domain.find("features/acpi") is not None
        stores.append(str(firmware_xml.nvram(domain) or ""))
    assert stores[0] == stores[3] == "/lab/disks/ctrl-0.secure.nvram"
    assert (stores[1], stores[2], stores[4]) == ("", "/lab/disks/ctrl-0.nvram", "/lab/disks/ctrl-0.nvram")
    assert domain_xml.key_of(xml) == domain_xml.key_of(domain_xml.render(server(), TCG))  # the lab leaves it so


def test_the_lab_s_own_file_of_variables_is_found_again() -> None:
    xml = firmware_xml.with_firmware(domain_xml.render(server(), TCG), SECURE, FILES)
    assert firmware_xml.nvram(with_firmware(xml, UEFI)) == Path("/lab/disks/ctrl-0.nvram")


def test_a_definition_that_lets_libvirt_choose_is_changed_too() -> None:
    assert firmware_xml.chosen(ET.fromstring(foreign())) == UEFI
    domain = with_firmware(foreign(), SECURE)
    assert domain.find("os[@firmware]") is None
    assert firmware_xml.nvram(domain) == Path("/var/lib/libvirt/qemu/nvram/other_VARS.secure.fd")
    assert [boot.get("dev") for boot in domain.findall("os/boot")] == ["network", "hd"]


def test_secure_boot_is_offered_where_the_chipset_can_do_it() -> None:
    assert firmware_xml.offers(ET.fromstring(foreign("q35")), FILES) == {LEGACY, UEFI, SECURE}
    assert firmware_xml.offers(ET.fromstring(foreign("pc")), FILES) == {LEGACY, UEFI}
    assert firmware_xml.offers(ET.fromstring(foreign()), {}) == {UEFI}
    pretend = ET.fromstring(foreign())
    pretend.set("type", "test")
    assert firmware_xml.offers(pretend, FILES) == {UEFI}


STICK = "<disk type='file' device='disk'><source file='/stick'/><target dev='sdz' bus='usb'/></disk>"


def test_a_stick_is_booted_where_there_is_one_and_the_next_device_where_not() -> None:
    with_stick = ET.fromstring(domain_xml.with_first(foreign(drives=STICK), BootDevice.REMOVABLE))
    assert domain_xml.places(with_stick, BootDevice.REMOVABLE) == [1]
    assert domain_xml.places(with_stick, BootDevice.DISK) == [2, 3]
    without = ET.fromstring(domain_xml.with_first(foreign(), BootDevice.REMOVABLE))
    assert domain_xml.first_of(without) is BootDevice.DISK
    assert [str(path) for path, _ in domain_xml.parse(foreign(drives=STICK)).disks] == [
        "/dev/vg/root",
        "data",
        "/stick",
    ]


def store(size: int = 4096) -> bytes:
    """A file of variables with none in it."""
    volume = bytes(16) + bytes(16) + struct.pack("<Q", size) + b"_FVH" + bytes(4) + struct.pack("<H", 72)
    head = nvram._STORE + struct.pack("<IBBHI", size - 72, 0x5A, 0xFE, 0, 0)
    return (volume.ljust(72, b"\0") + head).ljust(size, b"\xff")


def test_a_variable_is_added_found_and_overwritten_in_place() -> None:
    once = nvram.put(store(), "Other", b"abc")
    asked = nvram.ask_for_setup(once)
    assert len(asked) == len(once) == 4096
    assert nvram.get(asked, nvram.OS_INDICATIONS) == (1).to_bytes(8, "little")
    assert nvram.get(asked, "Other") == b"abc"
    assert nvram.ask_for_setup(asked) == asked
    kept = nvram.put(asked, nvram.OS_INDICATIONS, (4).to_bytes(8, "little"))
    assert nvram.get(nvram.ask_for_setup(kept), nvram.OS_INDICATIONS) == (5).to_bytes(8, "little")


def test_what_is_no_file_of_variables_or_full_is_refused() -> None:
    for wrong in (b"", b"\xff" * 4096, store()[:72] + bytes(4024)):
        with pytest.raises(nvram.NotUnderstood):
            nvram.ask_for_setup(wrong)
    full = store(72 + 28 + 2 * 72 - 4)
    with pytest.raises(nvram.NotUnderstood, match="no room"):
        nvram.put(nvram.put(full, "A", bytes(8)), "B", bytes(8))


def test_the_variables_the_distribution_ships_are_understood() -> None:
    pair = firmware_xml.find(firmware_xml.OVMF)
    if pair is None:
        pytest.skip("OVMF is not installed")
    assert nvram.get(nvram.ask_for_setup(pair[1].read_bytes()), nvram.OS_INDICATIONS) == (1).to_bytes(8, "little")
