"""What happened to a server or to its BMC, in order: the log that Redfish and IPMI show, and that subscribers are told.

It lives in memory and keeps the newest; a lab's own event stream is the lasting record.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class LogKind(StrEnum):
    POWERED_ON = "ResourcePoweredOn"
    POWERED_OFF = "ResourcePoweredOff"
    CREATED = "ResourceCreated"
    REMOVED = "ResourceRemoved"
    CHANGED = "ResourceChanged"
    TEST = "TestMessage"


@dataclass(frozen=True, slots=True)
class LogEntry:
    number: int
    at: float
    kind: LogKind
    text: str
    warning: bool = False
    origin: str = ""
    """The resource it happened to, where that is not the one the log is of."""
    told: bool = True


class Log:
    def __init__(self, most: int = 256) -> None:
        self._entries: deque[LogEntry] = deque(maxlen=most)
        self._most, self._most_untold = most, max(1, most // 16)
        self._numbers = itertools.count(1)
        self._listeners: list[Callable[[LogEntry], None]] = []

    def add(self, kind: LogKind, text: str, *, warning: bool = False, origin: str = "", told: bool = True) -> None:
        """Keep it, and tell it unless it is what strangers do at will: of that a few entries are kept, and none of the others makes
        room for them."""
        entry = LogEntry(next(self._numbers), time.time(), kind, text, warning, origin, told)
        if told:
            self._entries.append(entry)
            self._tell(entry)
            return
        strangers = [one for one in self._entries if not one.told]
        if strangers and (len(strangers) >= self._most_untold or len(self._entries) == self._most):
            self._entries.remove(strangers[0])
        if len(self._entries) < self._most:
            self._entries.append(entry)

    def tell(self, kind: LogKind, text: str) -> None:
        """What subscribers want to know and nobody looks up later."""
        self._tell(LogEntry(0, time.time(), kind, text))

    def _tell(self, entry: LogEntry) -> None:
        for listener in tuple(self._listeners):
            listener(entry)

    def entries(self) -> list[LogEntry]:
        return list(self._entries)

    def clear(self) -> None:
        self._entries.clear()

    def remove(self, number: int) -> None:
        for entry in [one for one in self._entries if one.number == number]:
            self._entries.remove(entry)

    def listen(self, listener: Callable[[LogEntry], None]) -> None:
        self._listeners.append(listener)

    def forget(self, listener: Callable[[LogEntry], None]) -> None:
        self._listeners.remove(listener)
