from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

import pytest

from rackless.drivers.computer import LinuxComputer
from rackless.errors import HypervisorError
from rackless.lab.network_boot import Answered, Loaders, find_loaders, read_log, render
from rackless.ports.fabric import Network, Pool, Reservation

MAC, OTHER = "02:00:00:00:00:01", "02:00:00:00:00:02"
NETWORK = Network(
    name="provisioning",
    bridge="provisioning",
    mac="02:00:00:00:00:0f",
    gateway=IPv4Interface("172.22.0.1/24"),
    domain="provisioning.lab.test",
    reservations=(
        Reservation(MAC, "ctrl-0", IPv4Address("172.22.0.20")),
        Reservation(OTHER, "ctrl-1", IPv4Address("172.22.0.21")),
    ),
    records=(),
)
LOADERS = Loaders(Path("/usr/lib/ipxe"), "undionly.kpxe", "snponly.efi")


def test_the_configuration_is_the_one_that_was_read_by_people() -> None:
    golden = Path(__file__).parent / "dnsmasq.conf"
    assert render(NETWORK, LOADERS, "http://172.22.0.1:6180/boot.ipxe") == golden.read_text()


LOG = f"""\
dnsmasq-tftp[7]: TFTP root is /usr/lib/ipxe
dnsmasq-dhcp[7]: DHCPDISCOVER(provisioning) {MAC}
dnsmasq-dhcp[7]: DHCPOFFER(provisioning) 172.22.0.20 {MAC}
dnsmasq-dhcp[7]: DHCPREQUEST(provisioning) 172.22.0.20 {MAC}
dnsmasq-dhcp[7]: DHCPACK(provisioning) 172.22.0.20 {MAC} ctrl-0
dnsmasq-tftp[7]: error 8 User aborted the transfer received from 172.22.0.20
dnsmasq-tftp[7]: sent /usr/lib/ipxe/snponly.efi to 172.22.0.20
dnsmasq-tftp[7]: sent /usr/lib/ipxe/snponly.efi to 172.22.0.20
dnsmasq-dhcp[7]: DHCPDISCOVER(provisioning) 06:00:00:00:00:01 no address available
"""


@pytest.mark.parametrize(
    ("mac", "address", "answered"),
    [
        (MAC, "172.22.0.20", Answered(True, "172.22.0.20", ("snponly.efi",))),
        (OTHER, "172.22.0.21", Answered()),
        ("06:00:00:00:00:01", "172.22.0.22", Answered(asked=True, refused="no address available")),
    ],
)
def test_the_log_tells_what_each_server_asked_for_and_got(mac: str, address: str, answered: Answered) -> None:
    assert read_log(LOG.splitlines(), mac, address) == answered


def test_ipxe_is_taken_from_where_it_is_whole(tmp_path: Path) -> None:
    half, whole = Loaders(tmp_path / "half", "a.kpxe", "a.efi"), Loaders(tmp_path / "whole", "b.kpxe", "b.efi")
    for path in (half.folder / "a.kpxe", whole.folder / "b.kpxe", whole.folder / "b.efi"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert find_loaders(LinuxComputer(), (half, whole)) is whole
    with pytest.raises(HypervisorError, match="iPXE is not installed"):
        find_loaders(LinuxComputer(), (half,))


def test_strangers_are_answered_only_where_there_are_addresses_for_them() -> None:
    pool = Pool(IPv4Address("172.22.0.205"), IPv4Address("172.22.0.254"))
    told = render(replace(NETWORK, pools=(pool,)), LOADERS, "http://172.22.0.1:6180/boot.ipxe")
    assert "dhcp-range=172.22.0.205,172.22.0.254,255.255.255.0,1h\n" in told
    assert told.count("dhcp-range=") == 2 and "dhcp-range=172.22.0.0,static" in told
