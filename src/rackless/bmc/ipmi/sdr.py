"""Sensors and their data records (SDR): which there are, how a raw byte becomes a figure, and the bytes that say so.

Pure, and the same for every BMC.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from rackless.bmc.core import readings
from rackless.bmc.core.readings import Figure, Readings

VERSION: Final = 0x51
_OWNER: Final = b"\x20\x00"
_THRESHOLD, _SENSOR_SPECIFIC = 0x01, 0x6F
CELSIUS, WATTS, RPM = 1, 6, 18
TEMPERATURE, FAN, OTHER = 0x01, 0x04, 0x0B
DRIVE, ACPI, WATCHDOG = 0x0D, 0x22, 0x23
_PROCESSOR, _BOARD, _SUPPLY, _FAN, _CONTROLLER, _DRIVES, _INLET = 3, 7, 10, 29, 6, 4, 64


@dataclass(frozen=True)
class Analog:
    """One of the figures that Redfish shows too."""

    number: int
    figure: Figure
    type: int
    unit: int
    step: int
    """What one count of the raw byte is worth."""
    entity: int
    instance: int

    @property
    def name(self) -> str:
        return self.figure.name

    @property
    def limits(self) -> tuple[float | None, float | None]:
        return self.figure.low, self.figure.high

    def read(self, readings: Readings) -> float | None:
        return self.figure.read(readings)

    def raw(self, value: float) -> int:
        return max(0, min(255, round(value / self.step)))

    @property
    def readable(self) -> int:
        return (0x02 if self.limits[0] is not None else 0) | (0x10 if self.limits[1] is not None else 0)

    @property
    def thresholds(self) -> bytes:
        """Lower non-critical, critical, non-recoverable, then the upper three."""
        low, high = (self.raw(limit) if limit is not None else 0 for limit in self.limits)
        return bytes((0, low, 0, 0, high, 0))

    def alarms(self, raw: int) -> int:
        low, high = self.limits
        below = low is not None and raw <= self.raw(low)
        above = high is not None and raw >= self.raw(high)
        return (0x02 if below else 0) | (0x10 if above else 0)

    def record(self) -> bytes:
        low, high = (self.raw(limit) if limit is not None else 0 for limit in self.limits)
        body = bytes((self.number, self.entity, self.instance, 0x7F, 0x47, self.type, _THRESHOLD))
        body += bytes(4) + bytes((self.readable, 0))  # no events; thresholds can be read
        body += bytes((0x00, self.unit, 0x00, 0x00, self.step & 0xFF, self.step >> 2 & 0xC0))
        body += bytes((0, 0, 0, 0))  # B, accuracy, exponents
        nominal = self.raw(self.figure.nominal)
        body += bytes((0x01, nominal, nominal, nominal, 0xFF, 0x00))
        body += bytes((0, high, 0, 0, low, 0, 0, 0, 0, 0, 0))
        return _OWNER + body + _text(self.name)


@dataclass(frozen=True)
class Discrete:
    """A thing that is in one of several states, by their number in the specification."""

    number: int
    name: str
    type: int
    entity: int
    states: int
    """Bits of the states it can be in."""

    def record(self) -> bytes:
        states = struct.pack("<H", self.states)
        body = bytes((self.number, self.entity, 1, 0x67, 0x40, self.type, _SENSOR_SPECIFIC))
        body += states + states + states + bytes((0xC0, 0, 0, 0x01, 0, 0, 0, 0, 0, 0, 0))
        return _OWNER + body + _text(self.name)


def _text(text: str) -> bytes:
    return bytes((0xC0 | len(text),)) + text.encode("ascii")


SENSORS: Final[tuple[Analog | Discrete, ...]] = (
    Analog(0x01, readings.INLET, TEMPERATURE, CELSIUS, 1, _INLET, 1),
    Analog(0x02, readings.CPU, TEMPERATURE, CELSIUS, 1, _PROCESSOR, 1),
    Analog(0x10, readings.FANS[0], FAN, RPM, readings.RPM_STEP, _FAN, 1),
    Analog(0x11, readings.FANS[1], FAN, RPM, readings.RPM_STEP, _FAN, 2),
    Analog(0x20, readings.POWER, OTHER, WATTS, readings.WATTS_STEP, _SUPPLY, 1),
    Discrete(0x30, "Power State", ACPI, _BOARD, 0x0021),
    Discrete(0x31, "CD Drive", DRIVE, _DRIVES, 0x0001),
    Discrete(0x32, "Watchdog", WATCHDOG, _CONTROLLER, 0x000F),
)
BY_NUMBER: Final = {sensor.number: sensor for sensor in SENSORS}
POWER_STATE, CD_DRIVE, WATCHDOG_SENSOR = BY_NUMBER[0x30], BY_NUMBER[0x31], BY_NUMBER[0x32]


def _records() -> dict[int, bytes]:
    controller = b"\x20\x00\x00\x8f\x00\x00\x00" + bytes((_CONTROLLER, 1, 0)) + _text("rackless BMC")
    inventory = b"\x20\x00\x80\x00\x00\x10\x00" + bytes((_BOARD, 1, 0)) + _text("Server")
    bodies = [(0x01 if isinstance(sensor, Analog) else 0x02, sensor.record()) for sensor in SENSORS]
    bodies += [(0x11, inventory), (0x12, controller)]
    return {id: struct.pack("<HBBB", id, VERSION, kind, len(body)) + body for id, (kind, body) in enumerate(bodies, 1)}


RECORDS: Final = _records()
