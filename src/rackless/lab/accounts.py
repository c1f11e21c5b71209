"""Which user QEMU and swtpm of a lab's servers run as: never root, and no two servers as the same user.

The users are numbers. No account of the computer has them, so nothing is written to its /etc/passwd, and a file that belongs to
one of them is closed to every other user of the computer.
"""

from __future__ import annotations

import hashlib
import pwd
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

FIRST, COUNT = 2_000_300_000, 1 << 27
"""Numbers that nobody hands out: above SSSD's range (to 2,000,200,000) and the containers' (to 1,879,048,191), below systemd's
foreign ones (from 2,147,352,576)."""
TPM = FIRST - 1
"""Every swtpm: libvirt has one user for all of them."""
QEMU_ACCOUNT = "libvirt-qemu"
"""Debian's account for QEMU. Servers that somebody else defines in the lab run as this one."""
QEMU_NUMBER = 64055
"""Reserved for it by Debian: its number where the computer has no such account."""
KVM = Path("/dev/kvm")


@dataclass(frozen=True, slots=True)
class ServerAccounts:
    strangers: int
    """The user of servers that somebody else defined in the lab's libvirt."""
    tpm: int
    own: bool = True
    """Whether each of the lab's servers has a user of its own."""

    def of_server(self, lab: Path, server: str) -> int:
        """The server's user: the same at every start, and another one in another lab."""
        if not self.own:
            return self.strangers
        digest = hashlib.sha256(f"{lab}/{server}".encode()).digest()
        return FIRST + int.from_bytes(digest[:8]) % COUNT


def choose(uid_map: str, *, strangers: int = QEMU_NUMBER, kvm_closed: bool = False) -> ServerAccounts:
    """`uid_map` is the kernel's table of the users that there are here: in a container they may be few."""
    if kvm_closed:  # only root can open it, and servers without it would be ten times slower
        return ServerAccounts(0, 0, own=False)
    if _mapped(uid_map, TPM, FIRST + COUNT):
        return ServerAccounts(strangers, TPM)
    return ServerAccounts(strangers, strangers, own=False)


def observe_accounts(*, kvm_closed: bool) -> ServerAccounts:
    try:
        strangers = pwd.getpwnam(QEMU_ACCOUNT).pw_uid
    except KeyError:
        strangers = QEMU_NUMBER
    uid_map = Path("/proc/self/uid_map").read_text()
    return choose(uid_map, strangers=strangers, kvm_closed=kvm_closed)


def is_open(device: Path) -> bool:
    """Whether every user may use it."""
    wanted = stat.S_IROTH | stat.S_IWOTH
    return device.exists() and device.stat().st_mode & wanted == wanted


def describe_rooted(servers: Iterable[str], pids: Path = Path("/run/libvirt/qemu")) -> list[str]:
    """What `status` warns of: servers started by an earlier version, and those that only root can start."""
    rooted = [server for server in servers if _owner(pids / f"{server}.pid") == 0]
    if not rooted:
        return []
    if KVM.exists() and not is_open(KVM):
        return ["servers run as root: only root may open /dev/kvm here, and a node of the lab's own cannot be made"]
    return [f"{', '.join(rooted)}: started as root by an earlier version; a user of its own from the next start on"]


def _owner(pid_file: Path) -> int | None:
    """Who runs the process; None when it does not run."""
    with suppress(OSError, ValueError, StopIteration):
        status = Path("/proc", str(int(pid_file.read_text())), "status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1])
    return None


def _mapped(uid_map: str, first: int, end: int) -> bool:
    ranges = [tuple(map(int, line.split())) for line in uid_map.splitlines()]
    return any(inside <= first and end <= inside + length for inside, _, length in ranges)
