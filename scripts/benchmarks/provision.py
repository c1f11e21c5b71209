"""From BMC to node: one host, three at once; beside them the limit, which is what QEMU needs for the same boots and bytes.

The limit is measured in the same run on the same emulated machine: the deploy ramdisk booted directly until its agent
calls, the image copied raw to a disk file, and a disk with the image booted until sshd answers. No firmware finds an ISO,
no inspection, no wiping, no second power cycle is in it.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from parts.place import RACKLESS, place

from rackless.cluster.reference import ignition
from rackless.drivers.libvirt.firmware_xml import OVMF
from rackless.plan.addressing import plan_lab
from rackless.spec.lab import LabSpec

MEMORY = "1GiB"
MEMORY_MIB = 1024
RAMDISK_MIB = 768
TARGETS = {
    "one host to the limit": 2.0,
    "three hosts to one": 1.6,
    "Ironic, CPU-s a host": 4.0,
    "labd and Ironic, MB": 350.0,
    "ramdisk, MB": 55.0,
    "first heartbeat to the ramdisk's bare boot": 5.2,
}
PATIENCE = 900.0


def main(as_json: bool) -> int:
    with place() as folder:
        one = measure_hosts(1)
        supplies = one.pop("supplies")
        heartbeat, kernel, limit = measure_limit(folder, supplies)
        three = measure_hosts(3)
    bound = sum(limit.values())
    measured = {
        "one host to the limit": one["seconds"] / bound,
        "three hosts to one": three["seconds"] / one["seconds"],
        "Ironic, CPU-s a host": three["ironic"] / 3,
        "labd and Ironic, MB": max(one["memory"], three["memory"]),
        "ramdisk, MB": Path(supplies["initramfs"]).stat().st_size / 1e6,
        "first heartbeat to the ramdisk's bare boot": heartbeat / kernel,
    }
    targets = {
        name: {"measured": round(measured[name], 2), "target": target, "ok": measured[name] <= target}
        for name, target in TARGETS.items()
    }
    seconds = {
        **{f"limit: {name}": round(value, 1) for name, value in limit.items()},
        "limit": round(bound, 1),
        "one host": round(one["seconds"], 1),
        "three hosts": round(three["seconds"], 1),
    }
    busy = round(os.getloadavg()[0] / (os.cpu_count() or 1), 1)
    if as_json:
        phases = {"one": one["phases"], "three": three["phases"]}
        report = {
            "benchmark": "provision",
            "memory": MEMORY,
            "load per CPU": busy,
            "seconds": seconds,
            "phases": phases,
        }
        print(json.dumps({**report, "targets": targets}))
        return 0
    for name, value in seconds.items():
        print(f"{name:<28} {value:>7.1f} s")
    for name, value in one["phases"].items():
        print(f"  {name:<26} {value:>7.1f} s")
    print(f"\n{'':<28} {'measured':>8} {'target':>8}")
    for name, row in targets.items():
        print(f"{name:<28} {row['measured']:>8.2f} {row['target']:>8.2f}  {'ok' if row['ok'] else 'MISSED'}")
    print(f"\nservers of {MEMORY}; load per CPU during the run: {busy}")
    return 0


def measure_hosts(count: int) -> dict[str, Any]:
    """Seconds from BMCs that nobody has spoken to until every node answers over ssh."""
    Path("lab.yaml").write_text(f"servers: {{node: {{role: worker, count: {count}, memory: {MEMORY}}}}}\n")
    rackless("up", "--until", "engine")
    try:
        before = _worked()
        started = time.perf_counter()
        lines = rackless("up", "--json").splitlines()
        seconds = time.perf_counter() - started
        return {
            "seconds": seconds,
            "ironic": _worked() - before,
            "phases": _phases(lines) if count == 1 else {},
            "memory": _memory(),
            "supplies": json.loads(Path(os.environ["RACKLESS_STATE"], "lab/supplies.json").read_text()),
        }
    finally:
        rackless("destroy", "--yes")


def measure_limit(folder: Path, supplies: dict[str, Any]) -> tuple[float, float, dict[str, float]]:
    """Processor seconds until a first heartbeat and of the bare boot before it; the seconds of each part of the limit."""
    disk = folder / "disk.raw"
    called, worked = _boot_ramdisk(supplies)
    return (
        worked,
        _boot_nothing(supplies),
        {
            "bare boot of the ramdisk": called,
            "raw copy of the image": _copy(Path(supplies["node"]), disk),
            "bare boot of the node": _boot_node(folder, disk),
        },
    )


def _boot_ramdisk(supplies: dict[str, Any]) -> tuple[float, float]:
    """Seconds until the agent calls for the first time, and processor seconds until its first heartbeat."""
    with _stand_in() as ironic:
        url = f"http://10.0.2.2:{ironic.server_port}"  # slirp's name for our loopback
        line = f"console=ttyS0 nofb net.ifnames=0 mitigations=off ipa-api-url={url} ipa-insecure=1"
        boot = ["-kernel", supplies["kernel"], "-initrd", supplies["initramfs"], "-append", line]
        # without a disk the agent would wait half a minute for one
        boot += ["-device", "virtio-scsi-pci", "-drive", "if=none,id=disk,driver=null-co,size=8G"]
        boot += ["-device", "scsi-hd,drive=disk"]
        with _qemu([*boot, "-netdev", "user,id=net"], RAMDISK_MIB) as (started, pid):
            _until(lambda: bool(ironic.calls))
            called = time.perf_counter() - started
            _until(lambda: any(path.startswith("/v1/heartbeat") for path in ironic.calls))
            ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return called, (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


def _boot_nothing(supplies: dict[str, Any]) -> float:
    """Processor seconds of the same kernel with the same ramdisk unpacked, and nothing started in it."""
    boot = ["-kernel", supplies["kernel"], "-initrd", supplies["initramfs"], "-no-reboot"]
    boot += ["-append", "console=ttyS0 nofb mitigations=off rdinit=/none panic=-1", "-netdev", "user,id=net"]
    before = os.times()
    with _qemu(boot, RAMDISK_MIB) as (_, pid):
        _until(lambda: _has_ended(pid))
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _has_ended(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


class _StandIn(ThreadingHTTPServer):
    """Says to an agent what Ironic would say, and keeps what it asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.calls: list[str] = []


class _Answers(BaseHTTPRequestHandler):
    server: _StandIn

    def do_GET(self) -> None:
        version = {"id": "v1", "version": "1.99", "min_version": "1.1"}
        node = {"uuid": "11111111-1111-4111-8111-111111111111", "properties": {}}
        node |= {"instance_info": {}, "driver_internal_info": {}}
        looked_up = {"node": node, "config": {"heartbeat_timeout": 300, "agent_token": "secret"}}
        root = {"default_version": version, "versions": [version]}
        self._answer(200, looked_up if self.path.startswith("/v1/lookup") else root)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(202, {})

    def _answer(self, code: int, value: object) -> None:
        self.server.calls.append(self.path)
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Calls are kept, not printed."""


@contextmanager
def _stand_in() -> Iterator[_StandIn]:
    with _StandIn() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def _copy(image: Path, disk: Path) -> float:
    started = time.perf_counter()
    subprocess.run(["qemu-img", "convert", "-O", "raw", image, disk], check=True)
    with disk.open("rb+") as written:
        os.fsync(written)
    return time.perf_counter() - started


def _boot_node(folder: Path, disk: Path) -> float:
    subprocess.run(["qemu-img", "resize", "-q", "-f", "raw", disk, "8G"], check=True)
    code, variables = next((code, variables) for code, variables in OVMF if Path(code).exists())
    shutil.copy(variables, folder / "vars.fd")
    plan = plan_lab(LabSpec.model_validate({"servers": {"node": {"role": "worker", "count": 1}}}))
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    secrets = ignition.NodeSecrets(key.read_text())
    config = ignition.render(plan.servers[0], plan, key.with_suffix(".pub").read_text(), secrets)
    (folder / "config.ign").write_text(config)
    port = _free_port()
    with _qemu(
        [
            "-drive", f"if=pflash,format=raw,readonly=on,file={code}",
            "-drive", f"if=pflash,format=raw,file={folder / 'vars.fd'}",
            "-device", "virtio-scsi-pci", "-drive", f"if=none,id=disk,format=raw,file={disk}",
            "-device", "scsi-hd,drive=disk", "-fw_cfg", f"name=opt/com.coreos/config,file={folder / 'config.ign'}",
            "-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{port}-:22",
        ]
    ) as (started, _):  # fmt: skip
        _until(lambda: _greets(port))
        return time.perf_counter() - started


@contextmanager
def _qemu(arguments: list[Any], memory: int = MEMORY_MIB) -> Iterator[tuple[float, int]]:
    """When it was started, and its process."""
    command = ["qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "Nehalem", "-m", str(memory), "-smp", "1"]
    command += ["-nodefaults", "-display", "none", "-serial", "file:console.log"]
    command += ["-device", "virtio-net-pci,netdev=net"]
    started = time.perf_counter()
    process = subprocess.Popen([*command, *map(str, arguments)], stdin=subprocess.DEVNULL)
    try:
        yield started, process.pid
    finally:
        process.kill()
        process.wait()


def _greets(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.settimeout(2)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(Path("console.log").read_text(errors="replace")[-2000:])
        time.sleep(0.2)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _phases(lines: list[str]) -> dict[str, float]:
    """What each phase of the one host took, from the events of `up`."""
    events = [json.loads(line) for line in lines]
    ours = (event for event in events if event.get("subject") == "host/node-0")
    phases = {event["step"]: event["phase"] for event in ours if "phase" in event}
    ended = [event for event in events if event["event"] == "step-finished" and event["step"] in phases]
    return {phases[event["step"]]: event["seconds"] for event in ended}


def _memory() -> float:
    """Megabytes of the daemon and of Ironic, shared pages counted in parts."""
    total = 0
    for process in _processes(b"rackless.labd", b"rackless.holder", b"ironic"):
        with suppress(OSError):  # it has gone
            rollup = (process / "smaps_rollup").read_text()
            total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total * 1024 / 1e6


def _worked() -> float:
    """Processor seconds of Ironic and of the programs that it has started and that have ended, so far."""
    ticks = 0
    for process in _processes(b"ironic"):
        with suppress(OSError):
            ticks += sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _processes(*names: bytes) -> Iterator[Path]:
    """Those of the lab that have one of the names in their command line."""
    pin = os.stat(Path(os.environ["RACKLESS_RUN"], "lab/net")).st_ino
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it has gone, or is not ours to look at
            if entry.name.isdigit() and os.stat(entry / "ns/net").st_ino == pin:
                command = (entry / "cmdline").read_bytes()
                if any(name in command for name in names):
                    yield entry


def rackless(*arguments: str) -> str:
    return subprocess.run([*RACKLESS, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main("--json" in sys.argv))
