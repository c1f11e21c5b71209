"""What Ironic works for one host, from its registration to a system on its disk; without guests.

Ironic is the real one, in a network namespace of its own, the BMCs are ours with fake servers behind them, and the host
controller is ours. What boots on a server is an agent that only answers as one: it takes as long as it is told.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from uuid import UUID

from parts.agent import Agent

from rackless.bmc.core.accounts import Account
from rackless.bmc.fleet import Bmc, Fleet
from rackless.controllers.host import host_controller
from rackless.controllers.runtime.runtime import Runtime
from rackless.drivers.clock import SystemClock
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.drivers.fake.resources import MemoryResources
from rackless.drivers.ironic.config import IronicConfig
from rackless.drivers.ironic.environment import ensure_environment
from rackless.drivers.ironic.provisioner import IronicProvisioner
from rackless.drivers.ironic.service import IronicService
from rackless.drivers.process import LocalProcesses
from rackless.events import Bus, Event, StepFinished, StepStarted
from rackless.lab.files import FileServer
from rackless.ports.hypervisor import BootDevice, Disk, Firmware, Power, ServerState
from rackless.ports.provisioner import Image
from rackless.provisioning.baremetalhost import baremetalhost, secret
from rackless.provisioning.waiting import until_state
from rackless.run.paths import Roots
from rackless.trust.authority import Authority, Use

TARGET = 4.0
ADDRESS, NETWORK = "192.0.2.1", "192.0.2"
_CLONE_NEWNET = 0x40000000
_MEBI = 1 << 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench ironic", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--boot", type=float, default=20.0, help="seconds until an agent calls")
    parser.add_argument("--write", type=float, default=15.0, help="seconds to write an image")
    parser.add_argument("--attach", default="", help="a command that is given the process of Ironic while it works")
    given = parser.parse_args()
    roots = Roots.from_environment()
    venv = asyncio.run(ensure_environment(roots.cache, LocalProcesses(), Bus()))
    _leave_network()
    with tempfile.TemporaryDirectory(prefix="rackless-bench-") as folder:
        found = asyncio.run(measure(given, venv, Path(folder)))
    a_host = found["ironic"] / given.hosts
    if given.json:
        print(json.dumps({"benchmark": "ironic", **found, "targets": {
            "Ironic, CPU-s a host": {"measured": round(a_host, 2), "target": TARGET, "ok": a_host <= TARGET}}}))  # fmt: skip
        return 0
    print(
        f"{given.hosts} hosts in {found['seconds']:.0f} s, an agent boots in {given.boot:.0f} s, writes in {given.write:.0f} s"
    )
    print(f"Ironic until it speaks {found['start']:.1f} CPU-s")
    print(f"Ironic for a host      {a_host:.2f} CPU-s of {TARGET:.0f}: {'ok' if a_host <= TARGET else 'MISSED'}")
    for phase, seconds in found["phases"].items():
        print(f"  {phase:<14} {seconds:5.2f} CPU-s begun to ended, all hosts")
    for what, count in sorted(found["asked"].items(), key=lambda each: -each[1])[:14]:
        print(f"  {count / given.hosts:6.1f} × {what} a host")
    return 0


def _leave_network() -> None:
    """For a namespace with loopback and nothing else."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        sys.exit(f"no network namespace: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/24", "dev", "lo"], check=True)


async def measure(given: argparse.Namespace, venv: Path, folder: Path) -> dict[str, Any]:
    config = _config(folder)
    service = IronicService(config, venv, LocalProcesses(), log=folder / "ironic.log")
    files = FileServer(config.http_root, ADDRESS, port=6180)
    for number in range(given.hosts):
        for last in (_bmc(number), _agent(number)):
            await LocalProcesses().run(["ip", "address", "add", f"{last}/24", "dev", "lo"])
    await files.start()
    await service.start()
    try:
        started = _worked(service.pid or 0)
        if given.attach:
            await asyncio.create_subprocess_shell(given.attach.format(pid=service.pid))
            await asyncio.sleep(2)
        begun = time.monotonic()
        phases = await _install(given, config, folder, service.pid or 0)
        seconds = time.monotonic() - begun
        await asyncio.sleep(2)
        return {
            "start": started,
            "ironic": _worked(service.pid or 0) - started,
            "seconds": seconds,
            "phases": phases,
            "asked": _asked(folder / "ironic.log"),
        }
    finally:
        await service.stop()
        await files.stop()


async def _install(given: argparse.Namespace, config: IronicConfig, folder: Path, pid: int) -> dict[str, float]:
    hypervisor, bus, resources = FakeHypervisor(), Bus(), MemoryResources()
    names = [f"host-{number}" for number in range(given.hosts)]
    hypervisor.define([_server(number, name) for number, name in enumerate(names)])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(config.certificate, config.key)
    fleet = Fleet(
        [Bmc(name, _bmc(number)) for number, name in enumerate(names)], hypervisor, (Account("admin", "secret"),),
        state=folder / "state", media=folder / "media", bus=bus, tls=tls,
    )  # fmt: skip
    phases: dict[str, float] = {}
    begun: dict[str, tuple[str, float]] = {}

    def hear(event: Event) -> None:
        match event:
            case StepStarted(subject=subject, phase=phase) if subject.startswith("host/"):
                begun[event.step] = (phase, _worked(pid))
            case StepFinished(step=step) if step in begun:
                phase, before = begun.pop(step)
                phases[phase] = round(phases.get(phase, 0.0) + _worked(pid) - before, 2)

    bus.subscribe(hear)
    await fleet.start()
    agents = [
        asyncio.create_task(
            Agent(name, _agent(number), _mac(number), hypervisor, config.ca, folder, given.boot, given.write).live()
        )
        for number, name in enumerate(names)
    ]
    provisioner = IronicProvisioner(config.url, config.username, config.password, config.ca, database=config.database)
    runtime = Runtime(SystemClock(), bus)
    host_controller(runtime, resources, provisioner, bmc_ca=config.ca)
    running = asyncio.create_task(runtime.run())
    try:
        (config.http_root / "node.qcow2").write_bytes(os.urandom(_MEBI))
        image = Image(f"{config.http_url}/node.qcow2", "ab" * 32, "sha256", "qcow2")
        await resources.apply(secret("bmc", {"username": "admin", "password": "secret"}))
        await resources.apply(secret("ignition", {"userData": '{"ignition": {}}'}))
        for number, name in enumerate(names):
            address = f"redfish-virtualmedia://{_bmc(number)}/redfish/v1/Systems/1"
            await resources.apply(baremetalhost(name, address, "bmc", _mac(number), image, "ignition", True))
        await until_state(resources, names, within=900)
        return phases
    finally:
        for task in (running, *agents):
            task.cancel()
        for result in await asyncio.gather(running, *agents, return_exceptions=True):
            if isinstance(result, Exception):
                print(f"{type(result).__name__}: {result}", file=sys.stderr)
        await provisioner.close()
        await fleet.stop()


def _config(folder: Path) -> IronicConfig:
    authority = Authority.ensure(folder / "ca", "a measurement")
    names = [ADDRESS, "127.0.0.1", *(_bmc(number) for number in range(30))]
    leaf = authority.ensure_leaf("ironic", names, uses=(Use.SERVER,))
    images = folder / "boot"
    images.mkdir()
    for name, size in (("kernel", 8), ("initramfs", 50), ("esp", 3)):
        (images / name).write_bytes(os.urandom(4096) * (size * 256))
    return IronicConfig(
        state=folder / "ironic", address=IPv4Address(ADDRESS), certificate=leaf.certificate, key=leaf.key,
        ca=authority.certificate, username="rackless", password="secret", http_url=f"http://{ADDRESS}:6180",
        http_root=folder / "http", kernel=images / "kernel", ramdisk=images / "initramfs", esp=images / "esp",
        ipmi=False,
    )  # fmt: skip


def _server(number: int, name: str) -> ServerState:
    return ServerState(
        name=name, uuid=UUID(int=0xABC000 + number), power=Power.OFF, memory_mib=1536, vcpus=1, firmware=Firmware.UEFI,
        macs=(_mac(number),), disks=(Disk(Path("/disks/a"), 8 << 30, f"disk-{number}"),), media=None,
        boot_first=BootDevice.DISK,
    )  # fmt: skip


def _mac(number: int) -> str:
    return f"02:00:00:00:00:{number:02x}"


def _bmc(number: int) -> str:
    return f"{NETWORK}.{10 + number}"


def _agent(number: int) -> str:
    return f"{NETWORK}.{100 + number}"


def _worked(pid: int) -> float:
    """Processor seconds of the process group so far, with what it started and what has ended."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                words = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(words[2]) == pid:
                    ticks += sum(map(int, words[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _asked(log: Path) -> dict[str, int]:
    """How often Ironic was asked for what, by its own log."""
    found = re.findall(r"\b(GET|POST|PUT|PATCH|DELETE) (/v1/\w+)", log.read_text(errors="replace"))
    return dict(Counter(f"{method} {path}" for method, path in found))


if __name__ == "__main__":
    sys.exit(main())
