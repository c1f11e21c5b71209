"""The system event log: the chassis's log in IPMI's words, one record of sixteen bytes for each entry.

There is one log. What happened to the server is told here and in Redfish; what a client adds here is seen there too.
Knows records, not packets.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Final

from rackless.bmc.core.log import Log, LogEntry, LogKind
from rackless.bmc.ipmi.sdr import ACPI, CD_DRIVE, DRIVE, POWER_STATE, WATCHDOG, WATCHDOG_SENSOR

MOST: Final = 256
_SYSTEM_EVENT, _EVENT = 0x02, 0x04
_BMC: Final = b"\x20\x00"
_SPECIFIC, _GONE = 0x6F, 0x80
_NUMBERS: Final = 0xFFFE
_WORKING, _SOFT_OFF = 0, 5
_BOOT, _RESTART = 0x1D, 7
_POWER_UNIT, _CONTROL_FAILURE = 0x09, 5
_TIMED_KINDS: Final = range(0xC0, 0xE0)

Event = tuple[int, int, int, int]
"""Sensor type, sensor number, direction and type of event, state."""


def _event(entry: LogEntry) -> Event:
    match entry.kind:
        case LogKind.POWERED_ON:
            return ACPI, POWER_STATE.number, _SPECIFIC, _WORKING
        case LogKind.POWERED_OFF:
            return ACPI, POWER_STATE.number, _SPECIFIC, _SOFT_OFF
        case LogKind.CHANGED if entry.text.startswith("The drive"):
            return DRIVE, CD_DRIVE.number, _SPECIFIC | (_GONE if "emptied" in entry.text else 0), 0
    return 0x12, 0x00, _SPECIFIC, 0x04 if entry.kind is LogKind.TEST else 0x00  # a system event


class SystemEventLog:
    def __init__(self, log: Log, wall: Callable[[], float] = lambda: time.time()) -> None:
        self._log = log
        self._wall = wall
        self._raw: dict[int, bytes] = {}
        """Records that were given to us, by the number of their entry; without the record's own number."""
        self.offset = 0.0
        """By how much a client set this clock differently."""
        self.reservation = 0
        self.erased = 0.0
        self.added = 0.0

    def now(self) -> float:
        return self._wall() + self.offset

    def records(self) -> dict[int, bytes]:
        return {_id(entry): self._record(entry) for entry in self._log.entries()}

    def _record(self, entry: LogEntry) -> bytes:
        body = self._raw.get(entry.number)
        if body is None:
            kind, number, direction, state = _event(entry)
            stamp = struct.pack("<I", int(entry.at + self.offset) & 0xFFFFFFFF)
            body = bytes((_SYSTEM_EVENT,)) + stamp + _BMC + bytes((_EVENT, kind, number, direction, state, 0xFF, 0xFF))
        return struct.pack("<H", _id(entry)) + body

    def add(self, record: bytes) -> int:
        """Keep a client's record of sixteen bytes; it gets a number, and the time where it has one."""
        body = record[2:]
        if body[0] == _SYSTEM_EVENT or body[0] in _TIMED_KINDS:
            body = body[:1] + struct.pack("<I", int(self.now()) & 0xFFFFFFFF) + body[5:]
        return self._keep(body, f"An IPMI client added an event: {body[5:].hex(' ')}.")

    def note(self, event: Event, text: str, *, warning: bool = True) -> None:
        """Something the BMC itself saw."""
        kind, number, direction, state = event
        stamp = struct.pack("<I", int(self.now()) & 0xFFFFFFFF)
        details = bytes((_EVENT, kind, number, direction, state, 0xFF, 0xFF))
        self._keep(bytes((_SYSTEM_EVENT,)) + stamp + _BMC + details, text, warning=warning)

    def watchdog(self, action: int) -> None:
        self.note((WATCHDOG, WATCHDOG_SENSOR.number, _SPECIFIC, action), "The watchdog timer ran out.")

    def restarted(self, how: str) -> None:
        self.note((_BOOT, 0, _SPECIFIC, _RESTART), f"The server was restarted ({how}).", warning=False)

    def power_failed(self, what: str) -> None:
        self.note((_POWER_UNIT, 0, _SPECIFIC, _CONTROL_FAILURE), f"A power command failed ({what}).")

    def _keep(self, body: bytes, text: str, *, warning: bool = False) -> int:
        self._log.add(LogKind.CHANGED, text, warning=warning)
        entries = self._log.entries()
        self._raw[entries[-1].number] = body
        kept = {entry.number for entry in entries}
        self._raw = {number: raw for number, raw in self._raw.items() if number in kept}
        self.added = self.now()
        return _id(entries[-1])

    def reserve(self) -> int:
        self.reservation = self.reservation % 0xFFFF + 1
        return self.reservation

    def delete(self, id: int) -> bool:
        found = next((entry for entry in self._log.entries() if _id(entry) == id), None)
        if found is None:
            return False
        self._log.remove(found.number)
        self._raw.pop(found.number, None)
        self.erased = self.now()
        self.reservation = self.reservation % 0xFFFF + 1
        return True

    def clear(self) -> None:
        self._log.clear()
        self._raw.clear()
        self.erased = self.now()
        self.reservation = self.reservation % 0xFFFF + 1


def _id(entry: LogEntry) -> int:
    """Zero and 0xFFFF mean the first and the last."""
    return (entry.number - 1) % _NUMBERS + 1
