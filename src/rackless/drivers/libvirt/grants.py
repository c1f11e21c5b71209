"""POSIX ACLs: one user more may read a file, or pass through a folder.

A fetched image may be in the virtual drives of several servers. It belongs to root, so no server can change it; the user of each
server that has it in its drive gets an ACL entry.
"""

from __future__ import annotations

import errno
import os
import struct
from contextlib import suppress
from pathlib import Path

_NAME = "system.posix_acl_access"
_VERSION = 2
_OWNER, _USER, _GROUP, _MASK, _OTHERS = 0x01, 0x02, 0x04, 0x10, 0x20
_ENTRY = struct.Struct("<HHI")
_NOBODY = 0xFFFFFFFF
_READ, _PASS = 4, 1

Entries = dict[tuple[int, int], int]
"""(tag, user): permissions, in the order the kernel wants."""


def let_read(path: Path, user: int) -> None:
    """Where the file system has no ACLs, or this one would be too long, the file becomes readable by all."""
    try:
        os.setxattr(path, _NAME, pack(with_user(_entries(path), user, _READ)))
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOSPC, errno.E2BIG):
            raise
        let_all_read(path)


def let_pass(folder: Path, user: int) -> None:
    """Let a user pass through a folder (x), without listing it."""
    os.setxattr(folder, _NAME, pack(with_user(_entries(folder), user, _PASS)))


def may_pass(folder: Path, user: int) -> bool:
    return _entries(folder).get((_USER, user), 0) & _PASS != 0


def forbid(path: Path, user: int) -> None:
    """Take back what `let_read` gave."""
    with suppress(OSError):  # no lists here: nothing to take back
        entries = _entries(path)
        if entries.pop((_USER, user), None) is not None:
            os.setxattr(path, _NAME, pack(entries))


def let_all_read(path: Path) -> None:
    path.chmod(0o644)


def with_user(entries: Entries, user: int, may: int) -> Entries:
    """The mask is the most that any but the owner may; without one, the group's permissions were that."""
    more = entries | {(_USER, user): may}
    more[_MASK, _NOBODY] = more.get((_MASK, _NOBODY), more[_GROUP, _NOBODY]) | may
    return dict(sorted(more.items()))


def pack(entries: Entries) -> bytes:
    packed = (_ENTRY.pack(tag, allowed, user) for (tag, user), allowed in entries.items())
    return struct.pack("<I", _VERSION) + b"".join(packed)


def _entries(path: Path) -> Entries:
    try:
        found = os.getxattr(path, _NAME)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        mode = path.stat().st_mode
        plain = {_OWNER: mode >> 6 & 7, _GROUP: mode >> 3 & 7, _OTHERS: mode & 7}
        return {(tag, _NOBODY): allowed for tag, allowed in plain.items()}
    return {(tag, user): allowed for tag, allowed, user in _ENTRY.iter_unpack(found[4:])}
