"""Serial over LAN with a console at one end and a session at the other: tasks and timers around the pure stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rackless.bmc.ipmi.sol import SerialStream
from rackless.ports.console import Heard, Write

Send = Callable[[bytes], None]


class SerialOverLan:
    """Active from the start until `end`, or until the console ends."""

    def __init__(
        self,
        heard: Heard,
        write: Write,
        send: Send,
        ended: Callable[[], None],
        now: Callable[[], float],
        *,
        retry_seconds: float,
        retries: int,
    ) -> None:
        self._heard = heard
        self._send = send
        self._ended = ended
        self._stream = SerialStream(write, now, retry_seconds=retry_seconds, retries=retries)
        self._timer: asyncio.TimerHandle | None = None
        self._listening = asyncio.create_task(self._listen())

    def receive(self, payload: bytes) -> list[bytes]:
        packets = self._stream.receive(payload)
        self._watch()
        return packets

    def end(self) -> None:
        """The session is gone."""
        if self._timer is not None:
            self._timer.cancel()
        self._listening.cancel()

    def dismiss(self) -> None:
        """Somebody else ends it: the client is told."""
        self._send(self._stream.goodbye())
        self.end()

    async def _listen(self) -> None:
        try:
            async for text in self._heard:
                self._emit(self._stream.feed(text))
            self._send(self._stream.goodbye())
            self._ended()
        finally:
            await self._heard.aclose()

    def _emit(self, packets: list[bytes]) -> None:
        for packet in packets:
            self._send(packet)
        self._watch()

    def _watch(self) -> None:
        if self._timer is None and self._stream.restless:
            self._timer = asyncio.get_running_loop().call_later(self._stream.retry_seconds, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._emit(self._stream.tick())
