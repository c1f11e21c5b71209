"""IPMI beside virtualbmc: commands in a session, sessions, memory of many BMCs, and how soon a thousand listen.

Both have the same domains of one private libvirtd (its pretend driver: no QEMU is started) behind them and are asked by the
same client, ipmitool with suite 3, which is all virtualbmc has, in turns. virtualbmc comes from PyPI into an environment of
its own; ours is `rackless bmc serve`, Redfish included. Of several rounds the best one of each counts: the others measure the
neighbours. How soon a thousand listen is measured with a fake hypervisor.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from rackless.drivers.libvirt.binding import libvirt

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.real.private_libvirtd import private_libvirtd

from bmc import _define

PEER = Path.home() / ".cache/rackless-tests/virtualbmc"
COMMANDS, ROUNDS, SESSIONS, MANY, MOST = 1000, 5, 20, 100, 1000
TARGETS = {"commands_ratio": (3.0, "least"), "memory_ratio": (0.1, "most"), "start_1000_seconds": (1.0, "most")}
MORE_IS_BETTER = ("commands_per_second",)
TICK = os.sysconf("SC_CLK_TCK")


def main(as_json: bool) -> int:
    if shutil.which("ipmitool") is None:
        print("ipmitool is not installed", file=sys.stderr)
        return 2
    ensure_peer()
    with tempfile.TemporaryDirectory(prefix="rackless-bench-") as name:
        folder = Path(name)
        with private_libvirtd(folder / "libvirtd") as daemon:
            uri = daemon.uri("test:///default")
            # the pretend driver forgets everything with its last connection
            back = Back(daemon.process.pid, uri, libvirt().open(uri))
            one = side_by_side(folder, back, 1, ROUNDS)
            many = side_by_side(folder, back, MANY, 1)
        seconds = start_seconds(folder / "most", MOST)
    ours, theirs = one["rackless"], one["virtualbmc"]
    measured = {
        "commands_ratio": ours["commands_per_second"] / theirs["commands_per_second"],
        "memory_ratio": many["rackless"]["pss_used_mb"] / many["virtualbmc"]["pss_used_mb"],
        "start_1000_seconds": seconds,
    }
    targets = {
        name: {"measured": round(measured[name], 3), "target": target, "ok": _holds(measured[name], target, kind)}
        for name, (target, kind) in TARGETS.items()
    }
    if as_json:
        print(json.dumps({"benchmark": "ipmi", "one": one, "hundred": many, "targets": targets}))
    else:
        show(one, many, targets)
    return 0


def _holds(measured: float, target: float, kind: str) -> bool:
    return measured >= target if kind == "least" else measured <= target


def show(
    one: dict[str, dict[str, float]], many: dict[str, dict[str, float]], targets: dict[str, dict[str, object]]
) -> None:
    for title, rows in ((f"1 BMC, best of {ROUNDS} rounds", one), (f"{MANY} BMCs", many)):
        print(f"{title:<28} {'rackless':>12} {'virtualbmc':>12}")
        for name, value in rows["rackless"].items():
            print(f"  {name:<26} {value:>12.2f} {rows['virtualbmc'][name]:>12.2f}")
    for name, row in targets.items():
        print(f"{name:<28} {row['measured']:>12} {row['target']:>12}  {'ok' if row['ok'] else 'MISSED'}")


def ensure_peer() -> None:
    if not (PEER / "bin/vbmcd").exists():
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--system-site-packages", PEER], check=True)
        subprocess.run([PEER / "bin/pip", "install", "--quiet", "virtualbmc"], check=True, stderr=subprocess.DEVNULL)


@dataclass(frozen=True)
class Back:
    """The libvirtd behind both."""

    pid: int
    uri: str
    connection: Any


def side_by_side(folder: Path, back: Back, count: int, rounds: int) -> dict[str, dict[str, float]]:
    """Both run at the same time and are asked in turns, so that what else the computer does is shared."""
    _define(back.connection, count, "test")
    with rackless(folder / f"ours-{count}", back.uri, count) as (our_pid, our_port):
        with virtualbmc(folder / f"theirs-{count}", back.uri, count) as (their_pid, their_port):
            sides = {"rackless": (our_pid, our_port), "virtualbmc": (their_pid, their_port)}
            fresh = {name: pss(pid) for name, (pid, _) in sides.items()}
            taken: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
            for _ in range(rounds):
                for name, (pid, port) in sides.items():
                    taken[name].append(measure(pid, back.pid, port, count))
            return {
                name: {key: (max if key in MORE_IS_BETTER else min)(row[key] for row in rows) for key in rows[0]}
                | {"pss_fresh_mb": fresh[name], "pss_used_mb": pss(sides[name][0])}
                for name, rows in taken.items()
            }


def measure(pid: int, libvirtd: int, port: int, count: int) -> dict[str, float]:
    before, behind, started = cpu(pid), cpu(libvirtd), time.perf_counter()
    done = in_one_session(port)
    seconds, spent, asked = time.perf_counter() - started, cpu(pid) - before, cpu(libvirtd) - behind
    before, started = cpu(pid), time.perf_counter()
    for number in range(max(SESSIONS, count)):
        subprocess.run([*ipmitool(port + number % count), "power", "status"], check=True, capture_output=True)
    sessions = max(SESSIONS, count)
    return {
        "commands_per_second": done / seconds,
        "cpu_ms_per_command": 1000 * spent / done,
        "libvirtd_ms_per_command": 1000 * asked / done,
        "session_ms": 1000 * (time.perf_counter() - started) / sessions,
        "cpu_ms_per_session": 1000 * (cpu(pid) - before) / sessions,
    }


def in_one_session(port: int) -> int:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as script:
        script.write("power status\n" * COMMANDS)
        script.flush()
        answer = subprocess.run([*ipmitool(port), "exec", script.name], capture_output=True, text=True, check=True)
    return answer.stdout.count("Chassis Power is")


def ipmitool(port: int) -> list[str]:
    return ["ipmitool", "-I", "lanplus", "-C", "3", "-H", "127.0.0.1", "-p", str(port), "-U", "admin", "-P", "password"]


@contextmanager
def rackless(folder: Path, uri: str, count: int) -> Iterator[tuple[int, int]]:
    port = 30000
    folder.mkdir()
    (folder / "password").write_text("password")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        redfish = probe.getsockname()[1]
    command = [sys.executable, "-m", "rackless", "bmc", "serve", "--uri", uri, "--ipmi-base-port", str(port)]
    command += ["--redfish-port", str(redfish), "--http", "--password-file", str(folder / "password")]
    with process([*command, "--state", str(folder / "state")]) as pid:
        await_ports(port, count)
        yield pid, port


@contextmanager
def virtualbmc(folder: Path, uri: str, count: int) -> Iterator[tuple[int, int]]:
    port = 32000
    (folder / "config").mkdir(parents=True)
    for number in range(count):
        name = f"bench-{number:04}"
        (folder / "config" / name).mkdir()
        lines: dict[str, Any] = {"username": "admin", "password": "password", "address": "127.0.0.1"}
        lines |= {"port": port + number, "domain_name": name, "libvirt_uri": uri, "active": True}
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        (folder / "config" / name / "config").write_text(f"[VirtualBMC]\n{text}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        control = probe.getsockname()[1]
    settings = f"[default]\nconfig_dir={folder}/config\npid_file={folder}/pid\nserver_port={control}\n"
    (folder / "conf").write_text(f"{settings}[log]\nlogfile={folder}/log\n")
    with process([str(PEER / "bin/vbmcd"), "--foreground"], VIRTUALBMC_CONFIG=str(folder / "conf")) as pid:
        await_ports(port, count)
        yield pid, port


@contextmanager
def process(command: list[str], **environment: str) -> Iterator[int]:
    quiet = subprocess.DEVNULL
    started = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=quiet, stderr=quiet, start_new_session=True
    )
    try:
        yield started.pid
    finally:
        children = tree(started.pid)
        started.terminate()
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            started.wait()


def await_ports(first: int, count: int) -> None:
    wanted = {first + number for number in range(count)}
    for _ in range(1200):
        lines = Path("/proc/net/udp").read_text().splitlines()[1:] + Path("/proc/net/udp6").read_text().splitlines()[1:]
        if wanted <= {int(line.split()[1].rpartition(":")[2], 16) for line in lines}:
            return
        time.sleep(0.05)
    raise SystemExit(f"the ports from {first} on were not opened within a minute")


def tree(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += tree(int(child))
    return found


def cpu(pid: int) -> float:
    fields = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in tree(pid)]
    return sum(int(field[11]) + int(field[12]) for field in fields) / TICK


def pss(pid: int) -> float:
    lines = [line for one in tree(pid) for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def start_seconds(folder: Path, count: int) -> float:
    """How long the IPMI side of a fleet of so many takes to listen, in a process of its own."""
    answer = subprocess.run(
        [sys.executable, __file__, "--start", str(folder), str(count), "30000"],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(answer.stdout)


async def start(folder: Path, count: int, port: int) -> None:
    from rackless.bmc.core.accounts import Account
    from rackless.bmc.fleet import Bmc, Fleet
    from rackless.bmc.ipmi.sites import Ipmi
    from rackless.drivers.fake.hypervisor import FakeHypervisor
    from rackless.events import Bus
    from rackless.ports.hypervisor import BootDevice, Firmware, Power, ServerState

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    names = [f"server-{number:04d}" for number in range(count)]
    hypervisor = FakeHypervisor()
    hypervisor.define(
        ServerState(name, UUID(int=number), Power.OFF, 8192, 4, Firmware.UEFI, (), (), None, BootDevice.DISK)
        for number, name in enumerate(names)
    )
    ipmi = Ipmi(base_port=port, address="127.0.0.1")
    fleet = Fleet(
        [Bmc(name, f"127.77.{number // 250}.{number % 250 + 1}") for number, name in enumerate(names)],
        hypervisor,
        [Account("admin", "password")],
        state=folder / "state",
        media=folder / "media",
        bus=Bus(),
        tls=None,
        port=18443,
        ipmi=ipmi,
    )
    folder.mkdir(parents=True, exist_ok=True)
    assert fleet.ipmi is not None
    ipmi_side, fleet.ipmi = fleet.ipmi, None
    await fleet.start()
    started = time.perf_counter()
    ipmi_side.ensure({name: fleet.chassis(name) for name in names})
    print(time.perf_counter() - started)
    await ipmi_side.stop()
    await fleet.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--start":
        asyncio.run(start(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
        sys.exit()
    sys.exit(main("--json" in sys.argv))
