"""A recording of packets ends at its time, or when its file is as large as it may be."""

from __future__ import annotations

import socket
from pathlib import Path

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
    monkeypatch.setattr(capture.socket, "socket", lambda *_: wire)
    monkeypatch.setattr(capture.socket, "if_nametoindex", lambda _: 1)
    file = tmp_path / "packets.pcap"
    count = capture.record(file, ["br0"], [MAC], 0.2, lambda _: None, most_bytes=most)
    wire.close()
    assert count == kept and file.stat().st_size == 24 + kept * (16 + len(FRAME))
