"""The root file system of a node image, cut out of its disk."""

from __future__ import annotations

from pathlib import Path

from rackless.images import gpt

_PIECE = 4 << 20
_BLOCKS, _BLOCK_SIZE = 1024 + 4, 1024 + 24
"""Offsets in an ext4's superblock: its number of blocks, and their size."""


def cut_root(disk: Path, target: Path) -> None:
    """`disk` is raw. Copies the file system, and not what follows it in the partition."""
    offset = gpt.offset_of(disk, "root")
    with disk.open("rb") as source, target.open("wb") as out:
        source.seek(offset)
        head = source.read(4096)
        blocks = int.from_bytes(head[_BLOCKS : _BLOCKS + 4], "little")
        left = blocks * (1024 << int.from_bytes(head[_BLOCK_SIZE : _BLOCK_SIZE + 4], "little"))
        source.seek(offset)
        while left > 0 and (piece := source.read(min(_PIECE, left))):
            out.write(piece)
            left -= len(piece)
