"""Chassis: the box that is not there, with the sensors of the shared model, the same that IPMI shows."""

from __future__ import annotations

from dataclasses import dataclass

from rackless.bmc.core.readings import CPU, FANS, INLET, POWER, Figure
from rackless.bmc.redfish.messages import Json, missing
from rackless.bmc.redfish.resource import ROOT, Answer, Resource, Scope, collection, link, status
from rackless.bmc.redfish.root import VENDOR
from rackless.bmc.redfish.schemas import SCHEMAS
from rackless.bmc.redfish.systems import LAMP, lamp, power_state, with_lamp

_CHASSIS = f"{ROOT}/Chassis/{{chassis}}"


@dataclass(frozen=True, slots=True)
class _Sensor:
    figure: Figure
    type: str
    unit: str
    where: str

    @property
    def id(self) -> str:
        return self.figure.name.replace(" ", "")


_TEMPERATURES = (_Sensor(INLET, "Temperature", "Cel", "Intake"), _Sensor(CPU, "Temperature", "Cel", "CPU"))
_FANS = tuple(_Sensor(fan, "Rotational", "{rev}/min", "Chassis") for fan in FANS)
_POWER = _Sensor(POWER, "Power", "W", "Chassis")
_SENSORS = {sensor.id: sensor for sensor in (*_TEMPERATURES, *_FANS, _POWER)}


def enclosures(scope: Scope) -> Json:
    seen = (id for id, chassis in scope.service.systems.items() if chassis.present() is not None)
    return collection(f"{ROOT}/Chassis", "ChassisCollection", "Chassis", (f"{ROOT}/Chassis/{id}" for id in seen))


def enclosure(scope: Scope) -> Json:
    server = scope.chassis.server()
    return {
        "@odata.id": scope.chassis_uri,
        "@odata.type": SCHEMAS["Chassis"],
        "Id": scope.id,
        "Name": f"Chassis of {server.name}",
        "ChassisType": "RackMount",
        "Manufacturer": VENDOR,
        "Model": "virtual server",
        "SerialNumber": str(server.uuid),
        "PowerState": power_state(scope.chassis),
        "Status": status(),
        **lamp(scope.chassis.memory),
        "Power": link(f"{scope.chassis_uri}/Power"),
        "Thermal": link(f"{scope.chassis_uri}/Thermal"),
        "Sensors": link(f"{scope.chassis_uri}/Sensors"),
        "Links": {"ComputerSystems": [link(scope.system_uri)], "ManagedBy": [link(scope.manager_uri)]},
    }


def power(scope: Scope) -> Json:
    watts = scope.chassis.readings().watts
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["Power"],
        "Id": "Power",
        "Name": "Power",
        "PowerControl": [
            {
                "@odata.id": f"{scope.path}#/PowerControl/0",
                "MemberId": "0",
                "Name": "System Power Control",
                "PowerConsumedWatts": watts,
                "Status": status(),
            }
        ],
        "PowerControl@odata.count": 1,
        "PowerSupplies": [],
        "PowerSupplies@odata.count": 0,
    }


def thermal(scope: Scope) -> Json:
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["Thermal"],
        "Id": "Thermal",
        "Name": "Thermal",
        "Temperatures": [_temperature(scope, number, sensor) for number, sensor in enumerate(_TEMPERATURES)],
        "Temperatures@odata.count": len(_TEMPERATURES),
        "Fans": [_fan(scope, number, sensor) for number, sensor in enumerate(_FANS)],
        "Fans@odata.count": len(_FANS),
    }


def _temperature(scope: Scope, number: int, sensor: _Sensor) -> Json:
    value = sensor.figure.read(scope.chassis.readings())
    return {
        "@odata.id": f"{scope.path}#/Temperatures/{number}",
        "MemberId": str(number),
        "Name": sensor.figure.name,
        "PhysicalContext": sensor.where,
        "ReadingCelsius": value,
        "UpperThresholdCritical": sensor.figure.high,
        "Status": _status(value),
    }


def _fan(scope: Scope, number: int, sensor: _Sensor) -> Json:
    value = sensor.figure.read(scope.chassis.readings())
    return {
        "@odata.id": f"{scope.path}#/Fans/{number}",
        "MemberId": str(number),
        "Name": sensor.figure.name,
        "PhysicalContext": sensor.where,
        "Reading": None if value is None else int(value),
        "ReadingUnits": "RPM",
        "LowerThresholdCritical": sensor.figure.low,
        "Status": _status(value),
    }


def sensors(scope: Scope) -> Json:
    scope.chassis.server()
    return collection(scope.path, "SensorCollection", "Sensors", (f"{scope.path}/{id}" for id in _SENSORS))


def sensor(scope: Scope) -> Json:
    readings = scope.chassis.readings()
    found = _SENSORS.get(scope.names[1])
    if found is None:
        raise missing(scope.path)
    value, figure = found.figure.read(readings), found.figure
    limits = {"LowerCritical": figure.low, "UpperCritical": figure.high}
    return {
        "@odata.id": scope.path,
        "@odata.type": SCHEMAS["Sensor"],
        "Id": found.id,
        "Name": figure.name,
        "ReadingType": found.type,
        "ReadingUnits": found.unit,
        "Reading": value,
        "PhysicalContext": found.where,
        "Thresholds": {name: {"Reading": limit} for name, limit in limits.items() if limit is not None},
        "Status": _status(value),
    }


def _status(value: float | None) -> Json:
    return status() if value is not None else {"State": "StandbyOffline"}


async def change(scope: Scope, values: Json) -> Answer:
    await scope.chassis.update(lambda memory: with_lamp(memory, values))
    return None


RESOURCES = (
    Resource(f"{ROOT}/Chassis", enclosures),
    Resource(_CHASSIS, enclosure, patch=change, writable=LAMP),
    Resource(f"{_CHASSIS}/Power", power),
    Resource(f"{_CHASSIS}/Thermal", thermal),
    Resource(f"{_CHASSIS}/Sensors", sensors),
    Resource(f"{_CHASSIS}/Sensors/{{sensor}}", sensor),
)
