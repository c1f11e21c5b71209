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
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rackless.cluster.reference import ignition
from rackless.drivers.libvirt.firmware_xml import OVMF
from rackless.plan.addressing import plan_lab
from rackless.spec.lab import LabSpec

RACKLESS = [sys.executable, "-P", "-m", "rackless"]
MEMORY = "1GiB"
MEMORY_MIB = 1024
TARGETS = {"one host to the limit": 2.0, "three hosts to one": 1.6, "labd and Ironic, MB": 350.0}
PATIENCE = 900.0


def main(as_json: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="rackless-bench-") as folder:
        os.environ |= {"RACKLESS_STATE": f"{folder}/state", "RACKLESS_RUN": f"{folder}/run"}
        os.chdir(folder)
        one = measure_hosts(1)
        limit = measure_limit(Path(folder), one.pop("supplies"))
        three = measure_hosts(3)
    bound = sum(limit.values())
    measured = {
        "one host to the limit": one["seconds"] / bound,
        "three hosts to one": three["seconds"] / one["seconds"],
        "labd and Ironic, MB": max(one["memory"], three["memory"]),
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
        started = time.perf_counter()
        lines = rackless("up", "--json").splitlines()
        seconds = time.perf_counter() - started
        return {
            "seconds": seconds,
            "phases": _phases(lines) if count == 1 else {},
            "memory": _memory(),
            "supplies": json.loads(Path(os.environ["RACKLESS_STATE"], "lab/supplies.json").read_text()),
        }
    finally:
        rackless("destroy", "--yes")


def measure_limit(folder: Path, supplies: dict[str, Any]) -> dict[str, float]:
    disk = folder / "disk.raw"
    return {
        "bare boot of the ramdisk": _boot_ramdisk(supplies),
        "raw copy of the image": _copy(Path(supplies["node"]), disk),
        "bare boot of the node": _boot_node(folder, disk),
    }


def _boot_ramdisk(supplies: dict[str, Any]) -> float:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        url = f"http://10.0.2.2:{listener.getsockname()[1]}"  # slirp's name for our loopback
        line = f"console=ttyS0 nofb net.ifnames=0 mitigations=off ipa-api-url={url} ipa-insecure=1"
        boot = ["-kernel", supplies["kernel"], "-initrd", supplies["initramfs"], "-append", line]
        # without a disk the agent would wait half a minute for one
        boot += ["-device", "virtio-scsi-pci", "-drive", "if=none,id=disk,driver=null-co,size=8G"]
        boot += ["-device", "scsi-hd,drive=disk"]
        with _qemu([*boot, "-netdev", "user,id=net"]) as started:
            listener.accept()[0].close()
            return time.perf_counter() - started


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
    ) as started:  # fmt: skip
        _until(lambda: _greets(port))
        return time.perf_counter() - started


@contextmanager
def _qemu(arguments: list[Any]) -> Iterator[float]:
    command = ["qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "Nehalem", "-m", str(MEMORY_MIB), "-smp", "1"]
    command += [
        "-nodefaults",
        "-display",
        "none",
        "-serial",
        "file:console.log",
        "-device",
        "virtio-net-pci,netdev=net",
    ]
    started = time.perf_counter()
    process = subprocess.Popen([*command, *map(str, arguments)], stdin=subprocess.DEVNULL)
    try:
        yield started
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
    titles = {event["step"]: event["title"] for event in events if event["event"] == "step-started"}
    ended = [event for event in events if event["event"] == "step-finished" and "node-0: " in titles[event["step"]]]
    return {titles[event["step"]].removeprefix("node-0: "): event["seconds"] for event in ended}


def _memory() -> float:
    """Megabytes of the daemon and of Ironic, shared pages counted in parts."""
    pin = os.stat(Path(os.environ["RACKLESS_RUN"], "lab/net")).st_ino
    total = 0
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or os.stat(entry / "ns/net").st_ino != pin:
                continue
            command = (entry / "cmdline").read_bytes()
            if b"rackless.daemon" in command or b"ironic" in command:
                rollup = (entry / "smaps_rollup").read_text()
                total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
        except OSError:  # it has gone, or is not ours to look at
            continue
    return total * 1024 / 1e6


def rackless(*arguments: str) -> str:
    return subprocess.run([*RACKLESS, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main("--json" in sys.argv))
