"""A terminal on our side: the bytes of a serial console become rows of text with colours, which a page shows as they are.

pyte does what the escape sequences ask for; what a server sends is never shown to a browser. Knows nothing of sockets.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from itertools import groupby
from typing import Any

import pyte
from pyte.screens import Char

COLUMNS, ROWS = 100, 31
"""The largest that UEFI draws on a serial console; what thinks that it has 80 × 24 uses the corner."""
MOST_SCROLLED = 1000
_PIECE = 4096
"""Signs in one go: what is lost when the emulator stumbles."""

Run = tuple[str, str]
"""Signs that look alike, and how: `red bold`, empty for plain."""


class _Screen(pyte.Screen):
    """Keeps what scrolls out at the top until it is taken."""

    def __init__(self) -> None:
        self.scrolled: deque[list[Run]] = deque(maxlen=MOST_SCROLLED)
        super().__init__(COLUMNS, ROWS)

    def index(self) -> None:
        if self.margins is None and self.cursor.y == self.lines - 1:
            self.scrolled.append(self.runs(0))
        super().index()

    def runs(self, row: int) -> list[Run]:
        """Signs that look alike together; a row has cells only as far as something was written."""
        line = self.buffer[row]
        cells = [line[column] for column in range(min(max(line, default=-1) + 1, COLUMNS))]
        found = [("".join(cell[0] for cell in alike), _look(look)) for look, alike in groupby(cells, _by_look)]
        if found and not found[-1][1]:
            found[-1] = (found[-1][0].rstrip(), "")
        return [run for run in found if run[0]]


class _Strings:
    """Takes out what is for a terminal's title bar or its printer: pyte would wait for its end, however much comes."""

    def __init__(self) -> None:
        self._inside = False
        self._held = ""

    def without(self, text: str) -> str:
        text, self._held = self._held + text, ""
        if text.endswith("\x1b"):
            text, self._held = text[:-1], "\x1b"
        found, at = [], 0
        while at < len(text):
            edge = (_END if self._inside else _BEGIN).search(text, at)
            if not self._inside:
                found.append(text[at : edge.start() if edge else len(text)])
            if edge is None:
                break
            self._inside = not self._inside
            at = edge.end()
        return "".join(found)


_BEGIN = re.compile("\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f]")
_END = re.compile("[\x07\x18\x1a\x9c]|\x1b\\\\|(?=[\x1b\r\n])")


class Terminal:
    def __init__(self) -> None:
        self._screen = _Screen()
        self._stream = pyte.Stream(self._screen)
        self._strings = _Strings()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._shown_cursor: tuple[int, int, bool] | None = None

    def feed(self, said: bytes) -> None:
        text = self._strings.without(self._decoder.decode(said))
        for start in range(0, len(text), _PIECE):
            try:
                self._stream.feed(text[start : start + _PIECE])
            except Exception:  # pyte stumbles over sequences with arguments that no terminal has; the screen stays
                self._stream = pyte.Stream(self._screen)

    def changes(self) -> dict[str, Any] | None:
        """What a viewer has not seen: lines that scrolled out, rows that changed, the cursor. None when there is nothing."""
        screen = self._screen
        cursor = (screen.cursor.x, screen.cursor.y, not screen.cursor.hidden)
        if not screen.dirty and not screen.scrolled and cursor == self._shown_cursor:
            return None
        rows = {row: screen.runs(row) for row in sorted(screen.dirty) if 0 <= row < ROWS}
        found = {"scrolled": list(screen.scrolled), "rows": rows, "cursor": cursor, "size": (COLUMNS, ROWS)}
        screen.dirty.clear()
        screen.scrolled.clear()
        self._shown_cursor = cursor
        return found

    def lines(self) -> list[str]:
        """What scrolled out and what is on the screen, without looks and without the empty end."""
        screen = self._screen
        rows = [*screen.scrolled, *(screen.runs(row) for row in range(ROWS))]
        found = ["".join(text for text, _ in row) for row in rows]
        while found and not found[-1]:
            found.pop()
        return found


def _by_look(cell: Char) -> tuple[Any, ...]:
    return tuple(cell[1:])


def _look(look: tuple[Any, ...]) -> str:
    """As class names: colours by name, numbers of others are left out."""
    fg, bg, bold, italics, underscore, _, reverse, *_ = look
    words = [fg if fg in _COLOURS else "", f"on-{bg}" if bg in _COLOURS else ""]
    flags = {"bold": bold, "italics": italics, "underscore": underscore, "reverse": reverse}
    return " ".join([*(word for word in words if word), *(name for name, is_set in flags.items() if is_set)])


_BASE = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")
_COLOURS = frozenset((*_BASE, *(f"bright{name}" for name in _BASE)))
