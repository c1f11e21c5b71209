"""The serial consoles of servers: what they say, and typing into them.

Whoever owns the consoles lets any number of readers listen at the same time: a terminal, Serial over LAN, a diagnosis. All
hear the same, and whatever any of them types reaches the server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from rackless.errors import LabError

Heard = AsyncGenerator[bytes, None]
"""What the server says from now on, for as long as it exists; `aclose` stops listening."""
Write = Callable[[bytes], None]
"""Type something. It does not wait: what the server cannot take is lost, as on a wire."""


class NoConsole(LabError):
    """The server has no console that can be attached to."""


class Consoles(Protocol):
    def attach(self, server: str, lines: int = 0) -> tuple[Heard, Write]:
        """Listen to a server, from its last `lines` on, and type into it. NoConsole when that cannot be."""
        ...
