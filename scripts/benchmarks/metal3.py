"""Hosts and Machines by the hundred: the real controllers and API (a process, TLS, SQLite with its syncs), nothing provisioned.

Created to available, as many Machines to provisioned, scaled to zero, and at rest; first with a tenth of the hosts, so that the
growth is told. To reach with 1000: available within 120 seconds of two cores, at most 40 calls of the API a host for all
of it, growth at most linear; at rest 1 call per host and 5 minutes, and 3 % of a core.

    scripts/bench metal3 [--hosts 1000] [--rest 60] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parts.api_process import served_api

from rackless.controllers.host import host_controller
from rackless.controllers.machines.controller import machine_controller
from rackless.controllers.machines.sets import machineset_controller
from rackless.controllers.runtime.loop import BUCKETS
from rackless.controllers.runtime.runtime import Runtime
from rackless.drivers.clock import SystemClock
from rackless.drivers.fake.provisioner import SECONDS, FakeProvisioner
from rackless.drivers.kubernetes.client import Client
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.events import Bus
from rackless.ports.api import Access
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import baremetalhost, secret

CPU_AVAILABLE_S, CALLS_A_HOST, REST_CPU = 240.0, 40.0, 0.03
"""Processor seconds until all are available (two minutes of two cores), calls, and cores at rest."""
IMAGE = {"url": "http://192.0.2.1/node.qcow2", "checksum": "ab" * 32}
BIOS = {"ProcTurboMode": {"value": "Enabled", "allowable_values": ["Enabled", "Disabled"], "read_only": False}}
"""What every host shows of its firmware: each gets a HostFirmwareSettings, as with Redfish."""
AT_ONCE = 32
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--rest", type=float, default=60.0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    small = asyncio.run(_measure(max(10, asked.hosts // 10), 0.0))
    large = asyncio.run(_measure(asked.hosts, asked.rest))
    growth = (large["cpu_s"] / large["hosts"]) / (small["cpu_s"] / small["hosts"])
    targets = {
        "available_cpu_s": (large["available"]["cpu_s"], CPU_AVAILABLE_S),
        "calls_a_host": (large["calls_a_host"], CALLS_A_HOST),
        "growth": (round(growth, 2), 1.1),
        **({"rest_cores": (large["rest"]["cores"], REST_CPU)} if asked.rest else {}),
        **(
            {"rest_calls_a_host_and_5_minutes": (large["rest"]["calls_a_host_and_5_minutes"], 1.0)}
            if asked.rest
            else {}
        ),
    }
    ok = all(found <= limit for found, limit in targets.values())
    if asked.json:
        print(json.dumps({"small": small, "large": large, "targets": targets, "ok": ok}))
        return 0 if ok else 1
    for row in (small, large):
        dropped = f"{row['events_dropped_a_host']:.1f} of them Events that were dropped"
        print(f"{row['hosts']} hosts: {row['calls_a_host']:.1f} calls a host, {dropped}")
        print(f"  memory: controllers {row['mib']:.0f} MiB, API {row['api_mib']:.0f} MiB")
        for phase in ("available", "provisioned", "scaled to zero"):
            part = row[phase]
            print(
                f"  {phase:<15} {part['seconds']:7.1f} s  {part['cpu_s']:7.1f} CPU-s (controllers {part['own_cpu_s']:.1f}, API "
                f"{part['api_cpu_s']:.1f})  {part['hosts_a_minute']:6.0f} hosts/min  {part['calls_a_host']:5.1f} calls a host"
            )
        for name, (half, most) in row["looks"].items():
            print(f"  looks of {name:<15} p50 ≤ {half * 1000:g} ms  p99 ≤ {most * 1000:g} ms")
    for name, (found, limit) in targets.items():
        print(f"  {'ok ' if found <= limit else 'NOT'} {name}: {found:g} (at most {limit:g})")
    return 0 if ok else 1


class _Site:
    def __init__(self, folder: Path, process: subprocess.Popen[bytes], url: str) -> None:
        self.process, self.calls = process, 0
        pki = folder / "pki"
        self.access = Access(url, pki / "ca.crt", pki / "admin.crt", pki / "admin.key")
        self.resources = KubernetesResources(self.access, patience=60)
        client: Client = self.resources._client
        call = client.call

        async def counted(*args: Any, **more: Any) -> Any:
            self.calls += 1
            return await call(*args, **more)

        client.call = counted  # type: ignore[method-assign]
        self.person = KubernetesResources(self.access, patience=60)

    def cpu(self) -> tuple[float, float]:
        return time.process_time(), _cpu_seconds(self.process.pid)

    async def phase(
        self, hosts: int, begin: Callable[[], Any], reached: Callable[[list[Record]], bool]
    ) -> dict[str, float]:
        at, (own, api), calls = time.monotonic(), self.cpu(), self.calls
        await begin()
        while not reached(list(self.cache)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        seconds, (own_after, api_after) = time.monotonic() - at, self.cpu()
        return {
            "seconds": round(seconds, 2),
            "own_cpu_s": round(own_after - own, 2),
            "api_cpu_s": round(api_after - api, 2),
            "cpu_s": round(own_after - own + api_after - api, 2),
            "hosts_a_minute": round(hosts / seconds * 60),
            "calls_a_host": round((self.calls - calls) / hosts, 2),
        }

    cache: Any = ()


async def _measure(hosts: int, rest: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="rackless-bench-") as name:
        folder = Path(name)
        async with served_api(folder) as (process, url):
            return await _with(_Site(folder, process, url), hosts, rest)


async def _with(site: _Site, hosts: int, rest: float) -> dict[str, Any]:
    person, clock = site.person, SystemClock()
    await person.ensure_namespace()
    await person.create(secret("bmc", {"username": "admin", "password": "x"}))
    await person.create(_set())
    runtime = Runtime(clock, Bus())
    controllers = (
        host_controller(runtime, site.resources, FakeProvisioner(clock, dict.fromkeys(SECONDS, 0.0), bios=BIOS)),
        machine_controller(runtime, site.resources, site.resources),
        machineset_controller(runtime, site.resources, site.resources),
    )
    site.cache = controllers[0].cache
    machines = controllers[1].cache
    task = asyncio.create_task(runtime.run())

    async def create() -> None:
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with slots:
                mac = "02:00:00:00:" + f"{number // 256:02x}:{number % 256:02x}"
                address = f"redfish://192.0.2.1/redfish/v1/Systems/{number}"
                await person.create(baremetalhost(f"host-{number}", address, "bmc", mac))

        await asyncio.gather(*(one(number) for number in range(hosts)))

    async def scale(many: int) -> None:
        await person.patch("MachineSet", "set", {"spec": {"replicas": many}})

    def all_in(state: str) -> Callable[[list[Record]], bool]:
        def reached(found: list[Record]) -> bool:
            states = [((each.get("status") or {}).get("provisioning") or {}).get("state") for each in found]
            return states == [state] * hosts

        return reached

    def provisioned(found: list[Record]) -> bool:
        phases = [(each.get("status") or {}).get("phase") for each in machines]
        return phases == ["Provisioned"] * hosts

    def empty(found: list[Record]) -> bool:
        return len(machines) == 0 and all_in("available")(found)

    try:
        row: dict[str, Any] = {"hosts": hosts}
        row["available"] = await site.phase(hosts, create, all_in("available"))
        row["provisioned"] = await site.phase(hosts, lambda: scale(hosts), provisioned)
        if rest:
            await _drained(runtime)
            row["rest"] = await _at_rest(site, hosts, rest)
        row["scaled to zero"] = await site.phase(hosts, lambda: scale(0), empty)
        await _drained(runtime)
        row["events_dropped_a_host"] = round(runtime.recorder.dropped / hosts, 2)
        row["calls_a_host"] = round(site.calls / hosts + row["events_dropped_a_host"], 2)  # as if all had been written
        row["cpu_s"] = round(sum(row[phase]["cpu_s"] for phase in ("available", "provisioned", "scaled to zero")), 2)
        row["mib"], row["api_mib"] = _peak_mib(os.getpid()), _peak_mib(site.process.pid)
        row["looks"] = {
            loop.controller.name: (_at(loop.counts.buckets, 0.5), _at(loop.counts.buckets, 0.99))
            for loop in runtime.loops
        }
        return row
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await person.close()
        await site.resources.close()


async def _drained(runtime: Runtime) -> None:
    """Until the Events are written, too."""
    while runtime.recorder.waiting:  # noqa: ASYNC110
        await asyncio.sleep(0.1)


async def _at_rest(site: _Site, hosts: int, seconds: float) -> dict[str, float]:
    (own, api), calls, at = site.cpu(), site.calls, time.monotonic()
    await asyncio.sleep(seconds)
    (own_after, api_after), passed = site.cpu(), time.monotonic() - at
    return {
        "cores": round((own_after - own + api_after - api) / passed, 4),
        "calls_a_host_and_5_minutes": round((site.calls - calls) / hosts * 300 / passed, 3),
    }


def _set() -> Record:
    labels = {"set": "set"}
    return {
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "MachineSet",
        "metadata": {"name": "set"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"providerSpec": {"value": {"image": IMAGE}}}},
        },
    }


def _at(buckets: list[int], part: float) -> float:
    """The upper end of the bucket in which this part of all looks is reached."""
    wanted, many = sum(buckets) * part, 0
    for limit, count in zip((*BUCKETS, float("inf")), buckets, strict=True):
        many += count
        if many >= wanted:
            return limit
    return float("inf")


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _peak_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return round(int(line.split()[1]) / 1024, 1)
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
