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


class Kind(StrEnum):
    POWERED_ON = "ResourcePoweredOn"
    POWERED_OFF = "ResourcePoweredOff"
    CREATED = "ResourceCreated"
    REMOVED = "ResourceRemoved"
    CHANGED = "ResourceChanged"
    TEST = "TestMessage"


@dataclass(frozen=True, slots=True)
class Entry:
    number: int
    at: float
    kind: Kind
    text: str
    warning: bool = False


class Log:
    def __init__(self, most: int = 256) -> None:
        self._entries: deque[Entry] = deque(maxlen=most)
        self._numbers = itertools.count(1)
        self._listeners: list[Callable[[Entry], None]] = []

    def add(self, kind: Kind, text: str, *, warning: bool = False) -> None:
        entry = Entry(next(self._numbers), time.time(), kind, text, warning)
        self._entries.append(entry)
        for listener in tuple(self._listeners):
            listener(entry)

    def entries(self) -> list[Entry]:
        return list(self._entries)

    def clear(self) -> None:
        self._entries.clear()

    def remove(self, number: int) -> None:
        for entry in [one for one in self._entries if one.number == number]:
            self._entries.remove(entry)

    def listen(self, listener: Callable[[Entry], None]) -> None:
        self._listeners.append(listener)

    def forget(self, listener: Callable[[Entry], None]) -> None:
        self._listeners.remove(listener)
