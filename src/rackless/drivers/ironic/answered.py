"""Answers of Ironic about its nodes that are still true, because what they were made of has not changed.

Who looks every half second whether Ironic has come further makes it work, about 10 ms each time and fifteen times that on an
emulated machine. So we look into the database of an Ironic of our own first: a row that reads as it did before an answer means that
answer. Its database is only ever read here; where that fails, by a lock or by a table that is made otherwise, Ironic is asked.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

ASK_AFTER_SECONDS = 10.0
"""Then Ironic is asked again whatever its database says: one that has died changes nothing there."""

Row = tuple[Any, ...]


class AnsweredNodes:
    """Of one Ironic, by the nodes' names; `fields` are columns that its answers are made of."""

    def __init__(self, database: Path, fields: Sequence[str], now: Callable[[], float] | None = None) -> None:
        self._uri = f"{database.as_uri()}?mode=ro"
        self._query = f"SELECT {', '.join(fields)} FROM nodes WHERE name = ?"
        self._now = now or (lambda: time.monotonic())  # the simulator replaces the clock
        self._answers: dict[str, tuple[Row, float, dict[str, Any]]] = {}

    def look(self, name: str) -> Row | None:
        """What the next answer is made of; None where that is not to be seen. To be read before Ironic is asked."""
        try:
            with closing(sqlite3.connect(self._uri, uri=True, timeout=0.0)) as database:
                row = database.execute(self._query, (name,)).fetchone()
        except sqlite3.Error:
            return None
        return None if row is None else tuple(row)

    def find(self, name: str, row: Row | None) -> dict[str, Any] | None:
        """The answer that was made of such a row, when it is young enough."""
        known = self._answers.get(name)
        if row is None or known is None or known[0] != row or self._now() - known[1] >= ASK_AFTER_SECONDS:
            return None
        return known[2]

    def keep(self, name: str, row: Row | None, answer: dict[str, Any] | None) -> None:
        if row is None or answer is None:
            self._answers.pop(name, None)
        else:
            self._answers[name] = (row, self._now(), answer)
