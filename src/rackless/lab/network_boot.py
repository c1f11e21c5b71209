"""Booting over the provisioning network, as Metal3 does it: one dnsmasq for DHCP and TFTP, iPXE from there on over HTTP.

A server's firmware gets iPXE (`ports.booting`), and that the script which Ironic keeps on the lab's file server. DHCP answers only
servers of the lab, unless the network has addresses for discovered servers. The configuration and the reading of the log are pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rackless.errors import HypervisorError
from rackless.ports.booting import BootFiles
from rackless.ports.computer import Computer
from rackless.ports.fabric import Network
from rackless.ports.process import Child, Processes
from rackless.run.files import write

HOST_PACKAGES = ("dnsmasq-base", "ipxe")

SCRIPT = "boot.ipxe"
"""Ironic's name for the script that leads every server to its own."""


@dataclass(frozen=True, slots=True)
class Loaders:
    """iPXE as files that firmware starts."""

    folder: Path
    bios: str
    uefi: str


PLACES = (
    # where the distributions keep iPXE
    Loaders(Path("/usr/lib/ipxe"), "undionly.kpxe", "snponly.efi"),
    Loaders(Path("/usr/share/ipxe"), "undionly.kpxe", "ipxe-snponly-x86_64.efi"),
)


def find_loaders(computer: Computer, places: Sequence[Loaders] = PLACES) -> Loaders:
    for found in places:
        if computer.has_file(found.folder / found.bios) and computer.has_file(found.folder / found.uefi):
            return found
    raise HypervisorError(
        "iPXE is not installed",
        why="servers that boot over the network fetch it first",
        hint="run `rackless prepare`, which installs what is missing",
    )


def render(network: Network, loaders: Loaders, script: str) -> str:
    """dnsmasq.conf: `script` is the address of the iPXE script."""
    lines = [
        "# DHCP and TFTP for servers that boot over the network; names are the cluster network's business",
        "port=0",
        f"interface={network.bridge}",
        "bind-dynamic",
        "user=nobody",
        "leasefile-ro",
        "pid-file=",
        "log-facility=-",
        f"dhcp-range={network.gateway.network.network_address},static,{network.gateway.netmask},1h",
        *(f"dhcp-range={pool.first},{pool.last},{network.gateway.netmask},1h" for pool in network.pools),
        *(f"dhcp-host={host.mac},{host.address},{host.name}" for host in network.reservations),
        "dhcp-option=option:router",
        "dhcp-option=option:dns-server",
        "# a client that says so is iPXE itself; the others say by their architecture which firmware they are",
        *BootFiles(str(loaders.folder), loaders.bios, loaders.uefi, script).lines,
    ]
    return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class Answered:
    """What a server asked for on the provisioning network, and got."""

    asked: bool = False
    offered: str | None = None
    sent: tuple[str, ...] = ()
    """The files it fetched by TFTP, in the order it first did."""
    refused: str = ""
    """Why DHCP had no address for it, if it said so."""


_DHCP = re.compile(r"DHCP(DISCOVER|OFFER|REQUEST|ACK)\(\S+\) (?:(\d[\d.]+) )?([0-9a-f:]{17})")
_REFUSED = re.compile(r"DHCPDISCOVER\(\S+\) ([0-9a-f:]{17}) (no address available)")
_NO_RANGE = re.compile(r"no address range available for DHCP request via \S+")
_LEASED = re.compile(r"not using configured address (\S+) because it is leased to ([0-9a-f:]{17})")
_RESERVED = re.compile(r"DHCPNAK\(\S+\) (\S+) ([0-9a-f:]{17}) address reserved")
_TFTP = re.compile(r"sent (\S+) to (\S+)")


def read_log(lines: Iterable[str], mac: str, address: str) -> Answered:
    """What dnsmasq's log says of one server; lines of other servers are passed over."""
    asked, offered, sent, refused = False, None, dict[str, None](), ""
    no_range = False
    for line in lines:
        if (found := _REFUSED.search(line)) and found[1] == mac:
            asked, refused = True, refused or found[2]
        elif (found := _LEASED.search(line)) and found[1] == address:
            refused = f"its address {address} is leased to {found[2]}"
        elif (found := _RESERVED.search(line)) and found[2] == mac:
            asked, refused = True, f"the address {found[1]} that it asks for is reserved for another MAC"
        elif _NO_RANGE.search(line):  # the MAC is not told
            no_range = True
        elif (dhcp := _DHCP.search(line)) and dhcp[3] == mac:
            asked = True
            offered = dhcp[2] if dhcp[1] in ("OFFER", "ACK") else offered
        elif (tftp := _TFTP.search(line)) and tftp[2] == address:
            sent[Path(tftp[1]).name] = None
    if no_range and not asked:
        refused = "DHCP had no range for the network that it was asked on"
    return Answered(asked, offered, tuple(sent), refused)


class NetworkBoot:
    """The running dnsmasq of one provisioning network; `loaders` are looked for when it starts."""

    def __init__(
        self,
        network: Network,
        files: str,
        folder: Path,
        log: Path,
        processes: Processes,
        loaders: Callable[[], Loaders],
        program: str = "dnsmasq",
    ) -> None:
        self._network = network
        self._script = f"{files}/{SCRIPT}"
        self._configuration = folder / "dnsmasq.conf"
        self._log = log
        self._processes = processes
        self._loaders = loaders
        self._program = program
        self._child: Child | None = None

    async def start(self) -> None:
        if self._child is None:
            write(self._configuration, render(self._network, self._loaders(), self._script))
            argv = [self._program, "--keep-in-foreground", f"--conf-file={self._configuration}"]
            self._child = await self._processes.start(argv, log=self._log)

    async def stop(self) -> None:
        if self._child is not None:
            child, self._child = self._child, None
            await child.stop()

    def answered(self, mac: str, address: str) -> Answered:
        if not self._log.exists():
            return Answered()
        with self._log.open(errors="replace") as lines:
            return read_log(lines, mac, address)
