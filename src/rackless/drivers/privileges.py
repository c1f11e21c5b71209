"""Giving up what root may do, for good, by system call: what Python's `os` does not have.

`become` turns a process of root's into one of a caller's: their user and groups, no capability in any of the five sets, none to be
gained by a program that is run later (no_new_privs), and no key of root's session. It looks afterwards, and raises when
anything of root's is left: a container may have changed what `setuid` does.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from rackless.drivers import namespaces as ns

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITIES_V3 = 0x20080522
_KEYCTL = {"x86_64": 250, "aarch64": 219, "ppc64le": 271, "s390x": 280}
_JOIN_SESSION_KEYRING = 1
_SO_PEERGROUPS = 59
_MOST_GROUPS = 65536
_LAST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")
_STATUS = Path("/proc/self/status")
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of a unix socket, as they were when they connected: the kernel says so, not they."""

    pid: int
    uid: int
    gid: int
    groups: tuple[int, ...]


def peer_of(connection: socket.socket) -> Peer:
    pid, uid, gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    groups, size = (
        (ctypes.c_uint32 * _MOST_GROUPS)(),
        ctypes.c_uint32(4 * _MOST_GROUPS),
    )  # Python's own takes 256 at most
    found = connection.fileno(), socket.SOL_SOCKET, _SO_PEERGROUPS
    if _libc.getsockopt(*found, ctypes.byref(groups), ctypes.byref(size)) != 0:
        raise OSError(ctypes.get_errno(), "SO_PEERGROUPS")
    return Peer(pid, uid, gid, tuple(groups[: size.value // 4]))


def become(caller: Peer) -> None:
    """Be `caller`, and nobody more, from now on. Raises OSError or PermissionError: then the process must end."""
    if caller.uid <= 0 or caller.gid < 0:
        raise PermissionError("root gives up nothing by becoming root")
    for number in range(int(_LAST_CAPABILITY.read_text()) + 1):
        _prctl(_PR_CAPBSET_DROP, number)
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    os.setgroups(caller.groups)
    os.setresgid(caller.gid, caller.gid, caller.gid)
    os.setresuid(caller.uid, caller.uid, caller.uid)
    _clear_capabilities()
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_DUMPABLE, 0)  # until it becomes another program, nobody looks into it who could not before
    _leave_session_keyring()
    _look(caller)


def end_with_parent(number: int) -> None:
    """Have the kernel send us this signal when the process that started us ends."""
    _prctl(_PR_SET_PDEATHSIG, number)


def hide(path: Path) -> None:
    """In a mount namespace of our own, take away what is mounted at a path; what lies under it is seen again."""
    ns.unshare(ns.CLONE_NEWNS)
    ns.mount("none", "/", flags=ns.MS_REC | ns.MS_SLAVE)
    while ns.is_mounted(path):
        ns.unmount(path)


def _clear_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if _libc.capset(ctypes.byref(header), ctypes.byref(nothing)) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _leave_session_keyring() -> None:
    """A session keyring of our own. Where the kernel or a container knows no keyrings there is none to leave."""
    number = _KEYCTL.get(platform.machine())
    if number is not None:
        _libc.syscall(number, _JOIN_SESSION_KEYRING, None)


def _look(caller: Peer) -> None:
    found = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    kept = [name for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") if int(found[name], 16)]
    users, groups = {*map(int, found["Uid"].split())}, {*map(int, found["Gid"].split())}
    besides = sorted(map(int, found["Groups"].split()))
    if kept or users != {caller.uid} or groups != {caller.gid} or found["NoNewPrivs"].strip() != "1":
        raise PermissionError(f"root's rights stay with this process: {', '.join(kept) or 'its user or group'}")
    if besides != sorted(caller.groups):
        raise PermissionError("this process has groups that are not the caller's")


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), *(ctypes.c_ulong(0),) * 3) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}: {os.strerror(ctypes.get_errno())}")
