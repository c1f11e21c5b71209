"""What a BMC shows and has written down, as it is told to a person: sensors, its event log, the audit log."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from rackless.bmc.core.chassis import Chassis
from rackless.bmc.core.log import Log
from rackless.bmc.core.readings import CPU, FANS, INLET, POWER, Figure
from rackless.codec import BadValue, decode
from rackless.ports.hypervisor import NoSuchServer, Unreachable
from rackless.protocol.messages import AuditSeen, BmcLogSeen, SensorSeen

MOST_LINES = 100
"""Of a log, the latest."""
_TAIL_BYTES = 256 << 10
"""Of the audit log that are read: it is one file for all BMCs, and some 1500 lines."""
_SENSORS: tuple[tuple[Figure, str], ...] = ((INLET, "°C"), (CPU, "°C"), *((fan, "rpm") for fan in FANS), (POWER, "W"))


def read_sensors(chassis: Chassis) -> tuple[SensorSeen, ...]:
    """Empty while the server cannot be seen."""
    try:
        readings = chassis.readings()
    except (Unreachable, NoSuchServer):
        return ()
    return tuple(
        SensorSeen(figure.name, figure.read(readings), unit, figure.low, figure.high) for figure, unit in _SENSORS
    )


def read_log(log: Log) -> tuple[BmcLogSeen, ...]:
    latest = reversed(log.entries()[-MOST_LINES:])
    return tuple(BmcLogSeen(entry.at, entry.text, entry.warning) for entry in latest)


def read_audit(file: Path, server: str, address: str) -> tuple[AuditSeen, ...]:
    """Of one server, the latest first. A login is the BMC's: where several servers share an address, it is of all of them."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, opened.seek(0, 2) - _TAIL_BYTES))
            lines = opened.read().splitlines()
    except FileNotFoundError:
        return ()
    found: list[AuditSeen] = []
    for line in reversed(lines):
        with suppress(ValueError, BadValue):  # cut short, or not of this version
            value = json.loads(line)
            if value["server"] == server or (value["server"] is None and value["bmc"] == address):
                found.append(decode(AuditSeen, value))
        if len(found) == MOST_LINES:
            break
    return tuple(found)
