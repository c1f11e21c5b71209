"""Consoles in memory: `ports.console.Consoles` without servers. Tests read and write what goes over each of them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

from rackless.ports.console import Heard, NoConsole, Write


@dataclass
class FakeConsoles:
    servers: set[str]
    typed: defaultdict[str, bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    echo: bool = False
    """Repeats what is typed, as a guest's terminal does."""
    said: defaultdict[str, bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    _listeners: defaultdict[str, dict[asyncio.Queue[bytes], None]] = field(default_factory=lambda: defaultdict(dict))

    def attach(self, server: str, lines: int = 0) -> tuple[Heard, Write]:
        if server not in self.servers:
            raise NoConsole(f"{server} has no console")
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._listeners[server][queue] = None
        if lines > 0 and (before := b"".join(bytes(self.said[server]).splitlines(keepends=True)[-lines:])):
            queue.put_nowait(before)

        def write(text: bytes) -> None:
            self.typed[server] += text
            if self.echo:
                self.say(server, text)

        return self._listen(server, queue), write

    def listeners(self, server: str) -> int:
        return len(self._listeners[server])

    def say(self, server: str, text: bytes) -> None:
        self.said[server] += text
        for queue in self._listeners[server]:
            queue.put_nowait(text)

    def close(self, server: str) -> None:
        """The server is taken away: readers of its console get the end of it."""
        self.servers.discard(server)
        self.say(server, b"")

    async def _listen(self, server: str, queue: asyncio.Queue[bytes]) -> Heard:
        try:
            while text := await queue.get():
                yield text
        finally:
            self._listeners[server].pop(queue, None)
