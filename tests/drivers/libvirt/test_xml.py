"""Golden XML: what libvirt is told, word for word. `RACKLESS_GOLDEN=write` writes the files anew."""

import os
from dataclasses import replace
from pathlib import Path
from uuid import UUID
from xml.etree import ElementTree as ET

import pytest

from rackless.drivers.libvirt import domain_xml, network_xml
from rackless.errors import HypervisorError
from rackless.lab.servers import hardware
from rackless.plan.addressing import plan_lab
from rackless.ports.hypervisor import BootDevice, Disk, Firmware, Nic, Server
from rackless.run.paths import LabPaths, Roots
from rackless.spec.lab import LabSpec
from rackless.spec.load import parse

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


@pytest.mark.parametrize(("text", "cache"), [("", "unsafe"), ("disk: {cache: safe}", "writeback")])
def test_what_a_guests_sync_is_worth_is_as_the_lab_says(text: str, cache: str) -> None:
    """`writeback` hands syncs through to the host's disk, `unsafe` drops them."""
    plan = plan_lab(parse(f"servers: {{a: {{disk: 8GiB, extra_disks: [1GiB]}}}}\n{text}", "x"))
    paths = LabPaths(Roots(Path("/state"), Path("/run"), Path("/cache")), plan.name)
    domain = ET.fromstring(domain_xml.render(hardware(plan.servers[0], plan, paths), TCG))
    assert [driver.get("cache") for driver in domain.iterfind("devices/disk[@device='disk']/driver")] == [cache] * 2


def test_the_cluster_network_of_the_default_lab() -> None:
    golden("network.xml", network_xml.render(plan_lab(LabSpec()).cluster))


def test_the_network_of_a_site_with_routes_records_and_a_name_server() -> None:
    spec = parse(
        "networks: {bmc: {access: routed}, dns: {records: {'*.dev': 10.0.0.1, registry: 192.168.111.1},"
        " forward: [192.0.2.53]}, cluster: {routes: [{to: 10.0.0.0/8, via: 192.168.111.3, audience: [worker]}]}}",
        "site",
    )
    golden("network-site.xml", network_xml.render(plan_lab(spec).cluster))


def test_a_provisioning_network_hands_out_addresses_but_no_way_elsewhere() -> None:
    network = plan_lab(parse("networks: {provisioning: {mode: unmanaged}}", "x")).provisioning_dhcp
    assert network is not None
    golden("network-provisioning.xml", network_xml.render(network))


def test_where_servers_boot_with_dhcp_of_others_it_leads_them_by_tftp() -> None:
    text = "servers: {a: {role: control-plane, bmc: ipmi}}\nnetworks: {provisioning: {mode: unmanaged}}\ncluster: {method: ipi}"
    network = plan_lab(parse(text, "x")).provisioning_dhcp
    assert network is not None
    xml = network_xml.render(network)
    options = ("dhcp-boot=tag:ipxe,site.ipxe", "dhcp-boot=tag:!ipxe,tag:uefi,uefi.efi", "tftp-root=/run/network-boot")
    assert all(f'value="{option}"' in xml for option in options)


def test_a_server_with_secure_boot_a_tpm_a_user_of_its_own_and_more_disks_and_nics() -> None:
    box = replace(
        server(),
        secure_boot=True,
        tpm=True,
        user=2_000_300_017,
        disks=(*server().disks, Disk(Path("/lab/disks/ctrl-0-disk1.qcow2"), 1 << 30, "RL000000000002", safe=True)),
        nics=(*server().nics, Nic("02:00:00:00:00:02", "storage")),
    )
    secure = (Path("/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.ms.fd"))
    golden("server-secure.xml", domain_xml.render(box, replace(TCG, secure_code=secure[0], secure_vars=secure[1])))
    with pytest.raises(HypervisorError, match="no firmware for it"):
        domain_xml.render(box, TCG)


def test_a_server_that_begins_with_an_image_and_is_handed_an_ignition_config() -> None:
    disk = Disk(Path("/lab/disks/x-bootstrap.qcow2"), 10 << 30, "BS000000000001", backing=Path("/cache/node.qcow2"))
    box = replace(server(), name="x-bootstrap", disks=(disk,), ignition=Path("/lab/disks/x-bootstrap.ign"))
    golden("server-bootstrap.xml", domain_xml.render(box, TCG))


def test_what_is_rendered_reads_back_as_the_same_server() -> None:
    parsed = domain_xml.parse(domain_xml.render(server(), TCG))
    assert (parsed.name, parsed.memory_mib, parsed.vcpus, parsed.firmware.kind) == ("ctrl-0", 1024, 1, Firmware.UEFI)
    assert (parsed.macs, parsed.media, parsed.boot_first) == (("02:00:00:00:00:01",), None, BootDevice.DISK)
    assert parsed.disks == ((Path("/lab/disks/ctrl-0.qcow2"), "RL000000000001"),)


@pytest.mark.parametrize("device", domain_xml.ORDER)
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
    assert "boot.iso" in str(domain_xml.drive_xml(xml, Path("/lab/media/boot.iso")))
    assert "source" not in str(domain_xml.drive_xml(xml, None))


FOREIGN = """<domain type='kvm'><name>other</name><uuid>6f2d7e0e-8a57-5b0b-9d6c-0123456789ac</uuid>
<memory unit='KiB'>1048576</memory><vcpu>2</vcpu>
<os firmware='efi'><type arch='x86_64' machine='{machine}'>hvm</type><boot dev='network'/><boot dev='hd'/></os>
<devices>
<disk type='block' device='disk'><source dev='/dev/vg/root'/><target dev='vda' bus='virtio'/></disk>
<disk type='volume' device='disk'><source pool='p' volume='data'/><target dev='sdc' bus='sata'/></disk>{drives}
<interface type='bridge'><mac address='02:00:00:00:00:09'/></interface></devices></domain>"""
SEED = "<disk type='file' device='cdrom'><source file='/seed.iso'/><target dev='sda' bus='sata'/></disk>"


def foreign(machine: str = "q35", drives: str = "") -> str:
    return FOREIGN.format(machine=machine, drives=drives)


def test_a_definition_of_somebody_else_is_understood() -> None:
    parsed = domain_xml.parse(foreign())
    assert parsed.firmware.kind is Firmware.UEFI
    assert parsed.boot_first is BootDevice.NETWORK
    assert [str(path) for path, _ in parsed.disks] == ["/dev/vg/root", "data"]
    assert parsed.media is None


def test_an_order_by_kinds_becomes_one_by_devices_for_one_start() -> None:
    started = ET.fromstring(domain_xml.with_first(foreign(drives=SEED), BootDevice.CDROM))
    assert started.findall("os/boot") == []
    assert domain_xml.places(started, BootDevice.CDROM) == [1]
    assert domain_xml.places(started, BootDevice.DISK) == [2, 3]


def test_the_place_of_a_kind_is_the_place_of_its_first_device() -> None:
    domain = ET.fromstring(foreign(drives=SEED))
    assert domain_xml.places(domain, BootDevice.DISK) == [2, None]
    assert domain_xml.places(domain, BootDevice.CDROM) == [None]


@pytest.mark.parametrize(("machine", "bus", "target"), [("pc-q35-8.2", "sata", "sdd"), ("pc-i440fx-8.2", "ide", "hdc")])
def test_a_server_without_a_drive_gets_one_when_it_needs_one(machine: str, bus: str, target: str) -> None:
    filled = domain_xml.with_media(foreign(machine), Path("/a.iso"))
    assert domain_xml.parse(filled).media == Path("/a.iso")
    drive = domain_xml.media_drive(ET.fromstring(filled))
    assert drive is not None and (found := drive.find("target")) is not None
    assert (found.get("bus"), found.get("dev")) == (bus, target)
    emptied = domain_xml.with_media(filled, None)
    assert domain_xml.parse(emptied).media is None
    assert emptied.count("cdrom") == 1
    assert domain_xml.with_media(foreign(machine), None).count("cdrom") == 0


def test_media_go_into_the_first_of_several_drives() -> None:
    xml = foreign(drives=SEED + SEED.replace("sda", "sdb").replace("seed", "more"))
    assert domain_xml.parse(xml).media == Path("/seed.iso")
    assert domain_xml.parse(domain_xml.with_media(xml, None)).media is None
    assert "/more.iso" in domain_xml.with_media(xml, None)


def test_an_image_stays_root_s_in_the_drive_of_a_server_with_a_user_of_its_own() -> None:
    xml = domain_xml.render(replace(server(), user=2_000_300_017), TCG)
    drive = domain_xml.drive_xml(xml, Path("/lab/media/x.iso"))
    assert drive is not None
    label = ET.fromstring(drive).find("source/seclabel")
    assert label is not None and label.attrib == {"model": "dac", "relabel": "no"}
    assert domain_xml.user_of(ET.fromstring(xml)) == 2_000_300_017
    plain = domain_xml.drive_xml(domain_xml.render(server(), TCG), Path("/lab/media/x.iso"))
    assert plain is not None and "seclabel" not in plain


def test_the_user_that_libvirt_chose_by_itself_is_not_one_the_definition_names() -> None:
    chosen = (
        "<domain><seclabel type='dynamic' model='dac' relabel='yes'><label>+64055:+64055</label></seclabel></domain>"
    )
    assert domain_xml.user_of(ET.fromstring(chosen)) is None


def test_disks_hang_on_the_bus_that_is_wanted_and_the_drive_stays_where_it_is() -> None:
    def found(bus: str) -> tuple[list[str | None], list[str | None], int]:
        disks = (replace(server().disks[0], bus=bus), replace(server().disks[0], bus=bus, serial="second"))
        devices = ET.fromstring(domain_xml.render(replace(server(), disks=disks), TCG)).findall("devices/disk")
        targets = [target for device in devices if (target := device.find("target")) is not None]
        placed = sum(device.find("address") is not None for device in devices)
        return [one.get("dev") for one in targets], [one.get("bus") for one in targets], placed

    assert found("scsi") == (["sda", "sdb", "sdc"], ["scsi"] * 3, 3)
    assert found("virtio") == (["vda", "vdb", "sdc"], ["virtio", "virtio", "scsi"], 1)
    assert found("sata") == (["sda", "sdb", "sdc"], ["sata", "sata", "scsi"], 1)


def test_the_largest_packet_is_told_to_the_bridge_and_the_cards() -> None:
    spec = LabSpec.model_validate({"networks": {"cluster": {"mtu": 9000}}})
    network = ET.fromstring(network_xml.render(plan_lab(spec).cluster))
    mtu = network.find("mtu")
    assert mtu is not None and mtu.get("size") == "9000"
    nic = ET.fromstring(domain_xml.render(replace(server(), nics=(Nic("02:00:00:00:00:01", "virbr0", 9000),)), TCG))
    size = nic.find("devices/interface/mtu")
    assert size is not None and size.get("size") == "9000"


def test_where_others_answer_dhcp_nothing_of_it_is_in_the_network() -> None:
    places = {"gateway": "10.9.0.7", "api_vip": "10.9.0.8", "ingress_vip": "10.9.0.9"}
    spec = LabSpec.model_validate({"networks": {"cluster": {"attach": "br0", "cidr": "10.9.0.0/24", **places}}})
    text = network_xml.render(plan_lab(spec).cluster)
    assert "dhcp" not in text and "api.lab.rackless.test" in text
