"""A BMC's sensors, its system event log (SEL) and its audit log, as `rackless bmc` and the web page show them."""

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
"""Lines of a log that are shown, the latest ones."""
_TAIL_BYTES = 256 << 10
"""Bytes of the audit log that are read, from its end: some 1500 lines. It is one file for all BMCs."""
_SENSORS: tuple[tuple[Figure, str], ...] = ((INLET, "°C"), (CPU, "°C"), *((fan, "rpm") for fan in FANS), (POWER, "W"))


def read_sensors(chassis: Chassis) -> tuple[SensorSeen, ...]:
    """A server's sensors; empty while libvirt does not show the server."""
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
    """The audit log of one server, the latest first. Where several servers share a BMC address, a login there is listed for all
    of them."""
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
