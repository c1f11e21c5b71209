"""An HTTP connection that reads a little at a time.

asyncio hands on up to 256 KiB in one turn of the loop. A body in chunks of one byte, or thousands of requests behind each other,
are much work in so many bytes, and are read before it is known who sends them. In pieces, others have their turns in between.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from aiohttp.web_protocol import RequestHandler

PIECE_BYTES = 16 * 1024


class ConnectionInPieces(RequestHandler):
    """Subclasses hear of what came by `take`."""

    __slots__ = ("_pieces",)

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._pieces: deque[bytes] | None = None

    def take(self, data: bytes) -> None:
        super().data_received(data)

    def data_received(self, data: bytes) -> None:
        if not data or (not self._pieces and len(data) <= PIECE_BYTES):  # nothing: aiohttp goes on with what it has
            self.take(data)
            return
        begins = not self._pieces
        pieces = self._pieces = self._pieces or deque()
        pieces.extend(data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES))
        self._pause_transport_reading()
        if begins:
            self._next_piece()

    def _next_piece(self) -> None:
        if not self._pieces:
            return
        self.take(self._pieces.popleft())
        if self._pieces:
            self._loop.call_soon(self._next_piece)
        elif not self._reading_paused and not self._buffer_paused:
            self._resume_transport_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._pieces = None
        super().connection_lost(exc)
