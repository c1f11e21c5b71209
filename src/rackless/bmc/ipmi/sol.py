"""Serial over LAN as a stream in each direction: numbered pieces, each acknowledged, sent again when that is late.

Pure: bytes of the console and packets of the client come in, packets go out; time is given. One piece is on its way
at a time, so what the console says meanwhile gathers into the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_NACK, _BREAK, _FLUSH_OUT = 0x40, 0x10, 0x01
_DEACTIVATED, _OVERRUN = 0x10, 0x08
_HEAD: Final = 4
_NUMBERS: Final = 15
LARGEST: Final = 252
"""Of a packet, both ways."""
_MOST_WAITING: Final = 64 << 10
"""A client that does not read misses the oldest, as at a terminal that was switched off."""


@dataclass(slots=True)
class _Piece:
    number: int
    text: bytes
    sent: float
    tries: int = 1


class SerialStream:
    def __init__(
        self,
        type_: Callable[[bytes], None],
        now: Callable[[], float],
        *,
        retry_seconds: float = 0.5,
        retries: int = 7,
    ) -> None:
        self._type = type_
        self._now = now
        self.retry_seconds = retry_seconds
        self._retries = retries
        self._waiting = bytearray()
        self._flying: _Piece | None = None
        self._number = 0
        self._heard = 0
        """The client's last piece: it is not typed twice."""
        self._overrun = False

    @property
    def restless(self) -> bool:
        """Something may have to be sent again."""
        return self._flying is not None and self._flying.tries <= self._retries

    def feed(self, text: bytes) -> list[bytes]:
        """The console said something."""
        self._waiting += text
        if len(self._waiting) > _MOST_WAITING:
            del self._waiting[:-_MOST_WAITING]
            self._overrun = True
        return self._next()

    def receive(self, packet: bytes) -> list[bytes]:
        """The client typed something, or says what it got."""
        if len(packet) < _HEAD:
            return []
        number, acknowledged, taken, flags = packet[0] & 0x0F, packet[1] & 0x0F, packet[2], packet[3]
        if acknowledged:
            self._acknowledge(acknowledged, taken, refused=bool(flags & _NACK))
        if not number:
            return self._next()
        text = packet[_HEAD:]
        if number != self._heard:
            self._heard = number
            if flags & _FLUSH_OUT:
                self._waiting.clear()
            if text:
                self._type(text)
        return self._next(number, len(text)) or [bytes((0, number, len(text), 0))]

    def _acknowledge(self, number: int, taken: int, *, refused: bool) -> None:
        flying = self._flying
        if flying is None or flying.number != number:
            return
        if refused and not taken:
            return  # not now: it is sent again when its time comes
        self._flying = None
        self._waiting[:0] = flying.text[taken:]

    def tick(self) -> list[bytes]:
        """Time went by: what was not acknowledged goes again, but not for ever."""
        flying = self._flying
        if flying is None or not self.restless or self._now() - flying.sent < self.retry_seconds:
            return []
        flying.tries += 1
        flying.sent = self._now()
        return [self._packet(flying, 0, 0)] if self.restless else []

    def goodbye(self) -> bytes:
        return bytes((0, 0, 0, _DEACTIVATED))

    def _next(self, acknowledged: int = 0, taken: int = 0) -> list[bytes]:
        flying = self._flying
        if flying is not None:
            if acknowledged and flying.tries > self._retries:  # it lives after all
                flying.tries, flying.sent = 1, self._now()
                return [self._packet(flying, acknowledged, taken)]
            return []
        if not self._waiting:
            return []
        text = bytes(self._waiting[: LARGEST - _HEAD])
        del self._waiting[: len(text)]
        self._number = self._number % _NUMBERS + 1
        self._flying = _Piece(self._number, text, self._now())
        return [self._packet(self._flying, acknowledged, taken)]

    def _packet(self, piece: _Piece, acknowledged: int, taken: int) -> bytes:
        status = _OVERRUN if self._overrun else 0
        self._overrun = False
        return bytes((piece.number, acknowledged, taken, status)) + piece.text
