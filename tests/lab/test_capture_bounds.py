"""A recording of packets ends at its time, or when its file is as large as it may be."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import cast

import pytest

from rackless.lab import capture

MAC = "02:00:00:00:00:01"
FRAME = bytes.fromhex(MAC.replace(":", "")) + bytes(94)


class Wire:
    """A raw socket at a bridge on which so many frames are waiting."""

    def __init__(self, frames: int) -> None:
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for _ in range(frames):
            self._theirs.send(FRAME)

    def fileno(self) -> int:
        return self._ours.fileno()

    def recv(self, most: int) -> bytes:
        return self._ours.recv(most)

    def getsockname(self) -> tuple[str]:
        return ("br0",)

    def bind(self, _: object) -> None: ...

    def setsockopt(self, *_: object) -> None: ...

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


@pytest.mark.parametrize(("most", "kept"), [(None, 5), (24 + 3 * 116 + 115, 3), (24, 0)])
def test_a_file_gets_no_larger_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int | None, kept: int
) -> None:
    wire = Wire(5)
    monkeypatch.setattr(socket, "if_nametoindex", lambda _: 1)
    path = tmp_path / "packets.pcap"
    with path.open("wb") as file:
        count = capture.record(file, [cast(socket.socket, wire)], [MAC], 0.2, most_bytes=most)
    wire.close()
    assert count == kept and path.stat().st_size == 24 + kept * (16 + len(FRAME))
