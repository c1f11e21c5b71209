"""Writes a disk with a GUID partition table from the contents of its partitions, in pure Python.

Partitions are aligned to 1 MiB; blocks of zeros stay holes. The identifiers are derived from the content key that is
given, so that the same image gives the same disk.
"""

from __future__ import annotations

import os
import struct
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

SECTOR = 512
_ALIGN = (1 << 20) // SECTOR
_ENTRIES, _ENTRY_SIZE = 128, 128
_TABLE_SECTORS = _ENTRIES * _ENTRY_SIZE // SECTOR
_HEADER = struct.Struct("<8sIIIIQQQQ16sQIII")
_BOOT_CODE = 440
_LEGACY_BIOS_BOOTABLE = 1 << 2
_NAMESPACE = uuid.UUID("6b1a4a3c-6f0e-4a34-9a5b-4e3f3d0f6d52")

EFI_SYSTEM = uuid.UUID("C12A7328-F81F-11D2-BA4B-00A0C93EC93B")
LINUX_DATA = uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4")
LINUX_ROOT_X86_64 = uuid.UUID("4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709")


@dataclass(frozen=True, slots=True)
class Partition:
    type: uuid.UUID
    name: str
    content: Path
    bios: bool = False
    """Where a BIOS finds its boot loader, led there by the boot code in front of the table."""


@dataclass(frozen=True, slots=True)
class _Placed:
    partition: Partition
    first: int
    last: int


def write(disk: Path, partitions: Sequence[Partition], seed: str, boot_code: bytes = b"") -> int:
    """Write `disk`; returns its size in bytes. `boot_code` is what a BIOS runs."""
    placed = _place(partitions)
    total = _align_up(placed[-1].last + 1 + _TABLE_SECTORS + 1)
    table = b"".join(_entry(one, seed) for one in placed).ljust(_ENTRIES * _ENTRY_SIZE, b"\0")
    disk_id = uuid.uuid5(_NAMESPACE, f"{seed}/disk")
    backup_table = total - 1 - _TABLE_SECTORS
    with disk.open("wb") as out:
        out.truncate(total * SECTOR)
        out.write(_protective_mbr(total, boot_code))
        out.write(_header(1, total - 1, 2, total, table, disk_id) + table)
        out.seek(backup_table * SECTOR)
        out.write(table + _header(total - 1, 1, backup_table, total, table, disk_id))
        for one in placed:
            _copy(one.partition.content, out, one.first * SECTOR)
    return total * SECTOR


def offset_of(disk: Path, name: str) -> int:
    """Where the partition of that name begins on a disk we wrote, in bytes."""
    wanted = name.encode("utf-16-le").ljust(72, b"\0")
    with disk.open("rb") as source:
        source.seek(2 * SECTOR)
        table = source.read(_ENTRIES * _ENTRY_SIZE)
    for at in range(0, len(table), _ENTRY_SIZE):
        if table[at + 56 : at + _ENTRY_SIZE] == wanted:
            (first,) = struct.unpack_from("<Q", table, at + 32)
            return int(first) * SECTOR
    raise ValueError(f"{disk} has no partition {name}")


def _place(partitions: Sequence[Partition]) -> list[_Placed]:
    placed, free = [], _ALIGN
    for partition in partitions:
        sectors = -(-partition.content.stat().st_size // SECTOR)
        placed.append(_Placed(partition, free, free + sectors - 1))
        free = _align_up(free + sectors)
    return placed


def _align_up(sector: int) -> int:
    return -(-sector // _ALIGN) * _ALIGN


def _entry(placed: _Placed, seed: str) -> bytes:
    partition = placed.partition
    own = uuid.uuid5(_NAMESPACE, f"{seed}/{partition.name}")
    name = partition.name.encode("utf-16-le").ljust(72, b"\0")
    flags = _LEGACY_BIOS_BOOTABLE if partition.bios else 0
    return partition.type.bytes_le + own.bytes_le + struct.pack("<QQQ", placed.first, placed.last, flags) + name


def _header(own: int, other: int, table_at: int, total: int, table: bytes, disk: uuid.UUID) -> bytes:
    first_usable, last_usable = 2 + _TABLE_SECTORS, total - 2 - _TABLE_SECTORS

    def pack(checksum: int) -> bytes:
        return _HEADER.pack(
            b"EFI PART", 0x10000, _HEADER.size, checksum, 0, own, other, first_usable, last_usable,
            disk.bytes_le, table_at, _ENTRIES, _ENTRY_SIZE, zlib.crc32(table),
        )  # fmt: skip

    return pack(zlib.crc32(pack(0))).ljust(SECTOR, b"\0")


def _protective_mbr(total: int, boot_code: bytes) -> bytes:
    if len(boot_code) > _BOOT_CODE:
        raise ValueError(f"{len(boot_code)} bytes of boot code do not fit in front of a partition table")
    whole_disk = struct.pack("<BBBBBBBBII", 0, 0, 2, 0, 0xEE, 0xFF, 0xFF, 0xFF, 1, min(total - 1, 0xFFFFFFFF))
    return boot_code.ljust(446, b"\0") + whole_disk + b"\0" * 48 + b"\x55\xaa"


def _copy(source: Path, out: BinaryIO, offset: int) -> None:
    """Copy what is not a hole, and of that what is not zero."""
    with source.open("rb") as content:
        end = os.fstat(content.fileno()).st_size
        at = 0
        while at < end:
            try:
                at = os.lseek(content.fileno(), at, os.SEEK_DATA)
            except OSError:  # nothing but a hole up to the end
                return
            content.seek(at)
            block = content.read(1 << 20)
            if block.count(0) != len(block):
                out.seek(offset + at)
                out.write(block)
            at += len(block)
