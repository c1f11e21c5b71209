"""What the parts of a bootstrap machine tell: one JSON object a line behind a mark, among whatever else a console shows. Pure.

Nothing secret is told: consoles are logged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

MARK = "BOOTSTRAP "
Tell = Callable[[Mapping[str, Any]], None]
_LONGEST_LINE = 4096
"""A guest can write to its console whatever it likes; longer lines are not ours."""


def render_line(what: Mapping[str, Any]) -> str:
    return f"{MARK}{json.dumps(dict(what))}"


def read_line(line: str) -> dict[str, Any] | None:
    """What one line of a console tells; None for whatever is not ours. systemd puts the unit's name before it."""
    _, mark, text = line.rstrip().partition(MARK)
    if not mark or len(text) > _LONGEST_LINE:
        return None
    try:
        found = json.loads(text)
    except ValueError:  # cut in two by a message of the kernel's
        return None
    return found if isinstance(found, dict) else None


class ConsoleReader:
    """Takes a console's log as it grows, piece by piece, and gives the lines that are whole."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[dict[str, Any]]:
        *lines, rest = (self._rest + piece).split(b"\n")
        self._rest = rest[-_LONGEST_LINE * 2 :]
        found = (read_line(line.decode(errors="replace")) for line in lines)
        return [each for each in found if each is not None]
