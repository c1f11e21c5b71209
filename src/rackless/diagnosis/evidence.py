"""What a server did on its way up, for the message of a failure: a time-out alone says nothing.

Power, virtual media or network boot, DHCP, files fetched, the kernel, the agent's calls and the last lines of the console
are looked at where they are known: the BMC fleet, dnsmasq, the file server, Ironic's log, the console's log. Only read,
never asked of the server itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

from rackless.lab.network_boot import Answered

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|[\x00-\x08\x0b-\x1f\x7f]")
_TOKEN = re.compile(r"(agent_token=)[^\s&\"']+")
_FIRMWARE = re.compile(r"BdsDxe: |SeaBIOS|iPXE \d|SYSLINUX|>>Start ")
_KERNEL = "Linux version"
_CALL = re.compile(
    r"(?m)^\S+ (?P<time>[\d:]{8})\S* .* (?P<client>\S+) - (?:GET|POST) /v1/(?P<call>lookup|heartbeat|continue_inspection)"
    r"(?:\S* - (?P<status>\d{3})\b)?"
)
_LOOKUP_BEGINS, _NOT_IRONIC_BEGINS = "perform lookup with ", "Failed looking up node with addresses "
_LOOKUP = re.compile(
    r"perform lookup with (?P<url>[^\s,]{1,300}), retrying\. Error: .*?\(Caused by (?P<why>.{1,400}?)\)+(?:: requests|$)"
)
_NETWORK_BOOT = re.compile(
    r"(?P<pxe>PXE-E\d\d: [^\r\n;]{1,80})"
    r"|(?P<url>(?:tftp|https?)://[^\s;]{1,200}?)\.* (?P<why>[A-Z][^\r\n(;]{3,60}) \(https?://ipxe\.org/[0-9a-f]+\)"
    r"|(?P<address>No configuration methods succeeded)"
)
"""The words of firmware that boots over a network: UEFI's own, and iPXE's."""
_STARTED = re.compile(
    r'BdsDxe: starting Boot\w{1,8} "(?P<uefi>[^"\r\n]{1,200})"|Booting from (?P<bios>[\w/ ]{1,60}?)\.\.\.'
)
"""What firmware starts from: UEFI's words, and SeaBIOS'."""
_DISK = re.compile(r"HARDDISK|Misc Device|Hard Disk|NVMe")
_ADDRESSED = "Station IP address is"
_COLUMNS = 80
_MEMORY = re.compile(r"Initramfs unpacking failed: write error|Out of memory: Killed process [^\r\n;]{1,80}")
"""That the end of an initramfs cannot be decoded is said of padding, and harmless: what counts is that there was no room for it."""
_NOT_IRONIC = re.compile(r"Failed looking up node with addresses \S{1,300} at (?P<url>\S{1,300}): (?P<why>Error \d+)")
"""The agent's words where it cannot reach Ironic, and where somebody else answers."""
_AT = r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.\d+\+0000: "
_ENDED = re.compile(_AT + r"shutting down, reason=failed$")
_BEGUN = re.compile(r"(?m)^.*\+0000: (?:starting up|shutting down).*$")
_LIBVIRT = re.compile(_AT + r"\d+: error : \w+:\d+ : (?P<said>.+)$")
"""libvirt's lines, in its log of a server's QEMU and in its own; times are UTC."""
_SAME_START_SECONDS = 5.0
_LONGEST_REFUSAL = 400
REFUSED = "and was refused with"
_TAIL = 16384
_LONG_TAIL = 4 << 20
_FIRMWARE_TAIL = 256 << 10
LINES = 4
_LONGEST = 1000
_LOOKUPS, _LONGEST_LOOKUP = 20, 3000
"""So many lines and letters are searched for the agent's words: what is on a console is the guest's, who may write millions."""


@dataclass(frozen=True, slots=True)
class BootChain:
    power: str
    media: str | None
    leased: str | None
    """The address DHCP gave, if it gave one."""
    fetched: Sequence[str]
    console: Sequence[str]
    boot: Answered | None = None
    """What a server that boots over the network got there."""
    kernel: bool = False
    """Whether a kernel has spoken on the console since the firmware last did."""
    agent: str | None = None
    """The last call of the agent to Ironic, if it ever called."""
    complaint: str = ""
    """What firmware says of the network it boots over or of the disk it starts from, the kernel of its memory, or the agent of its
    calls to Ironic, when they go wrong; from the console."""
    locked: bool = False
    """Whether the server's BMC has locked the account that we use."""
    refused: str = ""
    """Why libvirt or QEMU could not start the server the last time; a BMC answers with no more than an error of its own then."""

    def describe(self) -> str:
        parts = [
            f"power {self.power}",
            *self._way(),
            f"DHCP gave {self.leased}" if self.leased else "DHCP was not asked",
            f"fetched {', '.join(self.fetched)}" if self.fetched else "no file fetched",
            "a kernel started" if self.kernel else "no kernel on the console",
            f"the agent last called {self.agent}" if self.agent else "the agent never called",
            *([self.complaint] if self.complaint else []),
            *(["the BMC has locked the account"] if self.locked else []),
            *([self.refused] if self.refused else []),
        ]
        seen = "; ".join(parts)
        if not self.console:
            return f"seen so far: {seen}; nothing on the console"
        return f"seen so far: {seen}; last on the console:\n" + "\n".join(f"  {line}" for line in self.console)

    def _way(self) -> list[str]:
        """How the server was to find the agent, as far as it came on that way."""
        if self.boot is None:
            return [f"virtual media {self.media}" if self.media else "no virtual media"]
        if not self.boot.asked:
            why = self.boot.refused
            return [f"on the provisioning network {why}" if why else "on the provisioning network DHCP was not asked"]
        refused = f": {self.boot.refused}" if self.boot.refused else ""
        if self.boot.offered is None:
            return [f"on the provisioning network DHCP was asked and had nothing to offer{refused}"]
        sent = f"TFTP sent {', '.join(self.boot.sent)}" if self.boot.sent else "nothing fetched by TFTP"
        return [f"on the provisioning network DHCP offered {self.boot.offered}{refused}", sent]


def read_console(path: Path, lines: int = LINES) -> list[str]:
    """The last lines a person could read, without colours and without the agent's tokens."""
    text = _tail(path, _TAIL)
    cleaned = (_TOKEN.sub(r"\1…", _ESCAPES.sub("", line)).strip() for line in re.split(r"[\r\n]+", text))
    return [line[:200] for line in cleaned if line][-lines:]


def read_start(path: Path, lines: int = 200) -> list[str]:
    """The last lines since the firmware last spoke, as a person reads them."""
    text = _FIRMWARE.split(_tail(path, _LONG_TAIL))[-1]
    cleaned = (_TOKEN.sub(r"\1…", _ESCAPES.sub("", line)).strip() for line in re.split(r"[\r\n]+", text))
    return [line[:_LONGEST] for line in cleaned if line][-lines:]


def read_kernel(path: Path) -> bool:
    """Whether the last to start on this console was a kernel, and not firmware or a boot loader."""
    return _KERNEL in _FIRMWARE.split(_tail(path, _LONG_TAIL))[-1]


def read_agent(log: Path, addresses: Collection[str]) -> str | None:
    """The last call of an agent at one of these addresses, out of Ironic's log: what it was, and when."""
    last = None
    for call in _CALL.finditer(_tail(log, _LONG_TAIL)):
        if call["client"] in addresses:
            last = f"{call['call'].replace('_', ' ')} at {call['time']}"
            if (call["status"] or "200")[0] == "4":
                last += f", {REFUSED} {call['status']}"
    return last


def read_complaint(path: Path) -> str:
    """Of the last start: what the firmware said of a file or an address that it did not get, the kernel of its memory, the agent of
    its calls to Ironic (at which address, and why not), or the firmware of the disk that it started from instead."""
    if network := _read_network_boot(_tail(path, _LONG_TAIL)):
        return f"the firmware says: {network}"
    text = _FIRMWARE.split(_tail(path, _LONG_TAIL))[-1]
    if memory := _MEMORY.search(text):
        return f"the kernel says: {memory[0]}"
    if found := _read_lookup(text):
        return f"the agent says: no way to {found['url']}: {_plain(found['why'])}"
    if disk := _started_from_disk(_tail(path, _LONG_TAIL)):
        return f"the firmware says: it starts from {disk}"
    return ""


def _read_lookup(text: str) -> re.Match[str] | None:
    """The agent's last words about its calls to Ironic."""
    told = (line for line in reversed(text.splitlines()) if _LOOKUP_BEGINS in line or _NOT_IRONIC_BEGINS in line)
    for line in islice(told, _LOOKUPS):
        for begins, pattern in ((_LOOKUP_BEGINS, _LOOKUP), (_NOT_IRONIC_BEGINS, _NOT_IRONIC)):
            place = line.find(begins)
            if place >= 0 and (found := pattern.match(line[place : place + _LONGEST_LOOKUP])):
                return found
    return None


def _started_from_disk(text: str) -> str:
    """The disk that the firmware started from last; empty where it was something else, as it is where an agent is to boot."""
    found = list(_STARTED.finditer(_ESCAPES.sub("", text)))
    device = (found[-1]["uefi"] or found[-1]["bios"]).strip() if found else ""
    return device if _DISK.search(device) else ""


def _read_network_boot(text: str) -> str:
    """What firmware last said of a network that it could not boot over; empty where a kernel has started since."""
    since = text.rpartition(_KERNEL)[2][-_FIRMWARE_TAIL:]
    lines = re.split(r"\r?\n", _ESCAPES.sub("", since.replace("\r\n", "\n")))
    told = "".join(
        line if len(line) == _COLUMNS else f"{line}\n" for line in lines
    )  # a BIOS breaks lines at the screen's edge
    found = list(_NETWORK_BOOT.finditer(told))
    if not found:
        return ""
    last = found[-1]
    if last["pxe"]:  # UEFI says the same of an address and of a file that it waited for
        begun = told.rfind(">>Start PXE", 0, last.start())
        return last["pxe"] if _ADDRESSED in told[begun : last.start()] else f"no address: {last['pxe']}"
    return last["address"] or f"{last['url']}: {last['why']}"


def _plain(why: str) -> str:
    """The last of nested errors, without the calls around it."""
    return re.sub(
        r"""^.*?(?=certificate verify failed|\[Errno|Failed to resolve|Error \d)| *\(_ssl\.c.*$|[\"')]+$""", "", why
    )


def read_refusal(qemu: Path, libvirtd: Path) -> str:
    """Why a server's last start failed, by QEMU's log of the server, or by libvirtd's where no QEMU was begun; empty when none has
    failed since the server ran."""
    before, _, last = _tail(qemu, _TAIL).rstrip("\n").rpartition("\n")
    ended = _ENDED.match(last)
    if ended is None:
        return ""
    since = _BEGUN.split(before)[-1]
    words = [line for line in since.splitlines() if line.startswith("qemu-system")]
    if words:
        return f"QEMU says: {words[-1][:_LONGEST_REFUSAL]}"
    for line in reversed(_tail(libvirtd, _TAIL).splitlines()):
        said = _LIBVIRT.match(line)
        if said is not None and abs(_seconds(said["at"]) - _seconds(ended["at"])) <= _SAME_START_SECONDS:
            return f"libvirt says: {said['said'][:_LONGEST_REFUSAL]}"
    return ""


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def _tail(path: Path, size: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - size))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def read_lease(status: Path, mac: str) -> str | None:
    """The address dnsmasq gave to a MAC, out of libvirt's lease file."""
    try:
        leases = json.loads(status.read_text() or "[]")
    except (FileNotFoundError, ValueError):
        return None
    return next((lease.get("ip-address") for lease in leases if lease.get("mac-address") == mac), None)
