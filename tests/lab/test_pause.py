from collections.abc import Collection
from pathlib import Path
from uuid import uuid4

from rackless.drivers.fake.clock import VirtualClock
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.events import Bus
from rackless.lab.pause import ServersPause
from rackless.plan.addressing import plan_lab
from rackless.ports.hypervisor import Disk, Firmware, Nic, Power, Server
from rackless.spec.load import parse

PLAN = plan_lab(parse("servers: {node: {count: 3}}", "x"))


async def lab(folder: Path, *on: str) -> FakeHypervisor:
    hypervisor = FakeHypervisor()
    for planned in PLAN.servers:
        disk = Disk(folder / planned.name, 1 << 30, "x")
        nics = (Nic(planned.mac, "virbr0"),)
        await hypervisor.ensure(
            Server(planned.name, uuid4(), 1024, 1, Firmware.UEFI, (disk,), nics, folder / "nvram", folder / "log")
        )
    for name in on:
        await hypervisor.power_on(name)
    return hypervisor


async def powers(hypervisor: FakeHypervisor) -> list[Power]:
    return [state.power for state in await hypervisor.servers()]


async def test_the_bmcs_are_told_what_was_on_when_power_is_back(tmp_path: Path) -> None:
    hypervisor = await lab(tmp_path, "node-1")
    pause = ServersPause(tmp_path / "resting", hypervisor, VirtualClock(), Bus())
    assert await pause.begin(force=True) == ["node-1"]
    assert await powers(hypervisor) == [Power.OFF] * 3
    told: list[Collection[str]] = []

    async def power_returned(names: Collection[str]) -> None:
        told.append(names)

    for _ in range(2):
        await pause.end(power_returned)
    assert told == [["node-1"]], "a rest ends once"


async def test_a_system_that_does_not_hear_is_switched_off_in_the_end(tmp_path: Path) -> None:
    hypervisor = await lab(tmp_path, "node-0")
    hypervisor.deaf.add("node-0")
    clock = VirtualClock()
    pause = ServersPause(tmp_path / "resting", hypervisor, clock, Bus())
    await clock.run(pause.begin(force=False))
    assert await powers(hypervisor) == [Power.OFF] * 3
    assert clock.now() >= 60
